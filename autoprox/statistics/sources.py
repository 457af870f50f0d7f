"""Where the engine reads matrices from: the untrained networks that are compared."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import TypeVar

import numpy as np

from autoprox.errors import MeasurementError, failure_of
from autoprox.language import Statistic
from autoprox.parallel.threads import run_threads
from autoprox.statistics.chunks import MatrixChunk
from autoprox.statistics.collector import CPU, Measured, Setting
from autoprox.statistics.layers import LayerTable
from autoprox.statistics.networks import Structure, UntrainedNetwork

T = TypeVar("T")
Group = frozenset[Statistic]  # what one matrix expression reads: one domain, one kind of shape
# Takes a group, datasets of equal matrices, where among the layers of their domain they stand.
Reduce = Callable[[Group, list[int], np.ndarray, MatrixChunk], None]
FAILURES = (ArithmeticError, MemoryError, RuntimeError, ValueError)


class MatrixSource(ABC):
    """The untrained networks that are compared, and a way to read their matrices."""

    def __init__(
        self,
        setting: Setting,
        networks: Sequence[UntrainedNetwork],
        workers: int = 1,
        max_failed: float = 0.1,
    ) -> None:
        self.setting = setting
        self.networks = tuple(networks)
        self.datasets = tuple(setting.batches)
        self.workers = workers
        # Reductions are in float64, which MPS has not.
        self.device = CPU if setting.device.type == "mps" else setting.device
        self.failures: dict[int, str] = {}
        self._max_failed = max_failed
        self._variants: dict[Group, list[list[int]]] = {}

    @property
    def alive(self) -> list[int]:
        """The networks that could be measured so far."""
        return [n for n in range(len(self.layers.structures)) if n not in self.failures]

    @cached_property
    def layers(self) -> LayerTable:
        """The layers of every network; one that can't be built has none."""
        found = (self._attempt(n, network.structure) for n, network in enumerate(self.networks))
        return LayerTable(tuple(structure or Structure() for structure in found))

    def variants(self, statistics: Iterable[Statistic]) -> list[list[int]]:
        """Datasets for which the statistics are the same, such as all of them for weights."""
        group = frozenset(statistics)
        if group not in self._variants:
            same: dict[frozenset[str], list[int]] = defaultdict(list)
            for index, dataset in enumerate(self.datasets):
                keys = (self.setting.key(self.networks[0], dataset, s) for s in group)
                same[frozenset(keys)].append(index)
            self._variants[group] = list(same.values())
        return self._variants[group]

    @abstractmethod
    def visit(self, groups: Sequence[Group], reduce: Reduce) -> None:
        """Call `reduce` with every matrix that the groups need, in pieces, in any order."""

    def _measured(
        self, network: int, needs: dict[str, set[Statistic]]
    ) -> Iterator[tuple[str, Measured]]:
        """Dataset after dataset, so that only one's matrices are held; ends where one fails."""
        steps = self.setting.measure(self.networks[network], needs)
        while (step := self._attempt(network, partial(next, steps, None))) is not None:
            yield step
            del step

    def _attempt(self, network: int, call: Callable[[], T]) -> T | None:
        """None, with the reason on record, where the network fails."""
        try:
            return call()
        except FAILURES as error:
            self.failures[network] = failure_of(error)
            failed, total = len(self.failures), len(self.networks)
            if failed > self._max_failed * total:
                raise MeasurementError(
                    f"at most {self._max_failed:.0%} of the networks may fail, "
                    f"but {failed} of {total} did: {next(iter(self.failures.values()))}"
                ) from error
            return None


class StreamedMatrices(MatrixSource):
    """Builds and measures each network at every visit, and keeps nothing."""

    def visit(self, groups: Sequence[Group], reduce: Reduce) -> None:
        visits = (partial(self._visit_network, n, groups, reduce) for n in self.alive)
        run_threads(self.workers, visits)

    def _visit_network(self, network: int, groups: Sequence[Group], reduce: Reduce) -> None:
        needs: dict[str, set[Statistic]] = defaultdict(set)
        wanted: dict[str, list[tuple[Group, list[int]]]] = defaultdict(list)
        for group in groups:
            for datasets in self.variants(group):
                needs[self.datasets[datasets[0]]] |= group
                wanted[self.datasets[datasets[0]]].append((group, datasets))
        for dataset, measured in self._measured(network, needs):
            for group, datasets in wanted[dataset]:
                start = self.layers.starts[next(iter(group)).domain][network]
                for layer in range(len(measured[next(iter(group))])):
                    matrices = {s: measured[s][layer][None].to(self.device) for s in group}
                    position = np.array([start + layer])
                    reduce(group, datasets, position, MatrixChunk.of(matrices))
            del measured
