"""PreNAS's preferred architectures of a convolutional space: by SNIP alone (section 4.5).

Isomers are rare there, so that nothing is normalised. The parameters and the SNIP that a stage adds
depend only on its own options and on its input channels. So networks are built stage by stage, and
of those with the same width the ones are kept that fewer than `per_size` others dominate: among
them are the best below each size. The resolution, which changes neither, is the greatest.
"""

import heapq
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import torch

from autoprox.oneshot.prenas.isomer_selection import PreferredArchitecture, block_normalisers
from autoprox.oneshot.prenas.supernet_saliency import SupernetSaliency
from autoprox.oneshot.supernet.shared_weights import leading_slice
from autoprox.searchspaces import Architecture
from autoprox.searchspaces.bignas import BigNASSpace
from autoprox.searchspaces.space import OptionValue

STAGE_FIELDS = ("channels", "depth", "kernel")


class PartialNetwork(NamedTuple):
    """The first parts of a network: parameters, SNIP, and the options chosen so far."""

    params: int
    snip: float
    stem: OptionValue
    stages: tuple[tuple[Any, ...], ...] = ()
    last: OptionValue = 0

    def extended(self, part: tuple[int, float], **choices: Any) -> "PartialNetwork":
        """Add a part with these parameters and SNIP."""
        params, snip = part
        return self._replace(params=self.params + params, snip=self.snip + snip, **choices)


class ConvolutionalSelector:
    """Chooses from one measurement of a random convolutional supernet."""

    def __init__(self, saliency: SupernetSaliency, space: BigNASSpace) -> None:
        self._saliency = saliency
        self._space = space
        self._smallest = dict(space.smallest().choices)

    def choose(self, sizes: Sequence[int], per_size: int = 1) -> list[PreferredArchitecture]:
        """Return the most salient networks with fewer parameters than each size, each once."""
        candidates = self._candidates(max(sizes), per_size)
        chosen: dict[Architecture, PreferredArchitecture] = {}
        for size in sorted(sizes):
            fitting = (network for network in candidates if network.params < size)
            for network in heapq.nlargest(per_size, fitting, key=lambda network: network.snip):
                preferred = self._preferred(network, size)
                chosen.setdefault(preferred.architecture, preferred)
        return list(chosen.values())

    def _candidates(self, size: int, count: int) -> list[PartialNetwork]:
        fields = self._space.fields
        networks: dict[Any, list[PartialNetwork]] = {}  # by their width
        for stem in fields["stem"].options[0]:
            networks[stem] = [PartialNetwork(*self._part(("stem",), stem=stem), stem)]
        stages = zip(*(fields[name].options for name in STAGE_FIELDS), strict=True)
        for number, options in enumerate(stages):
            larger: dict[Any, list[PartialNetwork]] = {}
            for source, values in product(networks, product(*options)):
                part = self._stage(number, source, values)
                made = (n.extended(part, stages=(*n.stages, values)) for n in networks[source])
                larger.setdefault(values[0], []).extend(n for n in made if n.params < size)
            networks = {width: dominated_by_fewer(some, count) for width, some in larger.items()}
        complete = []
        for width, last in product(networks, fields["last"].options[0]):
            channels = (*self._smallest["channels"][:-1], width)
            part = self._part(("last", "head"), channels=channels, last=last)
            complete += [network.extended(part, last=last) for network in networks[width]]
        return complete

    def _stage(self, number: int, source: Any, values: Sequence[Any]) -> tuple[int, float]:
        """Return the parameters and SNIP of a stage with these input channels and options."""
        changed = {name: list(self._smallest[name]) for name in STAGE_FIELDS}
        for name, value in zip(STAGE_FIELDS, values, strict=True):
            changed[name][number] = value
        stem = self._smallest["stem"]
        if number:
            changed["channels"][number - 1] = source
        else:
            stem = source
        return self._part((f"blocks.stage{number + 1}_",), stem=stem, **changed)

    def _part(self, prefixes: tuple[str, ...], **changed: Any) -> tuple[int, float]:
        """Return the parameters and SNIP of the part of a network with these names."""
        arch = self._space.architecture({**self._smallest, **changed})
        with torch.device("meta"):
            network = self._space.network(arch, self._saliency.classes)
        part = {name: p for name, p in network.named_parameters() if name.startswith(prefixes)}
        products = self._saliency.products
        snip = sum(float(leading_slice(products[name], p).sum()) for name, p in part.items())
        return sum(p.numel() for p in part.values()), snip

    def _preferred(self, network: PartialNetwork, size: int) -> PreferredArchitecture:
        space, classes = self._space, self._saliency.classes
        columns = dict(zip(STAGE_FIELDS, zip(*network.stages, strict=True), strict=True))
        resolution = space.largest()["resolution"]
        single = {"resolution": resolution, "stem": network.stem, "last": network.last}
        arch = space.architecture({**single, **columns})
        factors = block_normalisers(self._saliency)
        sums = self._saliency.sums(arch)
        normalised = sum(factors[name] * value for name, value in sums.items())
        params, flops = space.params(arch, classes), space.flops(arch, classes)
        return PreferredArchitecture(arch, size, params, flops, network.snip, normalised)


def dominated_by_fewer(networks: Sequence[PartialNetwork], count: int) -> list[PartialNetwork]:
    """Return those that fewer than `count` others dominate: no more parameters, at least SNIP."""
    kept, best = [], list[float]()
    for network in sorted(networks, key=lambda network: (network.params, -network.snip)):
        if len(best) < count or network.snip > best[0]:
            kept.append(network)
            (heapq.heappush if len(best) < count else heapq.heappushpop)(best, network.snip)
    return kept
