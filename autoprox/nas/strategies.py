"""The strategies by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from autoprox.nas import blockwise, etas, evolution, random
from autoprox.nas.search_parameters import SearchParameters
from autoprox.nas.searcher import Searcher


class Strategy(NamedTuple):
    """A way to search, and what it needs besides a proxy."""

    search: Callable[[Searcher, Any], None]
    settings: type[SearchParameters]
    by_block: bool = False
    evaluator: bool = False


STRATEGIES: Mapping[str, Strategy] = MappingProxyType(
    {
        "random": Strategy(random.search, random.RandomSettings),
        "blockwise": Strategy(blockwise.search, blockwise.BlockwiseSettings, by_block=True),
        "etas": Strategy(etas.search, etas.ETASSettings, evaluator=True),
        "evolution": Strategy(evolution.search, evolution.EvolutionSettings),
    }
)
