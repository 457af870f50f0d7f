"""The evolution of proxies: the loop of Auto-Prox, and the strategies that fill it."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deap import base, tools

from autoprox.errors import AutoproxError
from autoprox.language.grammar import Limits
from autoprox.language import Tree
from autoprox.rules import require_number, require_whole

Evaluate = Callable[[Sequence[Tree]], "list[Individual]"]
MAX_DRAWS = 100  # random trees for each place in the first population, most of which are valid
TOURNAMENT = 3
NEWCOMERS, CROSSOVER = 0.1, 0.45  # shares of the children of `vary_by_mixture`; the rest mutate
LEADERS = 100  # formulas of which the final one is made
JOINING = 5  # margins of fitness that a further formula must be worth


class EvolutionError(AutoproxError):
    """An evolution that cannot begin."""


class Fitness(base.Fitness):  # type: ignore[misc]
    """Joint correlation metric, then size: at the same fitness the shorter formula is better."""

    weights = (1.0, -1.0)


@dataclass(frozen=True, eq=False)
class Individual:
    """A tree with its correlation on each dataset, or with the reason why it has none."""

    tree: Tree
    taus: tuple[float, ...] = ()
    jcm: float = float("-inf")
    reason: str = ""
    fitness: Fitness = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "fitness", Fitness((self.jcm, self.tree.size)))

    @property
    def valid(self) -> bool:
        return not self.reason


@dataclass(frozen=True)
class Settings:
    """Auto-Prox's parameters; its margin of 0.1 is in percent."""

    population: int = 20
    iterations: int = 200
    children: int = 10
    sample_ratio: float = 0.5
    top: int = 5
    margin: float = 0.001
    retries: int = 3
    evaluations: int | None = None  # a budget that may end the evolution before its iterations

    def __post_init__(self) -> None:
        least = {"population": 2, "iterations": 1, "children": 1, "top": 1, "retries": 0}
        for name, value in least.items():
            require_whole(name, getattr(self, name), value)
        if self.evaluations is not None:
            require_whole("evaluations", self.evaluations, 1)
        require_number("sample_ratio", self.sample_ratio, "> 0 and <= 1", lambda r: 0 < r <= 1)
        require_number("margin", self.margin, ">= 0 and <= 2", lambda m: 0 <= m <= 2)

    def spent(self, state: State) -> bool:
        """Whether the evolution is at its end."""
        budget = math.inf if self.evaluations is None else self.evaluations
        return state.iteration >= self.iterations or state.evaluations >= budget

    def progress(self, state: State) -> tuple[int, int]:
        """How much is done, of how much: evaluations where they have a budget, or iterations."""
        if self.evaluations is None:
            return state.iteration, self.iterations
        return min(state.evaluations, self.evaluations), self.evaluations


@dataclass
class State:
    """All that the next iteration depends on."""

    rng: random.Random
    population: list[Individual] = field(default_factory=list)
    front: Any = field(default_factory=lambda: tools.ParetoFront(similar=_same))
    leaders: list[Individual] = field(default_factory=list)  # of all that were evaluated
    iteration: int = 0
    evaluations: int = 0
    invalid: Counter[str] = field(default_factory=Counter)


def _same(one: Individual, other: Individual) -> bool:
    return one.taus == other.taus


Vary = Callable[[Sequence[Individual], base.Toolbox, Settings, random.Random], "list[Offspring]"]
Offspring = tuple[Individual | None, Tree]


@dataclass(frozen=True)
class Strategy:
    """How children are made of a population, and which of them are kept."""

    vary: Vary
    keep: Callable[[Individual | None, Individual, Settings], bool]
    retries: bool = False


def evolve(
    toolbox: base.Toolbox,
    strategy: Strategy,
    settings: Settings,
    state: State,
    record: Callable[[State], None],
) -> State:
    """Auto-Prox, algorithm 1, with children made and evaluated in batches.

    ::

        population = P random valid proxies
        repeat T times:
            parents = drawn from the top-k of a random sample of the population
            children = mutated parents, evaluated together
            a child that isn't better than its parent by the margin is mutated again, up to R times
            population = population + children kept, without the worst

    `toolbox` has `evaluate` (trees to individuals), `generate`, `mutate` and `mate`.
    """

    def evaluate(trees: Sequence[Tree]) -> list[Individual]:
        individuals: list[Individual] = toolbox.evaluate(trees)
        state.evaluations += len(trees)
        state.invalid.update(i.reason for i in individuals if not i.valid)
        valid = [i for i in individuals if i.valid]
        state.front.update(valid)
        state.leaders = most_parsimonious([*state.leaders, *valid], settings)
        return individuals

    if not state.population:
        state.population = first_population(evaluate, toolbox, settings, state.rng)
    while not settings.spent(state):
        offspring = strategy.vary(state.population, toolbox, settings, state.rng)
        kept: list[Individual] = []
        for _ in range(1 + strategy.retries * settings.retries):
            children = evaluate([tree for _, tree in offspring])
            rejected = []
            for (parent, _), child in zip(offspring, children, strict=True):
                if child.valid and strategy.keep(parent, child, settings):
                    kept.append(child)
                elif parent is not None:
                    rejected.append(parent)
            if not rejected:
                break
            offspring = [(p, toolbox.mutate(p.tree, state.rng)) for p in rejected]
        state.population = survivors([*state.population, *kept], settings.population)
        state.iteration += 1
        record(state)
    return state


def first_population(
    evaluate: Evaluate, toolbox: base.Toolbox, settings: Settings, rng: random.Random
) -> list[Individual]:
    """Distinct valid individuals, drawn until there are enough."""
    population: list[Individual] = []
    for _ in range(MAX_DRAWS):
        drawn = evaluate([toolbox.generate(rng) for _ in range(settings.population)])
        population = survivors([*population, *(i for i in drawn if i.valid)], settings.population)
        if len(population) == settings.population:
            return population
    raise EvolutionError(
        f"a population of {settings.population} distinct valid proxies must be found in "
        f"{MAX_DRAWS * settings.population} random trees, but only {len(population)} were: "
        "choose a smaller population, or larger trees"
    )


def survivors(individuals: Sequence[Individual], count: int) -> list[Individual]:
    """The best; of formulas with the same correlations, the shortest."""
    return _distinct(sorted(individuals, key=lambda i: i.fitness, reverse=True))[:count]


def most_parsimonious(individuals: Sequence[Individual], settings: Settings) -> list[Individual]:
    """The best when each node of a formula has to be worth the margin.

    A larger formula fits the training networks by chance a little better than a smaller one.
    """

    def worth(individual: Individual) -> tuple[float, int]:
        size = individual.tree.size
        return individual.jcm - settings.margin * size, -size

    return _distinct(sorted(individuals, key=worth, reverse=True))[:LEADERS]


def _distinct(individuals: Sequence[Individual]) -> list[Individual]:
    """The first of those with the same correlations."""
    found: dict[tuple[float, ...], Individual] = {}
    for individual in individuals:
        found.setdefault(individual.taus, individual)
    return list(found.values())


def assemble(
    leaders: Sequence[Individual],
    evaluate: Callable[[Sequence[Tree]], Sequence[Individual]],
    settings: Settings,
    limits: Limits,
) -> Individual:
    """The first leader, with the ranks of others added as long as each is worth its place.

    Formulas that err by chance err differently, so that a sum of ranks errs less.
    """
    chosen = leaders[0]
    ranks = Tree("rank", (chosen.tree,))
    while True:
        sums = [Tree("add", (ranks, Tree("rank", (other.tree,)))) for other in leaders]
        allowed = evaluate([tree for tree in sums if limits.allow(tree)])
        best = max((i for i in allowed if i.valid), key=lambda i: i.fitness, default=chosen)
        if best.jcm - chosen.jcm <= JOINING * settings.margin:
            return chosen
        chosen, ranks = best, best.tree


def sample_parent(
    population: Sequence[Individual], settings: Settings, rng: random.Random
) -> Individual:
    """One of the top-k of a random sample."""
    size = max(1, round(settings.sample_ratio * len(population)))
    sample = sorted(rng.sample(list(population), size), key=lambda i: i.fitness, reverse=True)
    return rng.choice(sample[: settings.top])


def vary_by_mutation(
    population: Sequence[Individual],
    toolbox: base.Toolbox,
    settings: Settings,
    rng: random.Random,
) -> list[Offspring]:
    parents = [sample_parent(population, settings, rng) for _ in range(settings.children)]
    return [(parent, toolbox.mutate(parent.tree, rng)) for parent in parents]


def vary_by_mixture(
    population: Sequence[Individual],
    toolbox: base.Toolbox,
    settings: Settings,
    rng: random.Random,
) -> list[Offspring]:
    """Crossover, mutation, and now and then a newcomer; parents by tournament."""

    def parent() -> Tree:
        rivals = rng.sample(list(population), min(TOURNAMENT, len(population)))
        return max(rivals, key=lambda i: i.fitness).tree

    def child() -> Tree:
        draw = rng.random()
        if draw < NEWCOMERS:
            tree: Tree = toolbox.generate(rng)
        elif draw < NEWCOMERS + CROSSOVER:
            tree = toolbox.mate(parent(), parent(), rng)
        else:
            tree = toolbox.mutate(parent(), rng)
        return tree

    return [(None, child()) for _ in range(settings.children)]


def vary_by_chance(
    population: Sequence[Individual],
    toolbox: base.Toolbox,
    settings: Settings,
    rng: random.Random,
) -> list[Offspring]:
    return [(None, toolbox.generate(rng)) for _ in range(settings.children)]


def improves(parent: Individual | None, child: Individual, settings: Settings) -> bool:
    """The elitism test."""
    return parent is None or child.jcm - parent.jcm >= settings.margin


def always(parent: Individual | None, child: Individual, settings: Settings) -> bool:
    return True


STRATEGIES: Mapping[str, Strategy] = {
    "mixture": Strategy(vary_by_mixture, always),
    "elitist": Strategy(vary_by_mutation, improves, retries=True),
    "naive": Strategy(vary_by_mutation, always),
    "random": Strategy(vary_by_chance, always),
}
