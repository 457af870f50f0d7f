"""The strategies on made-up fitnesses: no network is built."""

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest
from deap import base

from autoprox.errors import AutoproxError
from autoprox.evolution import (
    STRATEGIES,
    EvolutionError,
    EvolutionParameters,
    Individual,
    State,
    evolve,
    survivors,
)
from autoprox.evolution.checkpoint import SavedState
from autoprox.evolution.evolution_strategies import select_of_sample
from autoprox.evolution_parameters import TreeLimits
from autoprox.language import Tree, parse_expression, tree_digest
from autoprox.language.grammar import Grammar

GRAMMAR = Grammar(limits=TreeLimits(max_size=14, max_depth=6))
SMALL = EvolutionParameters(population=6, iterations=12, children=4, parents=2)
TEXTS = [f"{r}({s})" for r in ("sum", "mean", "std") for s in ("width", "heads", "tokens", "one")]


def hashed(tree: Tree) -> Individual:
    """Fitness without a pattern, a fifth of the trees invalid; equal fitnesses are common."""
    number = int(tree_digest(tree)[:12], 16)
    if number % 5 == 0:
        return Individual(tree, reason=("constant", "not finite")[number % 2])
    jcm = (number // 5 % 12) / 12
    return Individual(tree, (jcm + 1e-9 * (number // 60 % 3 - 1), jcm), jcm, partial_tau=jcm / 2)


def shaped(tree: Tree) -> Individual:
    """Fitness with a way up: one more of `square` is a little better."""
    jcm = str(tree).count("square") / 32 + int(tree_digest(tree)[:4], 16) / 2**22
    return Individual(tree, (jcm,), jcm)


class Made:
    """A toolbox of a fitness function, and what it was asked."""

    def __init__(self, fitness: Callable[[Tree], Individual] = hashed) -> None:
        self.batches: list[list[Tree]] = []
        self.mutations: list[tuple[Tree, Tree]] = []
        self.fitness = fitness
        self.toolbox = base.Toolbox()
        self.toolbox.register("evaluate", self.evaluate)
        self.toolbox.register("generate", GRAMMAR.generate)
        self.toolbox.register("mutate", self.mutate)
        self.toolbox.register("mate", GRAMMAR.crossover)

    def evaluate(self, trees: Sequence[Tree]) -> list[Individual]:
        self.batches.append(list(trees))
        return [self.fitness(tree) for tree in trees]

    def mutate(self, tree: Tree, rng: random.Random) -> Tree:
        child = GRAMMAR.mutate(tree, rng)
        self.mutations.append((tree, child))
        return child

    def run(
        self,
        strategy: str,
        settings: EvolutionParameters = SMALL,
        state: State | None = None,
        seed: int = 0,
    ) -> tuple[State, list[list[Individual]]]:
        """The final state, and the population after each iteration."""
        history: list[list[Individual]] = []
        state = state or State(random.Random(seed))
        record = lambda state: history.append(list(state.population))  # noqa: E731
        self.toolbox.register("select", STRATEGIES[strategy].select, parameters=settings)
        return evolve(self.toolbox, STRATEGIES[strategy], settings, state, record), history


def with_fitness(*values: float) -> list[Individual]:
    pairs = zip(TEXTS, values, strict=False)
    return [Individual(parse_expression(text), (value,), value) for text, value in pairs]


def sized(size: int, jcm: float) -> Individual:
    return Individual(
        parse_expression("sum(" + "abs(" * (size - 2) + "width" + ")" * (size - 1)), (jcm,), jcm
    )


def texts(individuals: Sequence[Individual]) -> list[str]:
    return [str(individual.tree) for individual in individuals]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_population_is_full_distinct_valid_sorted_and_never_worse(strategy: str) -> None:
    made = Made()
    state, history = made.run(strategy)
    assert len(history) == state.iteration == SMALL.iterations
    for population in history:
        assert len(population) == SMALL.population
        assert all(individual.valid for individual in population)
        assert len({tree_digest(i.tree) for i in population}) == SMALL.population
        assert len({i.taus for i in population}) == SMALL.population
        assert [i.jcm for i in population] == sorted((i.jcm for i in population), reverse=True)
    for before, after in pairwise(history):
        for old, new in zip(before, after, strict=True):
            assert new.jcm >= old.jcm


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_tree_is_counted_and_every_invalid_one_by_its_reason(strategy: str) -> None:
    made = Made()
    state, _ = made.run(strategy)
    asked = [tree for batch in made.batches for tree in batch]
    assert state.evaluations == len(asked)
    reasons = [hashed(tree).reason for tree in asked]
    assert state.invalid == Counter(reason for reason in reasons if reason)
    assert set(state.invalid) == {"constant", "not finite"}


def hashed_if_large(tree: Tree) -> Individual:
    """The smallest trees, which no other is smaller than, are invalid."""
    return hashed(tree) if tree.size > 3 else Individual(tree, reason="constant")


@pytest.mark.parametrize("fitness", [hashed, hashed_if_large])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_front_has_all_that_no_other_formula_is_better_than(
    strategy: str, fitness: Callable[[Tree], Individual]
) -> None:
    made = Made(fitness)
    state, _ = made.run(strategy)
    asked = [fitness(tree) for batch in made.batches for tree in batch]
    points = {(i.jcm, i.tree.size) for i in asked if i.valid}
    best = {
        (jcm, size)
        for jcm, size in points
        if not any((j >= jcm and s <= size and (j, s) != (jcm, size)) for j, s in points)
    }
    assert {(i.jcm, i.tree.size) for i in state.front} == best


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_seed_fixes_everything(strategy: str) -> None:
    def run(seed: int) -> tuple[list[str], list[str], int, object]:
        random.seed(random.Random().random())
        state, history = Made().run(strategy, seed=seed)
        populations = [text for population in history for text in texts(population)]
        return populations, texts(state.front), state.evaluations, state.rng.getstate()

    assert run(1) == run(1)
    assert run(1) != run(2)


def test_elitism_keeps_a_child_only_if_it_is_better_by_the_margin() -> None:
    made = Made(shaped)
    settings = EvolutionParameters(population=6, iterations=30, children=4, margin=0.03)
    _, history = made.run("elitist", settings)
    parents: dict[str, list[float]] = {}
    for parent, child in made.mutations:
        parents.setdefault(tree_digest(child), []).append(shaped(parent).jcm)
    entered = 0
    for before, after in pairwise(history):
        for new in {tree_digest(i.tree): i for i in after}.keys() - {
            tree_digest(i.tree) for i in before
        }:
            child = next(i for i in after if tree_digest(i.tree) == new)
            assert any(child.jcm - jcm >= settings.margin for jcm in parents[new])
            entered += 1
    assert entered >= 3


class Script:
    """Mutants that come one after the other, whatever their parent is."""

    def __init__(self, *fitnesses: float | str) -> None:
        self.coming = iter(fitnesses)
        self.parents: list[str] = []
        self.known: dict[str, Individual] = {}
        self.batches: list[int] = []
        self.toolbox = base.Toolbox()
        self.toolbox.register("evaluate", self.evaluate)
        self.toolbox.register("mutate", self.mutate)
        self.names = iter([sized(size, 0).tree for size in range(20, 90)])

    def evaluate(self, trees: Sequence[Tree]) -> list[Individual]:
        self.batches.append(len(trees))
        return [self.known[str(tree)] for tree in trees]

    def mutate(self, tree: Tree, rng: random.Random) -> Tree:
        self.parents.append(str(tree))
        child, value = next(self.names), next(self.coming, -1.0)
        self.known[str(child)] = (
            Individual(child, reason=value)
            if isinstance(value, str)
            else Individual(child, (value,), value)
        )
        return child

    def run(self, strategy: str, population: list[Individual], **changed: float) -> State:
        options = {"population": 3, "iterations": 1, "children": 1, "parents": 1, "margin": 0.125}
        settings = EvolutionParameters(**{**options, "sample_ratio": 1.0, **changed})
        state = State(random.Random(0), population)
        self.toolbox.register("select", STRATEGIES[strategy].select, parameters=settings)
        return evolve(self.toolbox, STRATEGIES[strategy], settings, state, lambda state: None)


def test_a_child_that_is_not_better_by_the_margin_is_made_again_of_its_parent() -> None:
    script = Script(0.5, 0.62, "constant", 0.625, 9.0)
    state = script.run("elitist", with_fitness(0.5, 0.25, 0.125))
    assert script.batches == [1, 1, 1, 1]
    assert script.parents[:4] == ["sum(width)"] * 4
    assert [i.jcm for i in state.population] == [0.625, 0.5, 0.25]
    assert state.evaluations == 4
    assert state.invalid == {"constant": 1}


def test_a_child_that_is_better_is_not_made_again() -> None:
    script = Script(0.75, 9.0)
    state = script.run("elitist", with_fitness(0.5, 0.25, 0.125))
    assert script.batches == [1]
    assert [i.jcm for i in state.population] == [0.75, 0.5, 0.25]


@pytest.mark.parametrize("retries", [0, 2])
def test_retries_are_bounded(retries: int) -> None:
    script = Script()
    state = script.run("elitist", with_fitness(0.5, 0.25, 0.125), retries=retries, children=4)
    assert script.batches == [4] * (1 + retries)
    assert [i.jcm for i in state.population] == [0.5, 0.25, 0.125]


def test_only_the_rejected_are_made_again() -> None:
    script = Script(0.75, 0.1, 0.875, 0.1, 1.0, 0.1)
    state = script.run("elitist", with_fitness(0.5, 0.25, 0.125), children=4)
    assert script.batches == [4, 2, 1, 1]
    assert [i.jcm for i in state.population] == [1.0, 0.875, 0.75]


def test_without_elitism_a_worse_child_is_kept_at_once() -> None:
    script = Script(0.25, "constant")
    state = script.run("naive", with_fitness(0.5, 0.375, 0.125), children=2)
    assert script.batches == [2]
    assert [i.jcm for i in state.population] == [0.5, 0.375, 0.25]


def test_of_formulas_that_rank_alike_the_shortest_survives() -> None:
    long, short = parse_expression("sum(abs(width))"), parse_expression("sum(heads)")
    alike = [Individual(tree, (0.5, 0.25), 0.375) for tree in (long, short, long)]
    other = Individual(parse_expression("sum(tokens)"), (0.25, 0.5), 0.375)
    assert texts(survivors([*alike, other], 5)) == ["sum(heads)", "sum(tokens)"]
    assert texts(survivors([*alike, other], 1)) == ["sum(heads)"]


def test_parents_are_the_top_of_a_random_sample() -> None:
    population = with_fitness(*(n / 12 for n in reversed(range(12))))
    settings = EvolutionParameters(sample_ratio=0.5, parents=2)
    rng = random.Random(0)
    drawn = Counter(i.jcm for i in select_of_sample(population, 20_000, rng, settings))
    # The best of 12 is in a sample of 6 half the time, and then one of its two best.
    assert drawn[11 / 12] / 20_000 == pytest.approx(1 / 4, abs=0.02)
    # The second best is one of the two best of the sample whenever it is in the sample.
    assert drawn[10 / 12] / 20_000 == pytest.approx(1 / 4, abs=0.02)
    assert drawn[9 / 12] / 20_000 == pytest.approx(1 / 2 * (1 - 5 / 11 * 4 / 10) / 2, abs=0.02)
    assert min(drawn) >= 4 / 12


@pytest.mark.parametrize("budget", [1, 5, 6, 7, 23, 60])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_budget_of_evaluations_is_spent_and_not_exceeded(strategy: str, budget: int) -> None:
    settings = EvolutionParameters(population=6, iterations=50, children=4, evaluations=budget)
    made = Made()
    state, history = made.run(strategy, settings)
    assert state.evaluations == sum(map(len, made.batches)) == budget
    assert state.lines == len(history)
    assert state.iteration in (len(history), len(history) - 1)
    assert state.front
    if budget < 6:
        assert (state.iteration, state.drawn) == (0, budget)
    if budget == 60:
        assert state.iteration > 0


def test_an_iteration_that_the_budget_cuts_is_not_counted() -> None:
    script = Script(0.5, 0.25, 0.75, 0.625)
    state = script.run("naive", with_fitness(0.5, 0.375, 0.125), children=4, evaluations=3)
    assert script.batches == [3]
    assert (state.iteration, state.lines) == (0, 1)
    assert [i.jcm for i in state.population] == [0.75, 0.5, 0.375]
    retried = Script(*[0.0] * 9)
    state = retried.run("elitist", with_fitness(0.5, 0.375, 0.125), children=2, evaluations=5)
    assert retried.batches == [2, 2, 1]
    assert (state.iteration, state.evaluations) == (0, 5)


def test_a_population_that_cannot_be_found_is_an_error() -> None:
    made = Made(lambda tree: Individual(tree, reason="constant"))
    rule = "a population of 6 proxies .* 600 random .* only 0 are valid: choose a smaller"
    with pytest.raises(EvolutionError, match=rule):
        made.run("elitist")
    few = Made(lambda tree: Individual(tree, (0.5,), 0.5))
    with pytest.raises(EvolutionError, match="valid trees have only 1: the training"):
        few.run("random")


def saved(state: State) -> SavedState:
    """The state as a checkpoint has it, written to JSON and read again."""
    written = SavedState.of(state).model_dump_json()
    return SavedState.model_validate(json.loads(written), strict=False)


def everything(state: State) -> object:
    individuals = [
        (str(i.tree), i.taus, i.jcm, i.partial_tau, i.reason, i.fitness.values)
        for i in (*state.population, *state.front)
    ]
    counts = state.iteration, state.evaluations, state.invalid
    return individuals, len(state.population), counts, state.rng.getstate()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_restored_evolution_goes_on_as_if_it_had_never_stopped(strategy: str, seed: int) -> None:
    whole, _ = Made().run(strategy, seed=seed)
    half = EvolutionParameters(**{**vars(SMALL), "iterations": 5})
    stopped, _ = Made().run(strategy, half, seed=seed)
    again = saved(stopped).restored(2, "jcm")
    assert everything(again) == everything(stopped)
    assert (again.lines, again.drawn) == (5, stopped.drawn)
    resumed, history = Made().run(strategy, state=again)
    assert len(history) == SMALL.iterations - 5
    assert everything(resumed) == everything(whole)


def test_a_restored_front_keeps_the_order_of_equals() -> None:
    alike = [
        Individual(parse_expression(t), (0.5, n), 0.5, partial_tau=0)
        for n, t in enumerate(TEXTS[:4])
    ]
    state = State(random.Random(0), alike[:2])
    for individual in alike:
        state.front.update([individual])
    assert len(state.front) == 4
    assert everything(saved(state).restored(2, "jcm")) == everything(state)


@pytest.mark.parametrize(
    ("option", "rule"),
    [
        ({"population": 1}, "population must be a whole number >= 2, but got 1"),
        ({"iterations": 0}, "iterations must be a whole number >= 1"),
        ({"children": 2.5}, "children must be a whole number >= 1, but got 2.5"),
        ({"parents": True}, "parents must be a whole number"),
        ({"retries": -1}, "retries must be a whole number >= 0"),
        ({"evaluations": 0}, "evaluations must be a whole number >= 1"),
        ({"sample_ratio": 0.0}, "sample_ratio must be a number > 0 and <= 1"),
        ({"sample_ratio": float("nan")}, "sample_ratio must be a number"),
        ({"margin": -0.1}, "margin must be a number >= 0 and <= 2, but got -0.1"),
        ({"tolerance": -1}, "tolerance must be a number >= 0, but got -1"),
    ],
)
def test_settings_are_checked(option: dict[str, object], rule: str) -> None:
    with pytest.raises(AutoproxError, match=rule):
        EvolutionParameters(**option)
