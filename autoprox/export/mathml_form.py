"""A tree as mathematics in a web page: its LaTeX formula, read into MathML."""

import re
from html import escape

from sympy.printing.pretty.pretty_symbology import greek_unicode

from autoprox.export.latex_form import latex
from autoprox.export.registry import EXPORTERS
from autoprox.language import Tree

TOKEN = re.compile(r"\\[A-Za-z]+|\d+(?:\.\d+)?|\S")
SIGNS = {
    r"\sum": "∑",
    r"\odot": "⊙",
    r"\cdot": "⋅",
    r"\Vert": "‖",
    r"\langle": "⟨",
    r"\rangle": "⟩",
    "-": "\N{MINUS SIGN}",
}
OPERATORS = frozenset("+-,=*()|")


def mathml(tree: Tree) -> str:
    """The tree as a MathML element, for web pages."""
    return mathml_of(latex(tree))


def mathml_of(formula: str) -> str:
    """A formula in the LaTeX of the templates as a MathML element."""
    content = _Reader(TOKEN.findall(formula)).row()
    return f'<math display="block">{content}</math>'


class _Reader:
    """Reads the tokens of a formula from the left."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens[::-1]

    def _next(self) -> str:
        return self._tokens.pop() if self._tokens else ""

    def _at(self, *tokens: str) -> bool:
        return bool(self._tokens) and self._tokens[-1] in tokens

    def row(self, *ends: str) -> str:
        """All up to one of the ends, or to the end of the formula."""
        parts = []
        while self._tokens and not self._at(*ends):
            parts.append(self._scripted())
        return parts[0] if len(parts) == 1 else f"<mrow>{''.join(parts)}</mrow>"

    def _scripted(self) -> str:
        base, scripts = self._atom(), {}
        while self._at("^", "_"):
            sign = self._next()
            scripts[sign] = self._atom()
        if not scripts:
            return base
        below, above = scripts.get("_"), scripts.get("^")
        if below and above:
            return f"<msubsup>{base}{below}{above}</msubsup>"
        name = "msub" if below else "msup"
        return f"<{name}>{base}{below or above}</{name}>"

    def _atom(self) -> str:
        token = self._next()
        if token == "{":
            return self._closed("}")
        if token == r"\left":
            return self._fenced()
        if token == r"\frac":
            return f"<mfrac>{self._atom()}{self._atom()}</mfrac>"
        if token == r"\sqrt":
            return self._root()
        if token in (r"\operatorname", r"\mathrm"):
            return f'<mi mathvariant="normal">{escape(self._word())}</mi>'
        return _leaf(token)

    def _closed(self, end: str) -> str:
        content = self.row(end)
        self._next()
        return content

    def _fenced(self) -> str:
        left = self._next()
        content = self.row(r"\right")
        self._next()
        return f"<mrow>{_fence(left)}{content}{_fence(self._next())}</mrow>"

    def _root(self) -> str:
        if not self._at("["):
            return f"<msqrt>{self._atom()}</msqrt>"
        self._next()
        degree = self._closed("]")
        return f"<mroot>{self._atom()}{degree}</mroot>"

    def _word(self) -> str:
        self._next()
        letters = []
        while self._tokens and not self._at("}"):
            letters.append(self._next())
        self._next()
        return "".join(letters)


def _fence(token: str) -> str:
    return f'<mo fence="true" stretchy="true">{escape(SIGNS.get(token, token))}</mo>'


def _leaf(token: str) -> str:
    if token[:1].isdigit():
        return f"<mn>{token}</mn>"
    if token in SIGNS or token in OPERATORS:
        return f"<mo>{escape(SIGNS.get(token, token))}</mo>"
    word = token.removeprefix("\\")
    letter = str(greek_unicode.get(word, word))
    upright = ' mathvariant="normal"' if len(letter) > 1 else ""
    return f"<mi{upright}>{escape(letter)}</mi>"


EXPORTERS.register("mathml", mathml)
