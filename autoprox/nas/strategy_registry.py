"""The registry of search strategies, and the types that a package needs to add its own."""

from autoprox.errors import AutoproxError
from autoprox.nas.ageing_evolution import AgeingParameters, evolve_by_age
from autoprox.nas.blockwise_evolution import BlockwiseParameters, search_blockwise
from autoprox.nas.etas_search import ETASParameters, search_etas
from autoprox.nas.random_search import RandomParameters, search_randomly
from autoprox.nas.strategy_interface import SearchParameters, SearchStrategy
from autoprox.registry import Registry

__all__ = ["SEARCH_STRATEGIES", "SearchParameters", "SearchStrategy", "StrategyError"]


class StrategyError(AutoproxError):
    """A search strategy that breaks a rule of the registry or doesn't exist."""


def _prove(name: str, strategy: SearchStrategy) -> None:
    if not isinstance(strategy, SearchStrategy) or strategy.settings().candidates < 1:
        raise StrategyError(f"a search strategy is a `SearchStrategy`, but {name} is {strategy!r}")


SEARCH_STRATEGIES: Registry[SearchStrategy] = Registry(
    "search_strategies", "search strategy", StrategyError, _prove
)
for _name, _strategy in {
    "random": SearchStrategy(search_randomly, RandomParameters),
    "blockwise": SearchStrategy(search_blockwise, BlockwiseParameters, by_block=True),
    "etas": SearchStrategy(search_etas, ETASParameters, evaluator=True),
    "evolution": SearchStrategy(evolve_by_age, AgeingParameters),
}.items():
    SEARCH_STRATEGIES.register(_name, _strategy)
