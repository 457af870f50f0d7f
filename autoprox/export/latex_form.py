"""A tree as a LaTeX formula."""

from autoprox.export.registry import EXPORTERS
from autoprox.export.symbols import indices
from autoprox.language import Tree
from autoprox.primitives import OPERATIONS, Formula, fill


def latex(tree: Tree) -> str:
    """The tree as a LaTeX formula, in the part of LaTeX that matplotlib can draw."""
    return latex_formula(tree).text


def latex_formula(tree: Tree) -> Formula:
    """The LaTeX of a tree, with how tightly it binds."""

    def visit(node: Tree, args: list[Formula]) -> Formula:
        if node.leaf is not None:
            return node.leaf.latex
        operation, argument = OPERATIONS[node.symbol], node.args[0].type
        times = Formula(r"\odot" if argument.level == "Matrix" else r"\cdot")
        named = dict(zip("xy", args, strict=False), times=times)
        text = fill(operation.latex, indices(argument), **named)
        return Formula(text, operation.binding, operation.nonnegative)

    return tree.fold(visit)


EXPORTERS.register("latex", latex)
