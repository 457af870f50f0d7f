"""The registry of search strategies, and what a package needs to add its own."""

from autoprox.errors import AutoproxError
from autoprox.nas import blockwise, etas, evolution, random
from autoprox.nas.parameters import SearchParameters, SearchStrategy
from autoprox.registry import Registry

__all__ = ["STRATEGIES", "SearchParameters", "SearchStrategy", "StrategyError"]


class StrategyError(AutoproxError):
    """A search strategy that breaks a rule of the registry, or that there isn't."""


def _prove(name: str, strategy: SearchStrategy) -> None:
    if not isinstance(strategy, SearchStrategy) or strategy.settings().candidates < 1:
        raise StrategyError(f"a search strategy is a `SearchStrategy`, but {name} is {strategy!r}")


STRATEGIES: Registry[SearchStrategy] = Registry(
    "search_strategies", "search strategy", StrategyError, _prove
)
STRATEGIES.register("random", SearchStrategy(random.search, random.RandomParameters))
STRATEGIES.register(
    "blockwise", SearchStrategy(blockwise.search, blockwise.BlockwiseParameters, by_block=True)
)
STRATEGIES.register("etas", SearchStrategy(etas.search, etas.ETASParameters, evaluator=True))
STRATEGIES.register("evolution", SearchStrategy(evolution.search, evolution.AgeingParameters))
