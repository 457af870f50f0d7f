"""A tree as a sympy expression."""

from typing import Any

import sympy
from sympy.printing.pretty.stringpict import prettyForm

from autoprox.export.symbols import MEANINGS, indices, is_nonnegative, unicode
from autoprox.language import EVERY_STATISTIC, Tree
from autoprox.language.quantities import QUANTITIES
from autoprox.primitives import OPERATIONS


class Matrices(sympy.Symbol):  # type: ignore[misc]
    """A statistic, one matrix for each layer of a domain: `W_msa`, `G_mlp_ones`."""

    def _pretty(self, _: Any) -> prettyForm:
        letter, domain, *probe = self.name.split("_")
        return prettyForm(unicode(letter) + "".join(MEANINGS[key][0] for key in (*probe, domain)))


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
            args = [*args, sympy.Symbol(indices(node.args[0].type))]
        return operation.sympy(*args)

    return tree.fold(visit)


def _symbol(name: str) -> sympy.Expr:
    if name not in EVERY_STATISTIC:
        # The number 1 would let sympy compute towers of powers.
        return sympy.Symbol("1" if name == "one" else name, positive=True)
    statistic = EVERY_STATISTIC[name]
    text = f"{QUANTITIES[statistic.quantity].symbol}_{statistic.domain}"
    if statistic.probe != "data":
        text += f"_{statistic.probe}"
    return Matrices(text, real=True, nonnegative=is_nonnegative(statistic) or None)
