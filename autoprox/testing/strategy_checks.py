"""The suites for strategies of evolution and of search, on made-up fitnesses."""

from collections.abc import Callable, Sequence
from random import Random

from autoprox.evolution import (
    EvolutionParameters,
    EvolutionStrategy,
    Individual,
    State,
    evolve,
    make_toolbox,
)
from autoprox.evolution_parameters import TreeLimits
from autoprox.language import Tree, parse_expression, tree_digest
from autoprox.language.grammar import Grammar
from autoprox.nas.architecture_evaluators import ArchitectureEvaluator, evaluate_one_by_one
from autoprox.nas.candidate_measurement import OwnWeightScorer, SearchProxy
from autoprox.nas.searcher import Searcher
from autoprox.nas.strategy_registry import SearchParameters, SearchStrategy
from autoprox.searchspaces import get_space
from autoprox.searchspaces.size_limits import SizeLimits
from autoprox.statistics.collector import MeasurementSetting
from autoprox.testing.rule_assertion import assert_rule

SUITE_PARAMETERS = EvolutionParameters(population=6, iterations=8, children=4, parents=2)
BUDGETS = (1, 7, 23)  # of evaluations: within the first population, and within an iteration
SUITE_GRAMMAR = Grammar(limits=TreeLimits(max_size=14, max_depth=6))


def check_evolution_strategy(strategy: EvolutionStrategy) -> None:
    """Check that populations stay full, valid, within limits and sorted; a seed fixes everything.

    No more formulas are evaluated than the budget allows.
    """
    parameters = strategy.configured("the strategy", SUITE_PARAMETERS, {})
    populations = _populations(strategy, 1, parameters)
    assert_rule(len(populations) == SUITE_PARAMETERS.iterations, "an iteration is recorded once")
    for population in populations:
        fitnesses = [individual.jcm for individual in population]
        assert_rule(len(population) == SUITE_PARAMETERS.population, "a population is full")
        assert_rule(all(i.valid for i in population), "what survives is valid")
        assert_rule(
            all(SUITE_GRAMMAR.limits.allow(i.tree) for i in population), "trees keep the limits"
        )
        assert_rule(fitnesses == sorted(fitnesses, reverse=True), "the best come first")
    again = _populations(strategy, 1, parameters)
    trees, same = ([[str(i.tree) for i in p] for p in history] for history in (populations, again))
    assert_rule(trees == same, "a seed fixes everything: draw from the given generator alone")
    for budget in BUDGETS:
        asked: list[Tree] = []
        _populations(strategy, 1, parameters.model_copy(update={"evaluations": budget}), asked)
        assert_rule(len(asked) <= budget, "no more formulas are evaluated than the budget allows")


def _populations(
    strategy: EvolutionStrategy,
    seed: int,
    parameters: EvolutionParameters,
    asked: list[Tree] | None = None,
) -> list[list[Individual]]:
    """Return the population after each iteration; what is evaluated is appended to `asked`."""
    history: list[list[Individual]] = []

    def evaluate(trees: Sequence[Tree]) -> list[Individual]:
        """Give a fitness without a pattern; a fifth of the trees are invalid."""
        if asked is not None:
            asked.extend(trees)
        numbers = [int(tree_digest(tree)[:8], 16) for tree in trees]
        return [
            Individual(tree, (number / 2**32,), number / 2**32)
            if number % 5
            else Individual(tree, reason="constant")
            for tree, number in zip(trees, numbers, strict=True)
        ]

    toolbox = make_toolbox(SUITE_GRAMMAR, evaluate, strategy, parameters)
    state = State(Random(seed))
    evolve(toolbox, strategy, parameters, state, lambda s: history.append(list(s.population)))
    return history


def weightless_searcher(seed: int) -> Searcher:
    """A searcher on a proxy of the structure alone, for which no network is built."""
    space = get_space("autoformer-nano")
    proxy = SearchProxy(parse_expression("sum(mul(width, heads))"), by_block=True)
    evaluator = ArchitectureEvaluator(
        "heads", evaluate_one_by_one(lambda a: sum(b.heads for b in space.blocks(a)))
    )
    scorer = OwnWeightScorer(proxy, space, MeasurementSetting({}))
    return Searcher(SizeLimits(space, 10), proxy, scorer, seed, evaluator=evaluator)


def check_search_strategy(
    strategy: SearchStrategy,
    settings: SearchParameters | None = None,
    searcher: Callable[[int], Searcher] = weightless_searcher,
) -> None:
    """Check that a search scores at most its candidates, different and valid; a seed fixes them.

    `settings` replace the strategy's defaults, if these take long; `searcher` makes a new searcher
    from a seed.
    """
    settings = settings or strategy.settings()
    first, again = searcher(1), searcher(1)
    for each in (first, again):
        strategy.search(each, settings)
    scored, same = ([c.architecture for c in each.candidates] for each in (first, again))
    assert_rule(scored, "a search scores candidates")
    assert_rule(len(set(scored)) == len(scored), "no candidate is scored twice")
    for architecture in scored:
        first.space.validate(architecture)
    assert_rule(len(scored) <= settings.candidates, "a search scores as many candidates as it says")
    assert_rule(scored == same, "a seed fixes everything: draw from the searcher's generator alone")
