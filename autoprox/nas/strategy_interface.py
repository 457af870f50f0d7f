"""The parts of a search strategy, quick to import: commands list the options of all strategies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from autoprox.declared_options import Options

if TYPE_CHECKING:
    from autoprox.nas.searcher import Searcher


class SearchParameters(Options):
    """The options of a strategy, with their defaults and help."""

    noun = "a strategy"

    @property
    @abstractmethod
    def candidates(self) -> int:
        """The most candidates that a search with these options scores."""


class SearchStrategy(NamedTuple):
    """A search function, its options, and what it needs besides a proxy."""

    search: Callable[[Searcher, Any], None]
    settings: type[SearchParameters]
    by_block: bool = False
    evaluator: bool = False
