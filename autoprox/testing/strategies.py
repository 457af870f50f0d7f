"""What must hold for a strategy of evolution or of search, on fitnesses that are made up."""

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
from autoprox.language import Tree, digest, parse
from autoprox.language.grammar import Grammar
from autoprox.nas.evaluators import Evaluator, one_by_one
from autoprox.nas.own_weights import OwnWeights
from autoprox.nas.proxy import SplitProxy
from autoprox.nas.searcher import Searcher
from autoprox.nas.strategies import SearchParameters, SearchStrategy
from autoprox.parameters import TreeLimits
from autoprox.searchspaces import get_space
from autoprox.searchspaces.size_limits import SizeLimits
from autoprox.statistics.collector import Setting
from autoprox.testing.require import require

PARAMETERS = EvolutionParameters(population=6, iterations=8, children=4, top=2)
BUDGETS = (1, 7, 23)  # of evaluations: within the first population, and within an iteration
GRAMMAR = Grammar(limits=TreeLimits(max_size=14, max_depth=6))


def check_evolution_strategy(strategy: EvolutionStrategy) -> None:
    """Populations stay full, valid, within the limits and sorted; a seed fixes everything.

    No more formulas are evaluated than the budget allows.
    """
    parameters = strategy.configured("the strategy", PARAMETERS, {})
    populations = _populations(strategy, 1, parameters)
    require(len(populations) == PARAMETERS.iterations, "an iteration is recorded once")
    for population in populations:
        fitnesses = [individual.jcm for individual in population]
        require(len(population) == PARAMETERS.population, "a population is full")
        require(all(i.valid for i in population), "what survives is valid")
        require(all(GRAMMAR.limits.allow(i.tree) for i in population), "trees keep the limits")
        require(fitnesses == sorted(fitnesses, reverse=True), "the best come first")
    expressions = [[str(i.tree) for i in population] for population in populations]
    again = [
        [str(i.tree) for i in population] for population in _populations(strategy, 1, parameters)
    ]
    require(expressions == again, "a seed fixes everything: draw from the given generator alone")
    for budget in BUDGETS:
        asked: list[Tree] = []
        _populations(strategy, 1, parameters.model_copy(update={"evaluations": budget}), asked)
        require(len(asked) <= budget, "no more formulas are evaluated than the budget allows")


def _populations(
    strategy: EvolutionStrategy,
    seed: int,
    parameters: EvolutionParameters,
    asked: list[Tree] | None = None,
) -> list[list[Individual]]:
    """Return the population after each iteration; what is evaluated is appended to `asked`."""
    history: list[list[Individual]] = []

    def evaluate(trees: Sequence[Tree]) -> list[Individual]:
        if asked is not None:
            asked.extend(trees)
        return _evaluate(trees)

    toolbox = make_toolbox(GRAMMAR, evaluate, strategy, parameters)
    state = State(Random(seed))
    evolve(toolbox, strategy, parameters, state, lambda s: history.append(list(s.population)))
    return history


def _evaluate(trees: Sequence[Tree]) -> list[Individual]:
    """Fitness without a pattern, a fifth of the trees invalid."""
    numbers = [int(digest(tree)[:8], 16) for tree in trees]
    return [
        Individual(tree, (number / 2**32,), number / 2**32)
        if number % 5
        else Individual(tree, reason="constant")
        for tree, number in zip(trees, numbers, strict=True)
    ]


def structure_searcher(seed: int) -> Searcher:
    """A searcher on a proxy of the structure alone, for which no network is built."""
    space = get_space("autoformer-nano")
    proxy = SplitProxy(parse("sum(mul(width, heads))"), by_block=True)
    evaluator = Evaluator("heads", one_by_one(lambda a: sum(b.heads for b in space.blocks(a))))
    scorer = OwnWeights(proxy, space, Setting({}))
    return Searcher(SizeLimits(space, 10), proxy, scorer, seed, evaluator=evaluator)


def check_search_strategy(
    strategy: SearchStrategy,
    settings: SearchParameters | None = None,
    searcher: Callable[[int], Searcher] = structure_searcher,
) -> None:
    """It scores no more candidates than it says, all different and valid; a seed fixes them.

    `settings` are the strategy's own, if its defaults take long; `searcher` makes a new searcher of
    a seed.
    """
    settings = settings or strategy.settings()
    first, again = searcher(1), searcher(1)
    for own in (first, again):
        strategy.search(own, settings)
    found = [candidate.architecture for candidate in first.candidates]
    require(found, "a search scores candidates")
    require(len(set(found)) == len(found), "no candidate is scored twice")
    for architecture in found:
        first.space.validate(architecture)
    require(len(found) <= settings.candidates, "a search scores as many candidates as it says")
    require(
        found == [candidate.architecture for candidate in again.candidates],
        "a seed fixes everything: draw from the searcher's generator alone",
    )
