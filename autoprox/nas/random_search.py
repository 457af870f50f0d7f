"""Random search, as of Auto-Prox (Wei et al., AAAI 2024): 400 candidates, the best by the proxy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from autoprox.declared_options import Many, Option
from autoprox.nas.strategy_interface import SearchParameters

if TYPE_CHECKING:
    from autoprox.nas.searcher import Searcher

STEP_SIZE = 50  # candidates


class RandomParameters(SearchParameters):
    """The number of architectures that are scored."""

    samples: Annotated[Many, Option("Random candidates.")] = 400

    @property
    def candidates(self) -> int:
        return self.samples


def search_randomly(searcher: Searcher, settings: RandomParameters) -> None:
    """Score different random architectures; fewer if the limits allow no more."""
    for scored in range(0, settings.samples, STEP_SIZE):
        samples = searcher.samples(min(STEP_SIZE, settings.samples - scored))
        if not samples:
            return
        searcher.score(samples)
        searcher.step()
