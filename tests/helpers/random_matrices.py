"""Random matrices in place of measured ones, of the shapes that a space's networks have."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from autoprox.language import Statistic
from autoprox.language.quantities import QUANTITIES
from autoprox.statistics.collector import MeasurementSetting
from autoprox.statistics.matrix_cache import CachedMatrices, Packed
from autoprox.statistics.packed_matrices import PackedMatrices, StoredMatrix
from autoprox.statistics.untrained_networks import SpaceNetwork, layers_with_domains

NOWHERE = Path("nowhere")
SPREAD = 0.02


class RandomMatrices(CachedMatrices):
    """What speed depends on: the number of matrices, their shapes, and that they are in memory."""

    def __init__(
        self,
        setting: MeasurementSetting,
        networks: Sequence[SpaceNetwork],
        needs: Iterable[Statistic],
    ) -> None:
        super().__init__(setting, networks, needs, folder=NOWHERE)
        self._networks = networks

    @cached_property
    def packed(self) -> Packed:
        generator = torch.Generator().manual_seed(0)
        found: Packed = {}
        for statistic in self.needs:
            for datasets in self.variants([statistic]):
                places = self._places(statistic)
                count = sum(rows * columns * len(own) for (rows, columns), own in places.items())
                packed = PackedMatrices(places)
                packed._resident = SPREAD * torch.randn(count, generator=generator)
                found |= {(statistic, dataset): packed for dataset in datasets}
        torch.empty(2**24, dtype=torch.uint8)  # see `CachedMatrices.packed`
        return found

    def _places(self, statistic: Statistic) -> dict[tuple[int, int], list[StoredMatrix]]:
        found: dict[tuple[int, int], list[StoredMatrix]] = defaultdict(list)
        starts = self.layers.starts[statistic.domain]
        for number, shapes in enumerate(self._shapes):
            own = [shape for domain, *shape in shapes if domain == statistic.domain]
            for layer, (outputs, inputs, tokens) in enumerate(own):
                thin, batch = self.setting.stride, self._batch
                shape = math.ceil(outputs / thin), math.ceil(inputs / thin)
                if QUANTITIES[statistic.quantity].like == "activation":
                    shape = batch * math.ceil(tokens / thin), math.ceil(outputs / thin)
                found[shape].append(StoredMatrix(int(starts[number]) + layer, NOWHERE, 0))
        return found

    @property
    def _batch(self) -> int:
        return len(next(iter(self.setting.batches.values())).inputs)

    @cached_property
    def _shapes(self) -> list[list[tuple[str, int, int, int]]]:
        """Of each layer the domain, its outputs, its inputs, and the tokens of its block."""
        found = []
        for network in self._networks:
            with torch.device("meta"):
                built = network.space.build(network.architecture, classes=1)
            tokens = [block.tokens for block in network.space.blocks(network.architecture)]
            owners = {
                id(layer): count
                for block, count in zip(built.transformer_blocks, tokens, strict=True)
                for _, layer in block.linears()
            }
            found.append(
                [
                    (domain, len(w), int(np.prod(w.shape[1:])), owners.get(id(layer), tokens[0]))
                    for domain, layer in layers_with_domains(built)
                    for w in [layer.weight]
                ]
            )
        return found
