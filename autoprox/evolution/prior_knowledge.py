"""Prior knowledge: the power law that other tables have taught, by its terms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autoprox.evolution.power_law import factors_of
from autoprox.language import Tree, parse_expression
from autoprox.searchspaces import SearchSpace, get_space
from autoprox.searchspaces.language_model_bases import TokenSpace
from autoprox.zoo.prior_file import PriorTable, read_prior_file


@dataclass(frozen=True)
class Prior:
    """A power law of other tables, and its expected correlation with true scores."""

    tree: Tree
    exponents: Mapping[Tree, float]
    correlation: float
    tables: Sequence[PriorTable]


def ready_made_proxy(space: SearchSpace) -> str:
    """Return the name of the ready-made proxy for a space of vision or of language."""
    file = read_prior_file()
    return file.language if isinstance(space, TokenSpace) else file.vision


def prior_for(benchmark: str, space: str) -> Prior:
    """Return the prior for a table: fitted without it, or on all tables for one that is new."""
    group = read_prior_file().groups[ready_made_proxy(get_space(space))]
    entry = group.entry(benchmark, space)
    tree = parse_expression(entry.expression)
    return Prior(tree, dict(factors_of(tree) or []), entry.correlation, entry.tables)
