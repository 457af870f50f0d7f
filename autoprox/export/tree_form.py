"""A tree as its branches, and as the text that the parser reads."""

from autoprox.export.registry import EXPORTERS
from autoprox.language import Tree


def text(tree: Tree) -> str:
    """The tree as an expression of the language."""
    return str(tree)


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


EXPORTERS.register("text", text)
EXPORTERS.register("tree", ascii_tree)
