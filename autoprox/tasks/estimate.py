"""Estimates of what a task will take, from one of its networks measured beforehand."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from autoprox.engine.evaluator import Engine
from autoprox.files.sizes import short
from autoprox.language import Statistic, Tree
from autoprox.parallel.threads import run_threads
from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.statistics.collector import Setting
from autoprox.statistics.networks import SpaceNetwork
from autoprox.statistics.sources import MatrixSource, StreamedMatrices

PART = 6  # of the networks, one in so many stands for all where formulas are timed
CHILDREN = 10  # formulas that are evaluated together


@dataclass(frozen=True)
class Estimate:
    """How many networks are to be measured, how long that takes, and what is kept of it."""

    networks: int
    datasets: int
    seconds: float
    cache: int = 0  # bytes
    free: int = 0  # bytes on the cache's disk
    stages: Mapping[str, float] = field(default_factory=dict)  # seconds, where there are several

    def __str__(self) -> str:
        kept = f", cache {short(self.cache)}B of {short(self.free)}B free" if self.cache else ""
        parts = ", ".join(f"{stage} {span(seconds)}" for stage, seconds in self.stages.items())
        return (
            f"{self.networks} networks x {self.datasets} dataset{'s' * (self.datasets > 1)}, about "
            f"{span(self.seconds)} {f'({parts})' if parts else 'to measure them'}{kept}"
        )

    def to_dict(self) -> dict[str, Any]:
        """As a JSON document."""
        return asdict(self)


def span(seconds: float) -> str:
    """A time as people say it: 40 s, 4 min, 2.5 h."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def middle(space: SearchSpace, architectures: Sequence[Architecture]) -> int:
    """The place of the one with the median number of parameters."""
    order = sorted(range(len(architectures)), key=lambda n: space.params(architectures[n], 1))
    return order[len(order) // 2]


def seconds_each(call: Callable[[], object], workers: int) -> float:
    """Return the time that a call takes while all workers do the same, divided by their number."""

    def do() -> None:
        call()

    started = time.monotonic()
    run_threads(workers, [do] * workers)
    return (time.monotonic() - started) / workers


def needs_of(
    setting: Setting, network: SpaceNetwork, needs: Iterable[Statistic]
) -> dict[str, set[Statistic]]:
    """Return the statistics to measure of each dataset: those that datasets share are in one."""
    source = StreamedMatrices(setting, [network])
    wanted: dict[str, set[Statistic]] = defaultdict(set)
    for statistic in needs:
        for datasets in source.variants([statistic]):
            wanted[source.datasets[datasets[0]]].add(statistic)
    return wanted


def seconds_of_formulas(
    trees: Sequence[Tree], source: Callable[[int], MatrixSource], networks: int
) -> float:
    """Return the time of a formula on all networks, extrapolated from one and from a part of them.

    `source` gives as many networks as it is asked for.
    """

    def measured(count: int) -> float:
        engine = Engine(source(count))
        engine.evaluate(trees[:1])  # reads the matrices
        started = time.monotonic()
        for first in range(1, len(trees), CHILDREN):
            engine.evaluate(trees[first : first + CHILDREN])
        return (time.monotonic() - started) / (len(trees) - 1)

    part = max(2, networks // PART)
    one, several = measured(1), measured(part)
    return one + max(0.0, several - one) * (networks - 1) / (part - 1)
