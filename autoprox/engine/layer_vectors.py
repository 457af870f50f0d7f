"""The layout of layer vectors: networks with equally many layers are computed together."""

from collections import defaultdict
from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from torch import Tensor

from autoprox.language.domains import SINGLE_DOMAINS, parts_of
from autoprox.statistics.networks import LayerTable

Vectors = list[Tensor]  # [datasets or 1, networks, layers] for each set of networks


class LayerVectors:
    """Networks in sets with equally many layers in every domain, or even in every block."""

    def __init__(self, table: LayerTable, networks: Sequence[int], by_block: bool = False) -> None:
        self.table = table
        domains = (*SINGLE_DOMAINS, "block")
        counts = np.stack([np.diff(table.starts[domain]) for domain in domains], axis=1).tolist()
        sets: dict[object, list[int]] = defaultdict(list)
        for network in networks:
            layout = table.structures[network].domains if by_block else ()
            sets[tuple(counts[network]), layout].append(network)
        self.sets = list(sets.values())
        self._positions = {  # [networks, layers] for each set
            domain: [np.stack([np.arange(own[n], own[n + 1]) for n in same]) for same in self.sets]
            for domain, own in table.starts.items()
        }
        self._kinds = cache(self._find_kinds)

    def split(self, values: np.ndarray, domain: str) -> Vectors:
        """Split [datasets or 1, layers of all networks] of a domain into the sets."""
        return [torch.from_numpy(values.take(own, axis=1)) for own in self._positions[domain]]

    def merge(self, parts: Sequence[np.ndarray], domain: str) -> Vectors:
        """Put values of the single domains that a domain consists of in depth order, and split."""
        if len(parts) == 1:
            return self.split(parts[0], domain)
        kinds = self._kinds(domain)
        values = np.empty((len(parts[0]), len(kinds)))
        for single, part in zip(parts_of(domain), parts, strict=True):
            values[:, kinds == single] = part
        return self.split(values, domain)

    def together(self, values: Vectors) -> Tensor:
        """Return [datasets or 1, all networks] from [datasets or 1, networks] of each set."""
        scores = torch.empty(len(values[0]), len(self.table.structures), dtype=torch.float64)
        for networks, part in zip(self.sets, values, strict=True):
            scores[:, networks] = part
        return scores

    def block_positions(self, network: int, domain: str) -> list[list[int]]:
        """Return the positions of each block's layers in a layer vector of the network."""
        structure = self.table.structures[network]
        if domain == "block":
            return [[block] for block in range(len(structure.blocks))]
        positions: list[list[int]] = [[] for _ in structure.domains]
        for position, (_, block) in enumerate(structure.layers(domain)):
            if block is not None:
                positions[block].append(position)
        return positions

    def _find_kinds(self, domain: str) -> np.ndarray:
        """Return the single domain of each of a domain's layers, [layers of all networks]."""
        found = [kind for s in self.table.structures for kind, _ in s.layers(domain)]
        return np.array(found, dtype=str)
