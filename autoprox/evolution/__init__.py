"""Genetic programming of proxies: individuals, strategies, the loop, and the final choice.

It imports the language and gives `evolve`, the registry `STRATEGIES`, and what `evolve` needs.
"""

from autoprox.evolution.evolution_strategies import (
    STRATEGIES,
    EvolutionStrategy,
    Representation,
    make_toolbox,
)
from autoprox.evolution.individuals import (
    METRICS,
    EvolutionError,
    Individual,
    best_by_each,
    shortest,
    survivors,
)
from autoprox.evolution.loop import State, evolve, first_population, require_formula
from autoprox.evolution.power_law_loop import evolve_power_laws
from autoprox.evolution_parameters import EvolutionParameters

__all__ = [
    "METRICS",
    "STRATEGIES",
    "EvolutionError",
    "EvolutionParameters",
    "EvolutionStrategy",
    "Individual",
    "Representation",
    "State",
    "best_by_each",
    "evolve",
    "evolve_power_laws",
    "first_population",
    "make_toolbox",
    "require_formula",
    "shortest",
    "survivors",
]
