"""Where the layers of each network stand when those of all networks are put in one row."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

import numpy as np

from autoprox.statistics.networks import Structure

DOMAINS = ("msa", "mlp")  # of linear layers
STRUCTURE = ("width", "tokens", "heads")


@dataclass(frozen=True)
class LayerTable:
    """The layers and blocks of each network."""

    structures: tuple[Structure, ...]

    @cached_property
    def starts(self) -> dict[str, np.ndarray]:
        """[networks + 1] of each domain, and of blocks: where each network's layers begin."""
        kinds = [[d for block in s.domains for d in block] for s in self.structures]
        counts = {domain: [own.count(domain) for own in kinds] for domain in DOMAINS}
        counts["block"] = [len(structure.blocks) for structure in self.structures]
        counts["all"] = [len(own) for own in kinds]
        return {domain: np.cumsum([0, *own]) for domain, own in counts.items()}

    def count(self, network: int, domain: str) -> int:
        """The number of a network's layers in a domain."""
        return int(np.diff(self.starts[domain][network : network + 2])[0])

    def sets(self, networks: Iterable[int], by_block: bool = False) -> list[list[int]]:
        """Networks with equally many layers in every domain, or in every block."""
        found: dict[object, list[int]] = defaultdict(list)
        for network in networks:
            counts = tuple(self.count(network, domain) for domain in (*DOMAINS, "block"))
            layout = self.structures[network].domains if by_block else ()
            found[counts, layout].append(network)
        return list(found.values())

    def block_places(self, network: int, domain: str) -> list[list[int]]:
        """Where the layers of each block stand in a layer vector of the network."""
        blocks = self.structures[network].domains
        if domain == "block":
            return [[block] for block in range(self.count(network, domain))]
        counts = [sum(domain in (own, "all") for own in block) for block in blocks]
        ends = accumulate(counts)
        return [list(range(end - count, end)) for count, end in zip(counts, ends, strict=True)]

    @cached_property
    def is_msa(self) -> np.ndarray:
        """[layers of all networks]"""
        kinds = [d for s in self.structures for block in s.domains for d in block]
        return np.array([kind == "msa" for kind in kinds], dtype=bool)

    @cached_property
    def columns(self) -> dict[str, np.ndarray]:
        """[blocks of all networks] of each terminal of structure."""
        blocks = [block for structure in self.structures for block in structure.blocks]
        named = {name: [getattr(block, name) for block in blocks] for name in STRUCTURE}
        values = {**named, "one": [1] * len(blocks)}
        return {name: np.array(own, dtype=np.float64) for name, own in values.items()}
