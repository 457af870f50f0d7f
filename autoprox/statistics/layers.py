"""Where the layers of each network stand when those of all networks are put in one row."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from autoprox.language.domains import DOMAINS, SINGLE_DOMAINS, parts_of
from autoprox.statistics.networks import Structure


@dataclass(frozen=True)
class LayerTable:
    """The layers and blocks of each network."""

    structures: tuple[Structure, ...]

    @cached_property
    def starts(self) -> dict[str, np.ndarray]:
        """[networks + 1] of each domain, and of blocks: where each network's layers begin."""
        kinds = [
            Counter([*(d for block in s.domains for d in block), *(kind for _, kind in s.extra)])
            for s in self.structures
        ]
        counts = {d: [sum(own[part] for part in parts_of(d)) for own in kinds] for d in DOMAINS}
        counts["block"] = [len(structure.blocks) for structure in self.structures]
        return {domain: np.cumsum([0, *own]) for domain, own in counts.items()}

    def count(self, network: int, domain: str) -> int:
        """The number of a network's layers in a domain."""
        return int(np.diff(self.starts[domain][network : network + 2])[0])

    def sets(self, networks: Iterable[int], by_block: bool = False) -> list[list[int]]:
        """Networks with equally many layers in every domain, or in every block."""
        found: dict[object, list[int]] = defaultdict(list)
        for network in networks:
            counts = tuple(self.count(network, domain) for domain in (*SINGLE_DOMAINS, "block"))
            layout = self.structures[network].domains if by_block else ()
            found[counts, layout].append(network)
        return list(found.values())

    def block_places(self, network: int, domain: str) -> list[list[int]]:
        """Where the layers of each block stand in a layer vector of the network."""
        structure = self.structures[network]
        if domain == "block":
            return [[block] for block in range(self.count(network, domain))]
        places: list[list[int]] = [[] for _ in structure.domains]
        for place, (_, block) in enumerate(structure.layers(domain)):
            if block is not None:
                places[block].append(place)
        return places

    def kinds(self, domain: str) -> np.ndarray:
        """[layers of all networks] of a domain: their single domains."""
        if domain not in self._kinds:
            found = [kind for s in self.structures for kind, _ in s.layers(domain)]
            self._kinds[domain] = np.array(found, dtype=str)
        return self._kinds[domain]

    @cached_property
    def _kinds(self) -> dict[str, np.ndarray]:
        return {}
