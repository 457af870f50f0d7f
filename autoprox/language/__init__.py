"""The language of proxies: typed trees, their words, text, canonical form and grammar.

It imports errors, registries and primitives, and gives `parse`, `Tree` and what asks about trees.
`grammar`, which needs DEAP, is imported by itself.
"""

from autoprox.language import numbers, statistic, structure  # noqa: F401
from autoprox.language.canonical import canonical, digest, nonnegative, statistics
from autoprox.language.leaves import LEAVES, Leaf, LeafKind
from autoprox.language.parser import MAX_LENGTH, parse
from autoprox.language.tree import Tree, make, require_network
from autoprox.language.types import NETWORK, REDUCED, Type
from autoprox.language.vocabulary import (
    EVERY_STATISTIC,
    STATISTICS,
    STRUCTURE,
    TERMINALS,
    LanguageError,
    Statistic,
    result_type,
)

__all__ = [
    "EVERY_STATISTIC",
    "LEAVES",
    "MAX_LENGTH",
    "NETWORK",
    "REDUCED",
    "STATISTICS",
    "STRUCTURE",
    "TERMINALS",
    "LanguageError",
    "Leaf",
    "LeafKind",
    "Statistic",
    "Tree",
    "Type",
    "canonical",
    "digest",
    "make",
    "nonnegative",
    "parse",
    "require_network",
    "result_type",
    "statistics",
]
