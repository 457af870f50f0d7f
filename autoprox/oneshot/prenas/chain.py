"""The preferred set of a convolutional space: by SNIP alone (PreNAS, section 4.5).

Isomers are rare there, so that nothing is normalised. What a stage adds to SNIP and to the size
depends on its own choices and on the channels that it gets. Stage after stage those partial
networks are kept that fewer than `per_size` others of the same width surpass in both, and so the
best below each size are found without looking at all. The resolution, which changes neither, is the
greatest.
"""

import heapq
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import torch

from autoprox.oneshot.prenas.saliency import Saliency
from autoprox.oneshot.prenas.selection import Preferred, by_block
from autoprox.oneshot.supernet.slices import first_entries
from autoprox.searchspaces import Architecture
from autoprox.searchspaces.bignas import BigNASSpace


class Partial(NamedTuple):
    """The first parts of a network: parameters, SNIP, and the choices of stages so far."""

    params: int
    snip: float
    stem: int
    stages: tuple[tuple[Any, ...], ...] = ()
    last: int = 0

    def grown(self, params: int, snip: float, **changed: Any) -> "Partial":
        """With a further part."""
        return self._replace(params=self.params + params, snip=self.snip + snip, **changed)


class ChainSelector:
    """Chooses from one measurement of a random convolutional supernet."""

    def __init__(self, saliency: Saliency, space: BigNASSpace) -> None:
        self._saliency = saliency
        self._space = space
        self._smallest = dict(space.smallest().choices)

    def choose(self, sizes: Sequence[int], per_size: int = 1) -> list[Preferred]:
        """Return the most salient networks with fewer parameters than each size, each once."""
        found = self._best(max(sizes), per_size)
        chosen: dict[Architecture, Preferred] = {}
        for size in sorted(sizes):
            fitting = (own for own in found if own.params < size)
            for own in heapq.nlargest(per_size, fitting, key=lambda own: own.snip):
                one = self._preferred(own, size)
                chosen.setdefault(one.architecture, one)
        return list(chosen.values())

    def _best(self, size: int, count: int) -> list[Partial]:
        fields, names = self._space.fields, ("channels", "depth", "kernel")
        stages = list(zip(*(fields[name].options for name in names), strict=True))
        partial: dict[Any, list[Partial]] = {}
        for stem in fields["stem"].options[0]:
            partial[stem] = [Partial(*self._part(_is_stem, stem=stem), int(stem))]
        for number, options in enumerate(stages):
            grown: dict[Any, list[Partial]] = {}
            for source, own in product(partial, product(*options)):
                part = self._stage(number, source, own)
                made = (one.grown(*part, stages=(*one.stages, own)) for one in partial[source])
                grown.setdefault(own[0], []).extend(one for one in made if one.params < size)
            partial = {width: unsurpassed(own, count) for width, own in grown.items()}
        found = []
        for width, last in product(partial, fields["last"].options[0]):
            channels = (*self._smallest["channels"][:-1], width)
            part = self._part(_is_end, channels=channels, last=last)
            found += [one.grown(*part, last=last) for one in partial[width]]
        return found

    def _stage(self, number: int, source: Any, own: Sequence[Any]) -> tuple[int, float]:
        """What a stage adds where it gets so many channels."""
        changed = {
            name: _with(self._smallest[name], number, value)
            for name, value in zip(("channels", "depth", "kernel"), own, strict=True)
        }
        if number:
            changed["channels"] = _with(changed["channels"], number - 1, source)
        else:
            changed["stem"] = source
        prefix = f"blocks.stage{number + 1}_"
        return self._part(lambda name: name.startswith(prefix), **changed)

    def _part(self, belongs: Callable[[str], bool], **changed: Any) -> tuple[int, float]:
        """Parameters and SNIP of those parameters that belong to a part of a network."""
        arch = self._space.architecture({**self._smallest, **changed})
        with torch.device("meta"):
            network = self._space.network(arch, self._saliency.classes)
        own = {name: p for name, p in network.named_parameters() if belongs(name)}
        products = self._saliency.products
        snip = sum(float(first_entries(products[name], p).sum()) for name, p in own.items())
        return sum(p.numel() for p in own.values()), snip

    def _preferred(self, own: Partial, size: int) -> Preferred:
        space, classes = self._space, self._saliency.classes
        columns = zip(("channels", "depth", "kernel"), zip(*own.stages, strict=True), strict=True)
        resolution = space.largest()["resolution"]
        single = {"resolution": resolution, "stem": own.stem, "last": own.last}
        arch = space.architecture({**single, **dict(columns)})
        factors: Mapping[str, float] = by_block(self._saliency)
        sums = self._saliency.sums(arch)
        normalised = sum(factors[name] * value for name, value in sums.items())
        flops = space.flops(arch, classes)
        return Preferred(arch, size, space.params(arch, classes), flops, own.snip, normalised)


def unsurpassed(partial: Sequence[Partial], count: int) -> list[Partial]:
    """Those that fewer than `count` others surpass: with no more parameters, and at least SNIP."""
    kept, best = [], list[float]()
    for one in sorted(partial, key=lambda own: (own.params, -own.snip)):
        if len(best) < count or one.snip > best[0]:
            kept.append(one)
            (heapq.heappush if len(best) < count else heapq.heappushpop)(best, one.snip)
    return kept


def _is_stem(name: str) -> bool:
    return name.startswith("stem")


def _is_end(name: str) -> bool:
    return name.startswith(("last", "head"))


def _with(values: Sequence[Any], place: int, value: Any) -> tuple[Any, ...]:
    return (*values[:place], value, *values[place + 1 :])
