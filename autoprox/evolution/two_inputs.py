"""The trees of Auto-Prox (Wei et al., "Auto-Prox: Training-Free Vision Transformer Architecture
Search via Automatic Proxy Discovery", AAAI 2024): two statistics, two unary operations on each, and
one binary operation, for each layer; the mean over layers is the score.

A unary operation keeps a matrix or reduces it to the layer's number, and then maps that. If one
of the operands is a number, or they are matrices of different kinds, the mean of a matrix replaces
it, as it does the result of the binary operation on two matrices. The language doesn't pair the
layers of two domains: there the binary operation joins the means over layers, which for sums and
differences is the same.
"""

from collections.abc import Sequence
from random import Random

from autoprox.language import NETWORK, LanguageError, Tree
from autoprox.language.grammar import DEAP_TYPES, Grammar
from autoprox.language.tree import make_tree
from autoprox.language.value_types import ValueType
from autoprox.primitives import OPERATIONS

SIZE, DEPTH = 11, 5  # of the largest of these trees
MUTATION = 0.5  # probability of a node
NUMBERS = ("map",)
MATRICES = ("map", "normalise", "reduce")


class TwoInputs:
    """A source of such trees with the statistics of a grammar."""

    def __init__(self, grammar: Grammar) -> None:
        limits = grammar.limits
        if limits.max_size < SIZE or limits.max_depth < DEPTH:
            raise LanguageError(
                f"two-inputs needs max_size >= {SIZE} and max_depth >= {DEPTH}, "
                f"got {limits.max_size} and {limits.max_depth}"
            )
        self._grammar = grammar
        self._statistics = [
            name for name in grammar.terminals if make_tree(name).type.level == "Matrix"
        ]

    def generate(self, rng: Random) -> Tree:
        """Draw a tree."""
        return self._tree([None] * 7, rng)

    def mutate(self, tree: Tree, rng: Random) -> Tree:
        """Return the tree with each of its nodes redrawn with a probability of a half."""
        return self._tree([None if rng.random() < MUTATION else n for n in _names(tree)], rng)

    def crossover(self, tree: Tree, donor: Tree, rng: Random) -> Tree:
        """Take each node from either tree."""
        return self._tree(list(map(rng.choice, zip(_names(tree), _names(donor), strict=True))), rng)

    def _tree(self, wanted: Sequence[str | None], rng: Random) -> Tree:
        """Make the tree of these nodes; those that are None or don't fit the others are drawn."""
        left, right = (self._operand(wanted[i : i + 3], rng) for i in (0, 3))
        if left.type != right.type:
            left, right = (
                make_tree("mean", operand) if operand.type.level == "Matrix" else operand
                for operand in (left, right)
            )
        if left.type != right.type:
            left, right = (make_tree("mean", operand) for operand in (left, right))
        joined = make_tree(self._drawn(wanted[6], self._words(left.type, 2), rng), left, right)
        while joined.type != NETWORK:
            joined = make_tree("mean", joined)
        return joined

    def _operand(self, wanted: Sequence[str | None], rng: Random) -> Tree:
        operand = make_tree(self._drawn(wanted[0], self._statistics, rng))
        for name in wanted[1:]:
            kinds = MATRICES if operand.type.level == "Matrix" else NUMBERS
            words = [n for n in self._words(operand.type, 1) if OPERATIONS[n].kind in kinds]
            operand = make_tree(self._drawn(name, words, rng), operand)
        return operand

    @staticmethod
    def _drawn(wanted: str | None, options: Sequence[str], rng: Random) -> str:
        return wanted if wanted is not None and wanted in options else rng.choice(options)

    def _words(self, type_: ValueType, arity: int) -> list[str]:
        """Return the operations with this many arguments of a type, whatever their result."""
        wanted = [DEAP_TYPES[type_]] * arity
        nodes = [node for own in self._grammar.pset.primitives.values() for node in own]
        return sorted({node.name for node in nodes if node.args == wanted})


def _names(tree: Tree) -> list[str]:
    """Return the statistic and the first two operations of both operands, then the binary one."""
    while len(tree.args) == 1:
        [tree] = tree.args
    names = []
    for operand in tree.args:
        chain = [operand.symbol]
        while operand.args:
            operand = operand.args[0]
            chain.append(operand.symbol)
        names += chain[::-1][:3]
    return [*names, tree.symbol]
