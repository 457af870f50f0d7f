"""Shorter ways to measure architectures of a space under given conditions."""

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autoprox.inputs.batch import Batch
from autoprox.language import Statistic
from autoprox.nas.candidate_measurement import OwnWeightScorer, SearchProxy, SlicedWeightScorer
from autoprox.parallel.worker_pool import WorkerPool
from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.statistics.collector import CPU, MeasuredMatrices, MeasurementSetting
from autoprox.statistics.matrix_cache import CachedMatrices
from autoprox.statistics.matrix_sources import MatrixSource, UncachedMatrices
from autoprox.statistics.packed_matrices import MatrixChunk
from autoprox.statistics.untrained_networks import SpaceNetwork, untrained_space_networks


@dataclass(frozen=True)
class Conditions:
    """A space, a seed, and what networks are measured with."""

    space: SearchSpace
    batches: Mapping[str, Batch]
    seed: int = 0
    stride: int = 1
    device: torch.device = CPU

    @property
    def setting(self) -> MeasurementSetting:
        return MeasurementSetting(self.batches, self.stride, self.device)

    def network(self, architecture: Architecture) -> SpaceNetwork:
        return SpaceNetwork(self.space, architecture, self.seed)

    def measure(
        self, architecture: Architecture, needs: Mapping[str, Collection[Statistic]]
    ) -> Iterator[tuple[str, MeasuredMatrices]]:
        return self.setting.measure(self.network(architecture), needs)

    def key(self, architecture: Architecture, dataset: str, statistic: Statistic) -> str:
        return self.setting.key(self.network(architecture), dataset, statistic)

    def network_seed(self, architecture: Architecture) -> int:
        return self.network(architecture).seed


def streamed(
    given: Conditions,
    architectures: Sequence[Architecture],
    workers: int = 1,
    kind: type[UncachedMatrices] = UncachedMatrices,
) -> Any:
    networks = untrained_space_networks(given.space, architectures, given.seed)
    return kind(given.setting, networks, WorkerPool(workers))


def cached(
    given: Conditions,
    architectures: Sequence[Architecture],
    needs: Iterable[Statistic],
    workers: int = 1,
    **options: Any,
) -> CachedMatrices:
    """With everything measured."""
    networks = untrained_space_networks(given.space, architectures, given.seed)
    found = CachedMatrices(given.setting, networks, needs, pool=WorkerPool(workers), **options)
    found.collect()
    return found


def own_weights(proxy: SearchProxy, given: Conditions, workers: int = 1) -> OwnWeightScorer:
    return OwnWeightScorer(proxy, given.space, given.setting, given.seed, WorkerPool(workers))


def sliced_weights(proxy: SearchProxy, given: Conditions, workers: int = 1) -> SlicedWeightScorer:
    return SlicedWeightScorer(proxy, given.space, given.setting, given.seed, WorkerPool(workers))


def read(
    source: MatrixSource, statistics: Iterable[Statistic]
) -> dict[tuple[str, int, int], Tensor]:
    """Every matrix by statistic, dataset and position, each of which must come once."""
    found: dict[tuple[str, int, int], Tensor] = {}
    lock = threading.Lock()

    def keep(
        group: frozenset[Statistic],
        datasets: list[int],
        positions: np.ndarray,
        chunk: MatrixChunk,
    ) -> None:
        with lock:
            for statistic in group:
                matrices = [m for part in chunk.parts(chunk.values[statistic]) for m in part]
                for dataset in datasets:
                    for position, value in zip(positions, matrices, strict=True):
                        key = (str(statistic), dataset, int(position))
                        assert key not in found
                        found[key] = value.clone()

    source.visit({frozenset({statistic}): itself for statistic in statistics}, keep)
    return found


def itself(chunk: MatrixChunk) -> MatrixChunk:
    return chunk


def assert_equal(found: Mapping[object, Tensor], expected: Mapping[object, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert torch.equal(found[key], value)
