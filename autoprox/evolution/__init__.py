"""Genetic programming of proxies: individuals, strategies, the loop, and the final choice.

It imports the language and gives `evolve`, the registry `STRATEGIES`, and what `evolve` needs.
"""

from autoprox.evolution.individuals import (
    EvolutionError,
    Individual,
    assemble,
    most_parsimonious,
    survivors,
)
from autoprox.evolution.loop import State, evolve, first_population
from autoprox.evolution.strategies import STRATEGIES, EvolutionStrategy, Form, make_toolbox
from autoprox.parameters import EvolutionParameters

__all__ = [
    "STRATEGIES",
    "EvolutionError",
    "EvolutionParameters",
    "EvolutionStrategy",
    "Form",
    "Individual",
    "State",
    "assemble",
    "evolve",
    "first_population",
    "make_toolbox",
    "most_parsimonious",
    "survivors",
]
