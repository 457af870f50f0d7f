"""Prior knowledge: the power law that other tables have taught, by its terms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autoprox.evolution.power_law import factors_of
from autoprox.language import Tree, parse_expression
from autoprox.zoo.prior_file import PriorTable, prior_entry


@dataclass(frozen=True)
class Prior:
    """A power law of other tables, and its expected correlation with true scores."""

    tree: Tree
    exponents: Mapping[Tree, float]
    correlation: float
    tables: Sequence[PriorTable]


def prior_for(benchmark: str, space: str) -> Prior:
    """Return the prior for a table: fitted without it, or on all tables for one that is new."""
    entry = prior_entry(benchmark, space)
    tree = parse_expression(entry.expression)
    return Prior(tree, dict(factors_of(tree) or []), entry.correlation, entry.tables)
