"""The letters of formulas, and what they mean."""

from sympy.printing.pretty.pretty_symbology import greek_unicode

from autoprox.language import EVERY_STATISTIC, Statistic, Tree, Type
from autoprox.language.quantities import QUANTITIES
from autoprox.primitives import OPERATIONS

MEANINGS = {
    "msa": ("ₘₛₐ", "qkv and proj of each block"),
    "mlp": ("ₘₗₚ", "fc1 and fc2 of each block"),
    "all": ("ₐₗₗ", "qkv, proj, fc1 and fc2 of each block"),
    "qkv": ("qkv", "what makes the queries, keys and values of each block"),
    "stem": ("stem", "the convolutions that embed patches"),
    "pool": ("pool", "the layers between stages"),
    "keep": ("keep", "the linear layers between stages that keep the width"),
    "widen": ("widen", "the other layers between stages"),
    "head": ("head", "the classifier"),
    "diverse": ("diverse", "qkv and proj of each block, linear layers that keep the width"),
    "salient": ("salient", "fc1 and fc2 of each block, other layers between stages, classifier"),
    "other": ("other", "linear layers and convolutions in no other domain"),
    "net": ("net", "all linear layers and convolutions"),
    "ones": ("ᵒⁿᵉˢ", "absolute weights, an input of ones, loss: the sum of the outputs"),
    "ntk": ("ⁿᵗᵏ", "loss: the last block's output times random signs"),
    "ij": ("i, j", "elements of a matrix"),
    "l": ("l", "layers"),
    "k": ("k", "blocks"),
}


def legend(tree: Tree) -> dict[str, str]:
    """The letters, superscripts and indices of the tree's formula, with their meanings."""
    found: set[str] = set()

    def visit(node: Tree, _: list[None]) -> None:
        if statistic := EVERY_STATISTIC.get(node.symbol):
            found.update((statistic.quantity, statistic.domain, statistic.probe))
        elif node.args and OPERATIONS[node.symbol].along_axis:
            found.add(indices(node.args[0].type))

    tree.fold(visit)
    quantities = {name: (unicode(q.symbol), q.meaning or name) for name, q in QUANTITIES.items()}
    meanings = quantities | MEANINGS
    return {label: meaning for key, (label, meaning) in meanings.items() if key in found}


def unicode(letter: str) -> str:
    """A quantity's letter as one character where it is Greek."""
    return str(greek_unicode.get(letter, letter))


def indices(argument: Type) -> str:
    """What an operation on a value of this type runs over, one letter an index."""
    if argument.level == "Matrix":
        return "ij"
    return "k" if argument.domain == "block" else "l"


def is_nonnegative(statistic: Statistic) -> bool:
    """Whether its values are absolute values."""
    return (statistic.probe, statistic.quantity) == ("ones", "weight")
