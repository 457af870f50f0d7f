"""A tree as a sympy expression."""

import sympy

from autoprox.export.symbols import indices
from autoprox.language import Tree
from autoprox.primitives import OPERATIONS


def to_sympy(tree: Tree) -> sympy.Expr:
    """The tree as a sympy expression, nothing simplified.

    Operations on single elements are sympy's own, without the protection of their operators; the
    others are functions named like them, of their argument and the indices they run over.
    """

    def visit(node: Tree, args: list[sympy.Expr]) -> sympy.Expr:
        if node.leaf is not None:
            return node.leaf.sympy
        operation = OPERATIONS[node.symbol]
        if operation.along_axis:
            args = [*args, sympy.Symbol(indices(node.args[0].type))]
        return operation.sympy(*args)

    return tree.fold(visit)
