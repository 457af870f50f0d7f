"""The letters of formulas, and what they mean."""

from autoprox.language import Tree, Type
from autoprox.language.letters import MEANINGS, unicode
from autoprox.language.quantities import QUANTITIES
from autoprox.primitives import OPERATIONS


def legend(tree: Tree) -> dict[str, str]:
    """The letters, superscripts and indices of the tree's formula, with their meanings."""
    found: set[str] = set()

    def visit(node: Tree, _: list[None]) -> None:
        if node.leaf is not None:
            found.update(node.leaf.letters)
        elif OPERATIONS[node.symbol].along_axis:
            found.add(indices(node.args[0].type))

    tree.fold(visit)
    quantities = {name: (unicode(q.symbol), q.meaning or name) for name, q in QUANTITIES.items()}
    meanings = quantities | MEANINGS
    return {label: meaning for key, (label, meaning) in meanings.items() if key in found}


def indices(argument: Type) -> str:
    """What an operation on a value of this type runs over, one letter an index."""
    if argument.level == "Matrix":
        return "ij"
    return "k" if argument.domain == "block" else "l"
