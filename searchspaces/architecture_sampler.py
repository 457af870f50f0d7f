"""Samples different architectures within size limits, for as long as there are any.

They are drawn as `SearchSpace.sample` draws them, given the limits: of architectures with the same
number of layers each is equally likely, and numbers of layers have the weight that `sample` gives
them. If few architectures are within the limits, or most of them are known, all are listed.
"""

import math
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType

from autoprox.files.human_readable_sizes import format_with_unit
from autoprox.searchspaces.architecture_counts_by_size import (
    EVENLY,
    NUMBER,
    PROBABILITY,
    ArchitectureCounts,
    ChoiceState,
)
from autoprox.searchspaces.size_limits import LimitsError, SizeLimits
from autoprox.searchspaces.space import Architecture, OptionValue, SearchSpace

LISTED = 2_000  # architectures that are listed rather than drawn
KNOWN_SHARE = 4  # they are also listed if they are at most this many times those that are known
VARIATIONS = 50  # of an architecture, before one that is similar is drawn
SIMILAR_DRAWS, REPEATED_DRAWS = 20, 200  # of a similar one; by a measure, before the next measure
MISSES = 20_000  # draws that are outside the limits, or known, before no more are expected
NEAREST_SIZES = 50  # on either side of the limits, in which to look for the nearest
DRAWING_MEASURES = (PROBABILITY, NUMBER, EVENLY)  # each if many draws fail by those before
NOTHING: Mapping[str, OptionValue] = MappingProxyType({})

Band = tuple[float, float]  # the least and the greatest number of parameters


class ArchitectureSampler:
    """Draws architectures within limits that aren't known yet."""

    def __init__(self, limits: SizeLimits) -> None:
        self.limits = limits
        self._lists: dict[ChoiceState, Iterator[Architecture]] = {}
        self._failures: Counter[ChoiceState] = Counter()

    @cached_property
    def counts(self) -> ArchitectureCounts:
        """The architectures of each size."""
        return ArchitectureCounts(self.limits)

    def new(
        self,
        rng: random.Random,
        known: Collection[Architecture],
        like: Architecture | None = None,
        fixed: Mapping[str, OptionValue] = NOTHING,
    ) -> Architecture | None:
        """Return an architecture that isn't known; None if there is no other within the limits.

        It is similar to the one that it is to be `like`, and has the `fixed` options of single
        choices. `known` must grow by what is returned, and never shrink.
        """
        if not self.limits.ranges and like is None and not fixed:
            for _ in range(REPEATED_DRAWS):
                sampled = self.limits.space.sample(rng)
                if sampled not in known:
                    return sampled
        start = self.counts.start(fixed)
        if start not in self._lists:
            if not self._few(start, len(known)):
                for i in range(MISSES):
                    stage = min(self._failures[start] // REPEATED_DRAWS, len(DRAWING_MEASURES) - 1)
                    similar = like if i < SIMILAR_DRAWS else None
                    drawn = self.counts.draw(rng, DRAWING_MEASURES[stage], start, similar)
                    if drawn is not None and drawn not in known:
                        self._failures[start] -= self._failures[start] % REPEATED_DRAWS
                        return drawn
                    self._failures[start] += 1
                return None
            # The order in which drawing without replacement gives them: Efraimidis and Spirakis,
            # "Weighted random sampling with a reservoir", 2006.
            weighted = [(rng.random() ** (1 / p), arch) for arch, p in self.counts.every(start)]
            weighted.sort(key=lambda pair: pair[0], reverse=True)
            self._lists[start] = iter([arch for _, arch in weighted])
        return next((arch for arch in self._lists[start] if arch not in known), None)

    def varied(
        self, make: Callable[[], Architecture], rng: random.Random, known: Collection[Architecture]
    ) -> Architecture | None:
        """Return what `make` makes, or else something like it, that is new and within the limits.

        None if nothing new is within the limits.
        """
        for _ in range(VARIATIONS):
            made = make()
            if made not in known and self.limits.admit(made):
                return made
        return self.new(rng, known, like=made)

    def sample(self, count: int, rng: random.Random) -> list[Architecture]:
        """Return different architectures; fewer if there are no more within the limits.

        The first of more are the same.
        """
        return sample_in_turn([self], count, rng)

    def available(self, wanted: int) -> int:
        """Return how many of the wanted number of architectures there are."""
        start = self.counts.start()
        if not self._few(start, wanted):
            return wanted
        return min(wanted, sum(1 for _ in self.counts.every(start)))

    def require(self) -> None:
        """Raise LimitsError, naming the nearest sizes, if no architecture is within the limits."""
        limits, space = self.limits, self.limits.space
        if not limits.ranges or self.new(random.Random(0), ()) is not None:
            self._lists.clear()
            return
        near = ArchitectureCounts(limits, above=True).nearest(NEAREST_SIZES, random.Random(0))
        near += [arch for arch in (space.smallest(), space.largest()) if not limits.admit(arch)]
        near.sort(key=limits.excess)
        if len(limits.ranges) > 1:
            sizes = [
                f"{name} {format_with_unit(limits.size(name, near[0]))}" for name in limits.ranges
            ]
            nearest = f"the nearest has {', '.join(sizes)}"
        else:
            [(name, (low, high))] = limits.ranges.items()
            sizes_near = [limits.size(name, arch) for arch in near]
            below = next((size for size in sizes_near if size < (low or 0)), None)
            above = next((size for size in sizes_near if high is not None and size > high), None)
            both = [
                f"{format_with_unit(size)} ({size:,})"
                for size in (below, above)
                if size is not None
            ]
            nearest = f"the nearest {name} are {' and '.join(both)}"
        raise LimitsError(
            f"an architecture of {space.name} must be within the limits, but none is within "
            f"{limits}: {nearest}"
        )

    def _few(self, start: ChoiceState, known: int) -> bool:
        return self.counts.number(start) <= max(LISTED, KNOWN_SHARE * known)


def sample_in_turn(
    samplers: Sequence[ArchitectureSampler], count: int, rng: random.Random
) -> list[Architecture]:
    """Return different architectures, in turn one of each sampler; fewer if there are no more."""
    drawn: dict[Architecture, None] = {}
    left = list(samplers)
    while left and len(drawn) < count:
        for sampler in list(left):
            if len(drawn) == count:
                break
            arch = sampler.new(rng, drawn)
            if arch is None:
                left.remove(sampler)
            else:
                drawn[arch] = None
    return list(drawn)


def size_bands(low: float, high: float, count: int) -> list[Band]:
    """Return adjacent bands of equal width in the logarithm."""
    return list(pairwise(low * (high / low) ** (i / count) for i in range(count + 1)))


def sample_size_bands(
    space: SearchSpace, bands: Sequence[Band], count: int, classes: int, rng: random.Random
) -> list[Architecture]:
    """Return different architectures, in turn one from each band; the first of more are the same.

    A band that has no more is passed over; there are fewer architectures if no band has more.
    """
    ranges = [(math.ceil(low), math.floor(high)) for low, high in bands]
    samplers = [ArchitectureSampler(SizeLimits(space, classes, ends)) for ends in ranges]
    for sampler in samplers:
        sampler.require()
    return sample_in_turn(samplers, count, rng)
