"""The notation of operations: LaTeX templates, and sympy functions for what sympy lacks.

A template holds `<x>` and `<y>`, `<axis>` (the indices an operation runs over), `<row>` (the last
of them) and `<times>`. `<x:PRODUCT>` puts an x that binds more loosely than a product in
parentheses; `<x:|>` puts an x that may be negative between bars.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

import sympy
from sympy.printing.pretty.stringpict import prettyForm, stringPict

SUBSCRIPTS = {"i": "ᵢ", "j": "ⱼ", "k": "ₖ", "l": "ₗ"}


class BindingStrength(IntEnum):
    """The tightness with which a formula binds, from the loosest."""

    SIGNED = 0
    TERM = 1
    SERIES = 2
    PRODUCT = 3
    POWER = 4
    ATOM = 5


@dataclass(frozen=True)
class LatexFormula:
    """LaTeX text, with its binding and its sign for the formula around it."""

    text: str
    binding: BindingStrength = BindingStrength.ATOM
    nonnegative: bool = False

    def within(self, context: str) -> str:
        """The text where a template has `<x:context>`, in parentheses or bars if it needs them."""
        if context == "|":
            return self.text if self.nonnegative else rf"\left|{self.text}\right|"
        if context and self.binding < BindingStrength[context]:
            return rf"\left({self.text}\right)"
        return self.text


def fill_template(template: str, axis: str = "", **parts: LatexFormula) -> str:
    """Fill the placeholders of a template; `axis` has one letter for each index."""
    parts |= {"axis": LatexFormula(",".join(axis)), "row": LatexFormula(axis[-1:])}
    return re.sub(r"<(\w+):?([A-Z|]*)>", lambda match: parts[match[1]].within(match[2]), template)


def placeholders(template: str) -> set[str]:
    """The names of a template's placeholders."""
    return set(re.findall(r"<(\w+)[:>]", template))


class SympyOperation(sympy.Function):  # type: ignore[misc]
    """A sympy function for one of our operations: of `arity` values, then of its axis, if any.

    `text` is the template of its pretty form, in which `<x>` stands for all values, separated by
    commas; brackets around it grow with what they enclose.
    """

    text: ClassVar[str]
    latex: ClassVar[str]
    arity: ClassVar[int]
    reduces: ClassVar[bool]
    nonnegative: ClassVar[bool]
    is_real = True

    @property
    def axis(self) -> str:
        return "".join(symbol.name for symbol in self.args[self.arity :])

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        named = {
            name: LatexFormula(
                printer._print(x), BindingStrength.TERM if is_sum(x) else BindingStrength.ATOM
            )
            for name, x in zip("xy", self.args[: self.arity], strict=False)
        }
        text = fill_template(self.latex, self.axis, **named)
        return text if exp is None else rf"\left({text}\right)^{{{exp}}}"

    def _pretty(self, printer: Any) -> prettyForm:
        axis = "".join(SUBSCRIPTS[index] for index in self.axis)
        head, tail = self.text.replace("<axis>", axis).replace("<row>", axis[-1:]).split("<x>")
        form = self._separated([printer._print(x) for x in self.args[: self.arity]], printer)
        if tail:
            form = _enclosed(form, head[-1], tail[0])
            return prettyForm(*prettyForm(*form.left(head[:-1])).right(tail[1:]))
        if is_sum(self.args[0]):
            form = prettyForm(*form.parens())
        return prettyForm(*form.left(head), binding=prettyForm.ADD)

    @staticmethod
    def _separated(forms: list[prettyForm], printer: Any) -> prettyForm:
        """Pretty forms with commas between, in a column where the printer lacks the room."""
        marked = [*(prettyForm(*form.right(",")) for form in forms[:-1]), forms[-1]]
        line = marked[0]
        for form in marked[1:]:
            line = prettyForm(*stringPict.next(line, " ", form))
        if len(forms) == 1 or line.width() <= getattr(printer, "room", line.width()):
            return line
        lines = [text for form in marked for text in form.picture]
        width = max(map(len, lines))
        return prettyForm("\n".join(text.ljust(width) for text in lines), marked[0].baseline)


def _enclosed(form: prettyForm, left: str, right: str) -> prettyForm:
    """A pretty form between brackets of its own height."""
    if left == "(":
        return prettyForm(*form.parens(left, right))
    bars = [stringPict("\n".join(bar * form.height()), form.baseline) for bar in (left, right)]
    return prettyForm(*stringPict.next(bars[0], form, bars[1]))


def sympy_magnitude(x: sympy.Expr) -> sympy.Expr:
    """|x|, or x itself if it is plainly nonnegative; sympy's own test can take minutes."""
    plain = (
        (x.is_Atom and x.is_nonnegative)
        or isinstance(x, (sympy.Abs, sympy.exp, sympy.Max))
        or (isinstance(x, SympyOperation) and x.nonnegative)
        or (x.is_Pow and x.exp in (2, sympy.Rational(1, 2)))
    )
    return x if plain else sympy.Abs(x, evaluate=False)


def is_sum(x: sympy.Expr) -> bool:
    """Whether an expression is a sum, or has a minus sign in front."""
    return bool(x.is_Add or (x.is_Mul and x.args[0] == -1) or (x.is_Number and x.is_negative))
