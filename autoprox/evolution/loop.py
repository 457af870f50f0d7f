"""The evolution loop of Auto-Prox and its state."""

from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
from deap import base, tools

from autoprox.evolution.evolution_strategies import Evaluate, EvolutionStrategy
from autoprox.evolution.individuals import EvolutionError, Individual, survivors
from autoprox.evolution.term_archive import SavedArchive, TermArchive
from autoprox.evolution_parameters import EvolutionParameters
from autoprox.language import Tree

MAX_DRAWS = 100  # random trees for each place in the first population, most of which are valid
FITNESSES = tools.Statistics(key=lambda individual: individual.metrics[0])
FITNESSES.register("best", max)
FITNESSES.register("mean", lambda values: float(np.mean(values)))


@dataclass
class State:
    """The state of an evolution: a population, the front so far, and the last line of the log."""

    rng: Random
    population: list[Individual] = field(default_factory=list)
    front: Any = field(
        default_factory=lambda: tools.ParetoFront(similar=lambda one, two: one.taus == two.taus)
    )
    iteration: int = 0  # complete ones
    evaluations: int = 0
    drawn: int = 0  # evaluations of random formulas for the first population
    lines: int = 0  # of the log
    invalid: Counter[str] = field(default_factory=Counter)
    logbook: Any = field(default_factory=tools.Logbook)
    archive: TermArchive | None = None  # of power laws
    saved_archive: SavedArchive | None = None  # of a checkpoint, to be restored

    def spent(self, parameters: EvolutionParameters) -> bool:
        """Return whether the evolution has ended."""
        return self.iteration >= parameters.iterations or self.left(parameters) == 0

    def left(self, parameters: EvolutionParameters) -> int | None:
        """Return how many evaluations the budget leaves; None without one."""
        if parameters.evaluations is None:
            return None
        return max(0, parameters.evaluations - self.evaluations)

    def progress(self, parameters: EvolutionParameters) -> tuple[int, int]:
        """Return how much is done, of how much: of limited evaluations, else of iterations."""
        if parameters.evaluations is None:
            return self.iteration, parameters.iterations
        return self.evaluations, parameters.evaluations

    def count(self, individuals: Sequence[Individual]) -> None:
        """Count evaluated individuals, and add the valid ones to the front."""
        self.evaluations += len(individuals)
        self.invalid.update(i.reason for i in individuals if not i.valid)
        self.front.update([i for i in individuals if i.valid])

    def log(self) -> None:
        """Replace the logbook's line by that of this iteration."""
        self.lines += 1
        best = max(self.population, key=lambda i: i.fitness).tree
        self.logbook.record(
            iteration=self.iteration,
            evaluations=self.evaluations,
            **FITNESSES.compile(self.population),
            size=best.size,
            expression=str(best),
            invalid=sum(self.invalid.values()),
        )
        if len(self.logbook) > 1:
            self.logbook.pop(0)


def evolve(
    toolbox: base.Toolbox,
    strategy: EvolutionStrategy,
    parameters: EvolutionParameters,
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

    If the budget of evaluations ends within an iteration, that iteration isn't counted. The
    population is smaller than P, or even empty, if the budget doesn't suffice for P valid proxies.

    `toolbox` has `evaluate` (trees to individuals), `generate`, `mutate`, `mate` and `select`.
    """
    evaluate_all = toolbox.evaluate

    def evaluate(trees: Sequence[Tree]) -> list[Individual]:
        """Evaluate what the budget allows, and count it, for strategies that evaluate too."""
        allowed = trees[: state.left(parameters)]
        individuals: list[Individual] = evaluate_all(allowed) if allowed else []
        state.count(individuals)
        return individuals

    toolbox = copy(toolbox)
    toolbox.evaluate = evaluate
    if not state.population:
        state.population = first_population(
            evaluate, toolbox, parameters, state.rng, lambda: state.spent(parameters)
        )
        state.drawn = state.evaluations
        if state.spent(parameters) and state.population:
            state.log()
            record(state)
    while not state.spent(parameters):
        offspring = strategy.vary(state.population, toolbox, parameters, state.rng)
        kept: list[Individual] = []
        complete = True
        for _ in range(1 + strategy.retries * parameters.retries):
            allowed = offspring[: state.left(parameters)]
            complete = len(allowed) == len(offspring)
            children = toolbox.evaluate([tree for _, tree in allowed])
            pairs = [(p, child) for (p, _), child in zip(allowed, children, strict=True)]
            good = [child.valid and strategy.keep(p, child, parameters) for p, child in pairs]
            kept += [child for (_, child), is_good in zip(pairs, good, strict=True) if is_good]
            rejected = [p for (p, _), is_good in zip(pairs, good, strict=True) if p and not is_good]
            if not rejected:
                break
            offspring = [(p, toolbox.mutate(p.tree, state.rng)) for p in rejected]
        state.population = survivors([*state.population, *kept], parameters.population)
        state.iteration += complete
        state.log()
        record(state)
    return state


def first_population(
    evaluate: Evaluate,
    toolbox: base.Toolbox,
    parameters: EvolutionParameters,
    rng: Random,
    spent: Callable[[], bool] = lambda: False,
) -> list[Individual]:
    """Draw distinct valid individuals until there are enough, or the budget is spent."""
    population: list[Individual] = []
    valid: set[Tree] = set()
    for _ in range(MAX_DRAWS):
        drawn = evaluate([toolbox.generate(rng) for _ in range(parameters.population)])
        valid.update(i.tree for i in drawn if i.valid)
        population = survivors([*population, *(i for i in drawn if i.valid)], parameters.population)
        if len(population) == parameters.population or spent():
            return population
    rule = f"a population of {parameters.population} proxies with different correlations must be"
    found = f"{rule} found in {MAX_DRAWS * parameters.population} random trees"
    if len(valid) >= parameters.population:
        raise EvolutionError(
            f"{found}, but {len(valid)} valid trees have only {len(population)}: the training "
            "networks are too few to tell them apart; choose a larger --train, or a benchmark of "
            "more networks"
        )
    raise EvolutionError(
        f"{found}, but only {len(valid)} are valid: choose a smaller population, or larger trees"
    )


def require_formula(states: Sequence[State]) -> None:
    """Raise EvolutionError unless one of the evaluated formulas is valid."""
    if not any(state.front for state in states):
        reasons = sum((state.invalid for state in states), Counter[str]())
        counted = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
        raise EvolutionError(
            "evaluations must be enough to find a valid formula, "
            f"but all {reasons.total()} formulas were invalid: {counted}"
        )
