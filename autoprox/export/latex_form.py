"""A tree as a LaTeX formula."""

from sympy.printing.pretty.pretty_symbology import greek_unicode

from autoprox.export.registry import EXPORTERS
from autoprox.export.symbols import indices, is_nonnegative
from autoprox.language import EVERY_STATISTIC, Tree
from autoprox.language.quantities import QUANTITIES
from autoprox.primitives import OPERATIONS, Binding, Formula, fill


def latex(tree: Tree) -> str:
    """The tree as a LaTeX formula, in the part of LaTeX that matplotlib can draw."""

    def visit(node: Tree, args: list[Formula]) -> Formula:
        if not args:
            return _terminal(node.symbol)
        operation, argument = OPERATIONS[node.symbol], node.args[0].type
        times = Formula(r"\odot" if argument.level == "Matrix" else r"\cdot")
        named = dict(zip("xy", args, strict=False), times=times)
        text = fill(operation.latex, indices(argument), **named)
        return Formula(text, operation.binding, operation.nonnegative)

    return tree.fold(visit).text


def _terminal(name: str) -> Formula:
    if name not in EVERY_STATISTIC:
        return Formula("1" if name == "one" else rf"\mathrm{{{name}}}_{{k}}", nonnegative=True)
    statistic = EVERY_STATISTIC[name]
    letter = QUANTITIES[statistic.quantity].symbol
    if len(letter) > 1:
        letter = rf"\{letter}" if letter in greek_unicode else rf"\mathrm{{{letter}}}"
    probe = "" if statistic.probe == "data" else rf",\mathrm{{{statistic.probe}}}"
    text = rf"{letter}^{{\mathrm{{{statistic.domain}}}{probe}}}_{{l}}"
    return Formula(text, Binding.POWER, is_nonnegative(statistic))


EXPORTERS.register("latex", latex)
