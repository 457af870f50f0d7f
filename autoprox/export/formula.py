"""The display of a tree: as a sympy expression, pretty text, LaTeX, or its branches."""

from __future__ import annotations

from typing import Any

import sympy
from sympy.printing.pretty.pretty import PrettyPrinter
from sympy.printing.pretty.pretty_symbology import pretty_use_unicode
from sympy.printing.pretty.stringpict import prettyForm, stringPict

from autoprox.language import STATISTICS, Statistic, Tree, Type
from autoprox.primitives import OPERATIONS, Binding, Formula, Operation, fill
from autoprox.primitives.notation import is_sum

LETTERS = {"weight": "W", "grad": "G", "act": "A", "act_grad": "Delta"}
SUBSCRIPTS = {"msa": "ₘₛₐ", "mlp": "ₘₗₚ", "all": "ₐₗₗ"}
SUPERSCRIPTS = {"data": "", "ones": "ᵒⁿᵉˢ", "ntk": "ⁿᵗᵏ"}
MEANINGS = {
    "weight": ("W", "weights of a layer"),
    "grad": ("G", "gradient of the loss with respect to the weights"),
    "act": ("A", "outputs of a layer"),
    "act_grad": ("Δ", "gradient of the loss with respect to the outputs"),
    "msa": ("ₘₛₐ", "qkv and proj of each block"),
    "mlp": ("ₘₗₚ", "fc1 and fc2 of each block"),
    "all": ("ₐₗₗ", "qkv, proj, fc1 and fc2 of each block"),
    "ones": ("ᵒⁿᵉˢ", "absolute weights, an input of ones, loss: the sum of the outputs"),
    "ntk": ("ⁿᵗᵏ", "loss: the last block's output times random signs"),
    "ij": ("i, j", "elements of a matrix"),
    "l": ("l", "layers"),
    "k": ("k", "blocks"),
}
LEAST_WIDTH = 20
TALLEST_FRACTION = 12


class Matrices(sympy.Symbol):  # type: ignore[misc]
    """A statistic, one matrix for each layer of a domain: `W_msa`, `G_mlp_ones`."""

    def _pretty(self, _: Any) -> prettyForm:
        letter, domain, *probe = self.name.split("_")
        letter = letter.replace("Delta", "Δ")
        return prettyForm(letter + "".join(SUPERSCRIPTS[p] for p in probe) + SUBSCRIPTS[domain])


def to_sympy(tree: Tree) -> sympy.Expr:
    """The tree as a sympy expression, nothing simplified.

    Operations on single elements are sympy's own, without the protection of their operators; the
    others are functions named like them, of their argument and the indices they run over.
    """

    def visit(node: Tree, args: list[sympy.Expr]) -> sympy.Expr:
        if not args:
            return _symbol(node.symbol)
        operation = OPERATIONS[node.symbol]
        if operation.along_axis:
            args = [*args, sympy.Symbol(_indices(node.args[0].type))]
        return operation.sympy(*args)

    return tree.fold(visit)


def pretty(tree: Tree, width: int | None = None) -> str:
    """The tree as a formula in text, two-dimensional and in Unicode, `width` (80) columns wide."""
    columns = max(width or 80, LEAST_WIDTH)
    expression = to_sympy(tree)
    before = pretty_use_unicode(True)
    try:
        for room in (columns, columns * 3 // 4, columns // 2, columns // 4):
            form = _Pretty(room)._print(expression)
            if form.width() <= columns:
                break
        text = form.render(wrap_line=True, num_columns=columns, use_unicode=True)
    finally:
        pretty_use_unicode(before)
    return "\n".join(line.rstrip() for line in text.splitlines())


def latex(tree: Tree) -> str:
    """The tree as a LaTeX formula, in the part of LaTeX that matplotlib can draw."""

    def visit(node: Tree, args: list[Formula]) -> Formula:
        if not args:
            return _terminal(node.symbol)
        operation, argument = OPERATIONS[node.symbol], node.args[0].type
        times = Formula(r"\odot" if argument.level == "Matrix" else r"\cdot")
        named = dict(zip("xy", args, strict=False), times=times)
        text = fill(operation.latex, _indices(argument), **named)
        return Formula(text, operation.binding, operation.nonnegative)

    return tree.fold(visit).text


def ascii_tree(tree: Tree) -> str:
    """The tree's nodes with their types, one a line, each below the operation that it feeds."""

    def visit(node: Tree, args: list[list[str]]) -> list[str]:
        lines = [f"{node.symbol}: {node.type}"]
        for index, branch in enumerate(args):
            first, rest = ("|-- ", "|   ") if index < len(args) - 1 else ("`-- ", "    ")
            lines += [first + branch[0], *(rest + line for line in branch[1:])]
        return lines

    lines = tree.fold(visit)
    return "\n".join(lines)


def legend(tree: Tree) -> dict[str, str]:
    """The letters, superscripts and indices of the tree's formula, with their meanings."""
    found: set[str] = set()

    def visit(node: Tree, _: list[None]) -> None:
        if statistic := STATISTICS.get(node.symbol):
            found.update((statistic.quantity, statistic.domain, statistic.probe))
        elif node.args and OPERATIONS[node.symbol].along_axis:
            found.add(_indices(node.args[0].type))

    tree.fold(visit)
    return {label: meaning for key, (label, meaning) in MEANINGS.items() if key in found}


def _indices(argument: Type) -> str:
    """What an operation on a value of this type runs over, one letter an index."""
    if argument.level == "Matrix":
        return "ij"
    return "k" if argument.domain == "block" else "l"


def _symbol(name: str) -> sympy.Expr:
    if name not in STATISTICS:
        # The number 1 would let sympy compute towers of powers.
        return sympy.Symbol("1" if name == "one" else name, positive=True)
    statistic = STATISTICS[name]
    text = f"{LETTERS[statistic.quantity]}_{statistic.domain}"
    if statistic.probe != "data":
        text += f"_{statistic.probe}"
    return Matrices(text, real=True, nonnegative=_is_nonnegative(statistic) or None)


def _terminal(name: str) -> Formula:
    if name not in STATISTICS:
        return Formula("1" if name == "one" else rf"\mathrm{{{name}}}_{{k}}", nonnegative=True)
    statistic = STATISTICS[name]
    letter = LETTERS[statistic.quantity].replace("Delta", r"\Delta")
    probe = "" if statistic.probe == "data" else rf",\mathrm{{{statistic.probe}}}"
    text = rf"{letter}^{{\mathrm{{{statistic.domain}}}{probe}}}_{{l}}"
    return Formula(text, Binding.POWER, _is_nonnegative(statistic))


def _is_nonnegative(statistic: Statistic) -> bool:
    return (statistic.probe, statistic.quantity) == ("ones", "weight")


class _Pretty(PrettyPrinter):  # type: ignore[misc]
    """Sympy's pretty printer, but sums and products stay in order and break beyond `room` columns.

    Element-wise products of matrices have the sign ⊙.
    """

    def __init__(self, room: int) -> None:
        super().__init__({"use_unicode": True})
        self.room = room

    def _print_Add(self, expr: sympy.Add, order: None = None) -> prettyForm:  # noqa: N802
        first, second = expr.args
        negated = _negated(second)
        if negated is None:
            return self._joined(self._print(first), " + ", self._print(second), prettyForm.ADD)
        return self._joined(self._print(first), " - ", self._term(negated), prettyForm.ADD)

    def _print_Mul(self, product: sympy.Mul) -> prettyForm:  # noqa: N802
        first, second = product.args
        if _negated(product) is not None:
            return prettyForm(*_factor(self._print(second)).left("-"), binding=prettyForm.NEG)
        if second.is_Pow and second.exp == -1:
            return self._fraction(self._print(first), self._print(second.base))
        sign = " ⊙ " if _elementwise(product) else " ⋅ "
        return self._joined(
            _factor(self._print(first)), sign, _factor(self._print(second)), prettyForm.MUL
        )

    def _print_Pow(self, power: sympy.Pow) -> prettyForm:  # noqa: N802
        base = self._print(power.base)
        if power.exp == -1:
            return self._fraction(prettyForm("1"), base)
        if power.exp == 2:
            return prettyForm(*_atom(base).right("²"), binding=prettyForm.POW)
        return prettyForm(*_atom(base).left("√"), binding=prettyForm.POW)

    def _print_Max(self, expr: sympy.Max) -> prettyForm:  # noqa: N802
        return self._print_Function(expr, func_name="max")

    def _print_exp(self, expr: sympy.exp) -> prettyForm:
        return self._print_Function(expr)

    def _joined(self, left: prettyForm, sign: str, right: prettyForm, binding: int) -> prettyForm:
        if left.width() + len(sign) + right.width() <= self.room:
            return prettyForm(*stringPict.next(left, sign, right), binding=binding)
        below = stringPict(*right.left(sign.lstrip()))
        lines = [*left.picture, *below.picture]
        width = max(map(len, lines))
        return prettyForm("\n".join(line.ljust(width) for line in lines), left.baseline, binding)

    def _fraction(self, over: prettyForm, under: prettyForm) -> prettyForm:
        if over.height() + under.height() < TALLEST_FRACTION:
            return over / under
        return self._joined(_factor(over), " / ", _atom(under), prettyForm.MUL)

    def _term(self, expr: sympy.Expr) -> prettyForm:
        form = self._print(expr)
        return _factor(form) if is_sum(expr) else form


def _factor(form: prettyForm) -> prettyForm:
    return prettyForm(*form.parens()) if form.binding > prettyForm.MUL else form


def _atom(form: prettyForm) -> prettyForm:
    return prettyForm(*form.parens()) if form.binding > prettyForm.FUNC else form


def _elementwise(expr: sympy.Expr) -> bool:
    if isinstance(expr, Operation) and expr.reduces:
        return False
    return isinstance(expr, Matrices) or any(map(_elementwise, expr.args))


def _negated(expr: sympy.Expr) -> sympy.Expr | None:
    """The y of an expression -y."""
    return expr.args[1] if expr.is_Mul and expr.args[0] == -1 else None
