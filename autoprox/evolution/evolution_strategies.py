"""Strategies of evolution: how to select parents, make children, and decide which to keep.

A strategy with options of its own declares them in a subclass of `EvolutionParameters`, an
instance of which is passed to its functions. `evolve --set NAME=VALUE` sets them.

DEAP's own selections and variations draw from the global `random`; these draw from the generator
of the call, so that one seed fixes everything.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from deap import base
from pydantic.fields import FieldInfo

from autoprox.declared_options import read_set
from autoprox.evolution.individuals import EvolutionError, Individual
from autoprox.evolution_parameters import EvolutionParameters
from autoprox.language import Tree
from autoprox.registry import Registry

TOURNAMENT = 3
NEWCOMERS, CROSSOVER = 0.1, 0.45  # shares of the children of `vary_by_mixture`; the rest mutate

Population = Sequence[Individual]  # the best first
Evaluate = Callable[[Sequence[Tree]], list[Individual]]
Offspring = tuple[Individual | None, Tree]
Vary = Callable[[Population, base.Toolbox, EvolutionParameters, Random], list[Offspring]]
Keep = Callable[[Individual | None, Individual, EvolutionParameters], bool]
Select = Callable[[Population, int, Random, EvolutionParameters], list[Individual]]


def select_by_tournament(
    population: Population, count: int, rng: Random, parameters: EvolutionParameters
) -> list[Individual]:
    """Select the best, which is the first, of a few random individuals, `count` times."""
    size = min(TOURNAMENT, len(population))
    return [population[min(rng.sample(range(len(population)), size))] for _ in range(count)]


def select_of_sample(
    population: Population, count: int, rng: Random, parameters: EvolutionParameters
) -> list[Individual]:
    """Select one of the top-k of a random sample, `count` times."""
    size = max(1, round(parameters.sample_ratio * len(population)))

    def one() -> Individual:
        sample = sorted(rng.sample(range(len(population)), size))
        return population[rng.choice(sample[: parameters.parents])]

    return [one() for _ in range(count)]


def vary_by_mutation(
    population: Population, toolbox: base.Toolbox, parameters: EvolutionParameters, rng: Random
) -> list[Offspring]:
    """Return mutants of selected parents."""
    parents = toolbox.select(population, parameters.children, rng)
    return [(parent, toolbox.mutate(parent.tree, rng)) for parent in parents]


def vary_by_mixture(
    population: Population, toolbox: base.Toolbox, parameters: EvolutionParameters, rng: Random
) -> list[Offspring]:
    """Return children by crossover and mutation, and some new random trees."""

    def parent() -> Tree:
        chosen: list[Individual] = toolbox.select(population, 1, rng)
        return chosen[0].tree

    offspring: list[Offspring] = []
    for _ in range(parameters.children):
        draw = rng.random()
        if draw < NEWCOMERS:
            child = toolbox.generate(rng)
        elif draw < NEWCOMERS + CROSSOVER:
            child = toolbox.mate(parent(), parent(), rng)
        else:
            child = toolbox.mutate(parent(), rng)
        offspring.append((None, child))
    return offspring


def vary_by_chance(
    population: Population, toolbox: base.Toolbox, parameters: EvolutionParameters, rng: Random
) -> list[Offspring]:
    """Return new random trees."""
    return [(None, toolbox.generate(rng)) for _ in range(parameters.children)]


def improves(parent: Individual | None, child: Individual, parameters: EvolutionParameters) -> bool:
    """Return whether a child is better than its parent by the margin, in one of the metrics."""
    if parent is None:
        return True
    gains = [new - old for new, old in zip(child.metrics, parent.metrics, strict=True)]
    return max(gains) >= parameters.margin


@dataclass(frozen=True)
class EvolutionStrategy:
    """How children are made of a population, which of them are kept, and with which options."""

    vary: Vary
    keep: Keep = lambda parent, child, parameters: True
    select: Select = select_by_tournament
    retries: bool = False
    parameters: type[EvolutionParameters] = EvolutionParameters

    @property
    def own(self) -> dict[str, FieldInfo]:
        """The options that the strategy adds to those of all strategies, by name."""
        shared = EvolutionParameters.model_fields
        return {n: field for n, field in self.parameters.model_fields.items() if n not in shared}

    def configured(
        self, name: str, shared: EvolutionParameters, given: Mapping[str, Any]
    ) -> EvolutionParameters:
        """Return the parameters: those of all strategies, and those of its own that are given."""
        values = {option: getattr(shared, option) for option in EvolutionParameters.model_fields}
        return self.parameters(**values, **read_set(name, self.own, given))


def _prove(name: str, strategy: EvolutionStrategy) -> None:
    if not isinstance(strategy, EvolutionStrategy):
        raise EvolutionError(f"an evolution strategy is an `EvolutionStrategy`, got {strategy!r}")
    if EvolutionParameters not in strategy.parameters.__mro__:
        rule = "an evolution strategy's parameters must be a subclass of `EvolutionParameters`"
        raise EvolutionError(f"{rule}, but those of {name} are {strategy.parameters!r}")
    strategy.parameters()


STRATEGIES: Registry[EvolutionStrategy] = Registry(
    "evolution_strategies", "evolution strategy", EvolutionError, _prove
)
STRATEGIES.register("mixture", EvolutionStrategy(vary_by_mixture))
STRATEGIES.register(
    "elitist", EvolutionStrategy(vary_by_mutation, improves, select_of_sample, retries=True)
)
STRATEGIES.register("naive", EvolutionStrategy(vary_by_mutation, select=select_of_sample))
STRATEGIES.register("random", EvolutionStrategy(vary_by_chance))


class Representation(Protocol):
    """A source of random trees and their variations: a grammar, or a restriction of one."""

    def generate(self, rng: Random) -> Tree: ...
    def mutate(self, tree: Tree, rng: Random) -> Tree: ...
    def crossover(self, tree: Tree, donor: Tree, rng: Random) -> Tree: ...


def make_toolbox(
    representation: Representation,
    evaluate: Evaluate,
    strategy: EvolutionStrategy,
    parameters: EvolutionParameters,
) -> base.Toolbox:
    """Return the toolbox that `evolve` uses."""
    toolbox = base.Toolbox()
    toolbox.register("evaluate", evaluate)
    toolbox.register("generate", representation.generate)
    toolbox.register("mutate", representation.mutate)
    toolbox.register("mate", representation.crossover)
    toolbox.register("select", strategy.select, parameters=parameters)
    return toolbox
