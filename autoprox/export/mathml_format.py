"""A tree as mathematics in a web page: its LaTeX formula, read into MathML."""

import re
from html import escape

from sympy.printing.pretty.pretty_symbology import greek_unicode

from autoprox.export.proxy_formats import latex
from autoprox.language import Tree

TOKEN = re.compile(r"\\[A-Za-z]+|\d+(?:\.\d+)?|\S")
SYMBOLS = {
    r"\sum": "∑",
    r"\odot": "⊙",
    r"\cdot": "⋅",
    r"\Vert": "‖",
    r"\langle": "⟨",
    r"\rangle": "⟩",
    "-": "\N{MINUS SIGN}",
}


def mathml(tree: Tree) -> str:
    """The tree as a MathML element, for web pages."""
    return mathml_from_latex(latex(tree))


def mathml_from_latex(formula: str) -> str:
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

    def row(self, end: str = "") -> str:
        """Read up to and with a token, or to the end of the formula."""
        parts = []
        while self._tokens and not self._at(end):
            parts.append(self._scripted())
        self._next()
        return parts[0] if len(parts) == 1 else f"<mrow>{''.join(parts)}</mrow>"

    def _scripted(self) -> str:
        base, scripts = self._atom(), {}
        while self._at("^", "_"):
            sign = self._next()
            scripts[sign] = self._atom()
        if not scripts:
            return base
        below, above = scripts.get("_", ""), scripts.get("^", "")
        name = "msubsup" if below and above else "msub" if below else "msup"
        return f"<{name}>{base}{below}{above}</{name}>"

    def _atom(self) -> str:
        token = self._next()
        if token == "{":
            return self.row("}")
        if token == r"\left":
            left, content = self._next(), self.row(r"\right")
            return f"<mrow>{_fence(left)}{content}{_fence(self._next())}</mrow>"
        if token == r"\frac":
            return f"<mfrac>{self._atom()}{self._atom()}</mfrac>"
        if token == r"\sqrt" and self._at("["):
            self._next()
            degree = self.row("]")
            return f"<mroot>{self._atom()}{degree}</mroot>"
        if token == r"\sqrt":
            return f"<msqrt>{self._atom()}</msqrt>"
        if token in (r"\operatorname", r"\mathrm"):
            self._next()
            letters = ""
            while self._tokens and (letter := self._next()) != "}":
                letters += letter
            return f'<mi mathvariant="normal">{escape(letters)}</mi>'
        if token[:1].isdigit():
            return f"<mn>{token}</mn>"
        if token in SYMBOLS or token in ("+", ",", "=", "*", "(", ")", "|"):
            return f"<mo>{escape(SYMBOLS.get(token, token))}</mo>"
        word = token.removeprefix("\\")
        letter = str(greek_unicode.get(word, word))
        upright = ' mathvariant="normal"' if len(letter) > 1 else ""
        return f"<mi{upright}>{escape(letter)}</mi>"


def _fence(token: str) -> str:
    return f'<mo fence="true" stretchy="true">{escape(SYMBOLS.get(token, token))}</mo>'
