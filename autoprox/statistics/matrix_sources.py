"""Sources of matrices: the untrained networks that are compared, for the engine to visit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from autoprox.errors import MeasurementError, failure_of
from autoprox.language import Statistic
from autoprox.parallel.worker_pool import SINGLE_WORKER, WorkerPool
from autoprox.progress import Progress, silent
from autoprox.statistics.collector import CPU, MeasuredMatrices, MeasurementSetting
from autoprox.statistics.packed_matrices import MatrixChunk
from autoprox.statistics.untrained_networks import LayerTable, NetworkStructure, UntrainedNetwork

StatisticGroup = frozenset[
    Statistic
]  # read by one matrix expression: of one domain and kind of shape
Programs = Mapping[StatisticGroup, Callable[[MatrixChunk], Any]]  # computed from a group's matrices
# Takes a group, datasets of equal matrices, the positions of these among the layers of their
# domain, and the output of the group's program.
Take = Callable[[StatisticGroup, list[int], np.ndarray, Any], None]
Needs = dict[str, set[Statistic]]  # by dataset
TakeMeasured = Callable[[str, MeasuredMatrices], None]  # takes the matrices of a dataset
MEMO_BYTES = 2**28  # of layer values that the engine may keep
FAILURES = (ArithmeticError, MemoryError, RuntimeError, ValueError)


class MeasureNetwork(Protocol):
    """Measures a network as `measure_statistics` does, and may return something else too."""

    def __call__(
        self,
        setting: MeasurementSetting,
        network: UntrainedNetwork,
        needs: Needs,
        take: TakeMeasured,
    ) -> tuple[str | None, Any]: ...


class ExtraExpressions(Protocol):
    """Extra expressions, measured in the same passes as the networks' statistics."""

    @property
    def measure(self) -> MeasureNetwork:
        """Measures a network's statistics and the extra values."""

    def wants(self, network: UntrainedNetwork) -> bool:
        """Return whether a network has yet to be measured."""

    def keep(self, network: UntrainedNetwork, found: Any) -> None:
        """Keep the extra values of a network."""


def measure_statistics(
    setting: MeasurementSetting, network: UntrainedNetwork, needs: Needs, take: TakeMeasured
) -> tuple[str | None, Any]:
    """Measure a network on one dataset after another, holding one dataset's matrices at a time.

    Returns why it failed, if it did, and None for the values of extra expressions.
    """

    def measure() -> None:
        for dataset, measured in setting.measure(network, needs):
            take(dataset, measured)
            del measured

    return catch_network_failure(measure), None


def catch_network_failure(call: Callable[[], object]) -> str | None:
    """Do something with a network; returns why it failed, if it did."""
    try:
        call()
    except FAILURES as error:
        return failure_of(error)
    return None


class MatrixSource(ABC):
    """The untrained networks that are compared, and a way to read their matrices."""

    extra: ExtraExpressions | None = None

    def __init__(
        self,
        setting: MeasurementSetting,
        networks: Sequence[UntrainedNetwork],
        pool: WorkerPool = SINGLE_WORKER,
        max_failed: float = 0.1,
    ) -> None:
        self.setting = setting
        self.networks = tuple(networks)
        self.datasets = tuple(setting.batches)
        self.pool = pool
        self.progress: Progress = silent
        # Reductions are in float64, which MPS lacks.
        self.device = CPU if setting.device.type == "mps" else setting.device
        self.memo = MEMO_BYTES
        self.failures: dict[int, str] = {}
        self._max_failed = max_failed
        self._variants: dict[StatisticGroup, list[list[int]]] = {}

    @property
    def measurable(self) -> list[int]:
        """The networks that have not failed so far."""
        return [n for n in range(len(self.layers.structures)) if n not in self.failures]

    @cached_property
    def layers(self) -> LayerTable:
        """The layers of every network; one that can't be built has none."""
        structures = [NetworkStructure()] * len(self.networks)
        for index, network in enumerate(self.networks):
            try:
                structures[index] = network.structure()
            except FAILURES as error:
                self.fail(index, failure_of(error))
        return LayerTable(tuple(structures))

    def variants(self, statistics: Iterable[Statistic]) -> list[list[int]]:
        """Group the datasets for which the statistics are the same; for weights, all of them."""
        group = frozenset(statistics)
        if len(self.datasets) == 1:
            return [[0]]
        if group not in self._variants:
            same: dict[frozenset[str], list[int]] = defaultdict(list)
            for index, dataset in enumerate(self.datasets):
                keys = (self.setting.key(self.networks[0], dataset, s) for s in group)
                same[frozenset(keys)].append(index)
            self._variants[group] = list(same.values())
        return self._variants[group]

    @abstractmethod
    def visit(self, programs: Programs, take: Take) -> None:
        """Run the programs over every matrix of their groups, in pieces, in any order."""

    def fail(self, network: int, reason: str | None) -> None:
        """Record why a network failed, if it did; raise if too many have."""
        if reason is None:
            return
        self.failures[network] = reason
        failed, total = len(self.failures), len(self.networks)
        if failed > self._max_failed * total:
            raise MeasurementError(
                f"at most {self._max_failed:.0%} of the networks may fail, "
                f"but {failed} of {total} did: {next(iter(self.failures.values()))}"
            )

    def _measure_network(self, network: int) -> MeasureNetwork:
        if self.extra is not None and self.extra.wants(self.networks[network]):
            return self.extra.measure
        return measure_statistics

    def _keep_extra(self, network: int, found: Any) -> None:
        if self.extra is not None and found is not None:
            self.extra.keep(self.networks[network], found)


class UncachedMatrices(MatrixSource):
    """Builds and measures each network again at every visit, and keeps nothing.

    Extra expressions are measured at the first visit.
    """

    def visit(self, programs: Programs, take: Take) -> None:
        needs: Needs = defaultdict(set)
        wanted: dict[str, list[tuple[StatisticGroup, list[int]]]] = defaultdict(list)
        for group in programs:
            for datasets in self.variants(group):
                needs[self.datasets[datasets[0]]] |= group
                wanted[self.datasets[datasets[0]]].append((group, datasets))
        measurable = self.measurable
        items = [(self.networks[n], self._measure_network(n)) for n in measurable]
        numbers = enumerate(measurable, start=1)
        self.progress("measure", 0, len(items), "")

        def keep(found: _Computed) -> None:
            done, network = next(numbers)
            for group, datasets, layers in found.layers:
                start = self.layers.starts[next(iter(group)).domain][network]
                for layer, values in enumerate(layers):
                    take(group, datasets, np.array([start + layer]), values)
            self._keep_extra(network, found.extra)
            self.fail(network, found.failure)
            self.progress("measure", done, len(items), "")

        self.pool.each(_compute, items, keep, self.device, self.setting, needs, programs, wanted)


class _Computed(NamedTuple):
    """The outputs of programs for each layer of a network, and why it failed, if it did."""

    layers: list[tuple[StatisticGroup, list[int], list[Any]]]
    failure: str | None
    extra: Any


def _compute(
    device: torch.device,
    setting: MeasurementSetting,
    needs: Needs,
    programs: Programs,
    wanted: Mapping[str, Sequence[tuple[StatisticGroup, list[int]]]],
    item: tuple[UntrainedNetwork, MeasureNetwork],
) -> _Computed:
    network, measure = item
    found: list[tuple[StatisticGroup, list[int], list[Any]]] = []

    def take(dataset: str, measured: MeasuredMatrices) -> None:
        for group, datasets in wanted[dataset]:
            layers = zip(*(measured[statistic] for statistic in group), strict=True)
            chunks = (
                MatrixChunk.of({s: m[None].to(device) for s, m in zip(group, own, strict=True)})
                for own in layers
            )
            found.append((group, datasets, [programs[group](chunk) for chunk in chunks]))

    failure, extra = measure(setting, network, needs, take)
    return _Computed(found, failure, extra)
