"""How an operation is written: LaTeX templates, and sympy functions for what sympy lacks.

A template holds `<x>` and `<y>`, `<axis>` (the indices an operation runs over), `<row>` (the last
of them) and `<times>`. `<x:PRODUCT>` puts an x that binds more loosely than a product in
parentheses; `<x:|>` puts an x that may be negative between bars.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

import sympy
from sympy.printing.pretty.stringpict import prettyForm, stringPict

SUBSCRIPTS = {"i": "ᵢ", "j": "ⱼ", "k": "ₖ", "l": "ₗ"}


class Binding(IntEnum):
    """How tightly a formula holds together."""

    SIGNED = 0
    TERM = 1
    SERIES = 2
    PRODUCT = 3
    POWER = 4
    ATOM = 5


@dataclass(frozen=True)
class Formula:
    """LaTeX text, with what a formula around it must know."""

    text: str
    binding: Binding = Binding.ATOM
    nonnegative: bool = False

    def within(self, place: str) -> str:
        if place == "|":
            return self.text if self.nonnegative else rf"\left|{self.text}\right|"
        if place and self.binding < Binding[place]:
            return rf"\left({self.text}\right)"
        return self.text


def fill(template: str, axis: str = "", **parts: Formula) -> str:
    """The template with every place filled; `axis` has one letter an index."""
    parts |= {"axis": Formula(",".join(axis)), "row": Formula(axis[-1:])}
    return re.sub(r"<(\w+):?([A-Z|]*)>", lambda place: parts[place[1]].within(place[2]), template)


def places(template: str) -> set[str]:
    """The names of a template's places."""
    return set(re.findall(r"<(\w+)[:>]", template))


class Operation(sympy.Function):  # type: ignore[misc]
    """A sympy function for an operation of ours: of `arity` values, and of the axis if it has one.

    `text` is the template of its pretty form, in which `<x>` stands for all values, separated by
    commas; brackets around it grow with what they enclose.
    """

    text: ClassVar[str]
    latex: ClassVar[str]
    arity: ClassVar[int]
    reduces: ClassVar[bool]
    nonnegative: ClassVar[bool]
    is_real = True

    @classmethod
    def named(
        cls, name: str, text: str, latex: str, *, arity: int, reduces: bool, nonnegative: bool
    ) -> type[Operation]:
        attributes: dict[str, Any] = {"text": text, "latex": latex, "arity": arity}
        attributes |= {"reduces": reduces, "nonnegative": nonnegative}
        if nonnegative:
            attributes["is_nonnegative"] = True
        return type(name, (cls,), attributes)

    @property
    def values(self) -> tuple[sympy.Expr, ...]:
        return tuple(self.args[: self.arity])

    @property
    def axis(self) -> str:
        return "".join(symbol.name for symbol in self.args[self.arity :])

    def _latex(self, printer: Any, exp: str | None = None) -> str:
        named = {
            place: Formula(printer._print(x), Binding.TERM if is_sum(x) else Binding.ATOM)
            for place, x in zip("xy", self.values, strict=False)
        }
        text = fill(self.latex, self.axis, **named)
        return text if exp is None else rf"\left({text}\right)^{{{exp}}}"

    def _pretty(self, printer: Any) -> prettyForm:
        axis = "".join(SUBSCRIPTS[index] for index in self.axis)
        head, tail = self.text.replace("<axis>", axis).replace("<row>", axis[-1:]).split("<x>")
        form = separated([printer._print(x) for x in self.values], printer)
        if tail:
            form = enclose(form, head[-1], tail[0])
            form = prettyForm(*form.left(head[:-1]))
            return prettyForm(*form.right(tail[1:]))
        if is_sum(self.args[0]):
            form = enclose(form, "(", ")")
        return prettyForm(*form.left(head), binding=prettyForm.ADD)


def separated(forms: Sequence[prettyForm], printer: Any) -> prettyForm:
    """Pretty forms with commas between, one below the other where the printer lacks the room."""
    marked = [*(prettyForm(*form.right(",")) for form in forms[:-1]), forms[-1]]
    line = marked[0]
    for form in marked[1:]:
        line = prettyForm(*stringPict.next(line, " ", form))
    if len(forms) == 1 or line.width() <= getattr(printer, "room", line.width()):
        return line
    lines = [text for form in marked for text in form.picture]
    width = max(map(len, lines))
    return prettyForm("\n".join(text.ljust(width) for text in lines), marked[0].baseline)


def enclose(form: prettyForm, left: str, right: str) -> prettyForm:
    """A pretty form between brackets of its own height."""
    if left == "(":
        return prettyForm(*form.parens(left, right))
    bars = [stringPict("\n".join(bar * form.height()), form.baseline) for bar in (left, right)]
    return prettyForm(*stringPict.next(bars[0], form, bars[1]))


def magnitude(x: sympy.Expr) -> sympy.Expr:
    """|x|, or x itself where that is plain; sympy's own inquiry can take minutes."""
    plain = (
        (x.is_Atom and x.is_nonnegative)
        or isinstance(x, (sympy.Abs, sympy.exp, sympy.Max))
        or (isinstance(x, Operation) and x.nonnegative)
        or (x.is_Pow and x.exp in (2, sympy.Rational(1, 2)))
    )
    return x if plain else sympy.Abs(x, evaluate=False)


def is_sum(x: sympy.Expr) -> bool:
    """Whether an expression is a sum, or has a minus sign in front."""
    return bool(x.is_Add or (x.is_Mul and x.args[0] == -1) or (x.is_Number and x.is_negative))
