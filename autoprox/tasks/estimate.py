"""What a task will take, from one of its networks measured beforehand."""

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autoprox.files.sizes import short
from autoprox.language import Statistic
from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.statistics.collector import Setting
from autoprox.statistics.networks import SpaceNetwork
from autoprox.statistics.sources import StreamedMatrices


@dataclass(frozen=True)
class Estimate:
    """How many networks are to be measured, how long that takes, and what is kept of it."""

    networks: int
    datasets: int
    seconds: float
    cache: int = 0  # bytes
    free: int = 0  # bytes on the cache's disk

    def __str__(self) -> str:
        kept = f", cache {short(self.cache)}B of {short(self.free)}B free" if self.cache else ""
        return (
            f"{self.networks} networks x {self.datasets} dataset{'s' * (self.datasets > 1)}, about "
            f"{span(self.seconds)} to measure them{kept}"
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


def measured_once(
    setting: Setting, network: SpaceNetwork, needs: Iterable[Statistic]
) -> tuple[float, int]:
    """Seconds and bytes of the statistics of a network, measured twice: the first warms up."""
    source = StreamedMatrices(setting, [network])
    wanted: dict[str, set[Statistic]] = defaultdict(set)
    for statistic in needs:
        for datasets in source.variants([statistic]):
            wanted[source.datasets[datasets[0]]].add(statistic)
    for _ in range(2):
        started = time.monotonic()
        size = sum(
            matrix.nbytes
            for _, measured in setting.measure(network, wanted)
            for matrices in measured.values()
            for matrix in matrices
        )
    return time.monotonic() - started, size
