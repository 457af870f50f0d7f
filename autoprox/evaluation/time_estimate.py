"""Estimates of what a task will take, from some of its networks measured beforehand."""

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic import Field, computed_field

from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.files.human_readable_sizes import format_with_unit
from autoprox.files.json_documents import JSONDocument
from autoprox.language import Tree
from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.statistics.matrix_sources import MatrixSource

T = TypeVar("T")
SHARE_OF_NETWORKS = 6  # one network in this many is used to time formulas
CHILDREN = 10  # formulas that are evaluated together


class TimeEstimate(JSONDocument):
    """The number of networks to be measured, and what that takes."""

    networks: int
    datasets: int
    seconds: float
    cache: int = 0  # bytes
    free: int = 0  # bytes on the cache's disk
    stages: dict[str, float] = Field(default_factory=dict)  # seconds, if there are several

    @computed_field  # type: ignore[prop-decorator]
    @property
    def text(self) -> str:
        """The estimate in words."""
        return str(self)

    def __str__(self) -> str:
        kept = (
            f", cache {format_with_unit(self.cache)}B of {format_with_unit(self.free)}B free"
            if self.cache
            else ""
        )
        parts = ", ".join(
            f"{stage} {format_duration(seconds)}" for stage, seconds in self.stages.items()
        )
        return (
            f"{self.networks} networks x {self.datasets} dataset{'s' * (self.datasets > 1)}, about "
            f"{format_duration(self.seconds)} {f'({parts})' if parts else 'to measure them'}{kept}"
        )


class DryRun(JSONDocument):
    """The result of a dry run: the name of the run, and an estimate of its time."""

    kind: str
    name: str
    estimate: TimeEstimate | None


def format_duration(seconds: float) -> str:
    """A time as people say it: 40 s, 4 min, 2.5 h."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def median_size_index(space: SearchSpace, architectures: Sequence[Architecture]) -> int:
    """Return the index of the one with the median number of parameters."""
    order = sorted(range(len(architectures)), key=lambda n: space.params(architectures[n], 1))
    return order[len(order) // 2]


def evenly_spaced_networks(networks: Sequence[T], count: int) -> list[T]:
    """Return as many networks, at even distances in the order."""
    return [networks[(2 * i + 1) * len(networks) // (2 * count)] for i in range(count)]


def formula_seconds(
    trees: Sequence[Tree], source: Callable[[int], MatrixSource], networks: int
) -> float:
    """Return the time of a formula on all networks, extrapolated from one and from a part of them.

    `source` gives as many networks as it is asked for.
    """

    def measured(count: int) -> float:
        taken, matrices = [], source(count)
        for _ in range(2):  # the first reads the matrices
            engine = TreeEvaluator(matrices)
            started = time.monotonic()
            for first in range(0, len(trees), CHILDREN):
                engine.evaluate(trees[first : first + CHILDREN])
            taken.append(time.monotonic() - started)
        return min(taken) / len(trees)

    part = max(2, networks // SHARE_OF_NETWORKS)
    one, several = measured(1), measured(part)
    return one + max(0.0, several - one) * (networks - 1) / (part - 1)
