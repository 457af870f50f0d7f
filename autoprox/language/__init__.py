"""The language of proxies: typed trees, their words, text, canonical form and grammar.

It imports errors, registries and primitives, and gives `parse_expression`, `Tree` and
functions of trees. `grammar`, which needs DEAP, is imported by itself.
"""

from autoprox.language import numeric_literals  # noqa: F401
from autoprox.language.canonical_form import canonical, is_nonnegative, tree_digest
from autoprox.language.leaf_kinds import LEAVES, LanguageError, Leaf, LeafKind
from autoprox.language.parser import MAX_LENGTH, parse_expression
from autoprox.language.statistic_leaves import EVERY_STATISTIC, STATISTICS, Statistic, statistics
from autoprox.language.structure_leaves import STRUCTURE
from autoprox.language.tree import Tree, make_tree, require_complete_proxy, result_type
from autoprox.language.value_types import NETWORK, REDUCED_TYPES, ValueType

__all__ = [
    "EVERY_STATISTIC",
    "LEAVES",
    "MAX_LENGTH",
    "NETWORK",
    "REDUCED_TYPES",
    "STATISTICS",
    "STRUCTURE",
    "LanguageError",
    "Leaf",
    "LeafKind",
    "Statistic",
    "Tree",
    "ValueType",
    "canonical",
    "is_nonnegative",
    "make_tree",
    "parse_expression",
    "require_complete_proxy",
    "result_type",
    "statistics",
    "tree_digest",
]
