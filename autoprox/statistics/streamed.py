"""Matrices that are measured at every visit, and not kept: any size, few formulas."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial

import numpy as np

from autoprox.language import Statistic
from autoprox.parallel.threads import run_threads
from autoprox.statistics.chunks import MatrixChunk
from autoprox.statistics.collector import Measured
from autoprox.statistics.sources import Group, MatrixSource, Reduce


class StreamedMatrices(MatrixSource):
    """Builds and measures each network at every visit."""

    def visit(self, groups: Sequence[Group], reduce: Reduce) -> None:
        visits = (partial(self._visit_network, n, groups, reduce) for n in self.alive)
        run_threads(self.workers, visits)

    def _visit_network(self, network: int, groups: Sequence[Group], reduce: Reduce) -> None:
        needs: dict[str, set[Statistic]] = defaultdict(set)
        for group in groups:
            for datasets in self.variants(group):
                needs[self.datasets[datasets[0]]] |= group
        for dataset, measured in self._measured(network, needs):
            for group in groups:
                for datasets in self.variants(group):
                    if self.datasets[datasets[0]] == dataset:
                        self._reduce_layers(network, group, datasets, measured, reduce)
            del measured

    def _reduce_layers(
        self,
        network: int,
        group: Group,
        datasets: list[int],
        measured: Measured,
        reduce: Reduce,
    ) -> None:
        start = self.layers.starts(next(iter(group)).domain)[network]
        for layer in range(len(measured[next(iter(group))])):
            chunk = MatrixChunk.of({s: measured[s][layer][None].to(self.device) for s in group})
            reduce(group, datasets, np.array([start + layer]), chunk)
