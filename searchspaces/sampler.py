"""Different architectures within limits, for as long as there are any.

They are drawn as `SearchSpace.sample` draws them, given the limits: of architectures with the same
number of layers each is equally likely, and numbers of layers have the weight that `sample` gives
them. Where few architectures are within the limits, or most of them are known, all are listed.
"""

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

from autoprox.files.human_readable import compact
from autoprox.searchspaces.base import Architecture, Option
from autoprox.searchspaces.counting import EVENLY, NUMBER, PROBABILITY, SizeCounts, State
from autoprox.searchspaces.limits import LimitsError, SizeLimits

LISTED = 2_000  # architectures that are listed rather than drawn
KNOWN_SHARE = 4  # they are also listed if they are at most this many times those that are known
TRIES = 50  # variations of an architecture, before one that is similar is drawn
ALIKE, REPEATED = 20, 200  # draws of a similar architecture; draws by a measure, before the next
MISSES = 20_000  # draws that are outside the limits, or known, before no more are expected
NEAREST = 50  # sizes on either side of the limits, in which to look for the nearest
MEASURES = (PROBABILITY, NUMBER, EVENLY)  # by which is drawn, if many draws fail by those before
NOTHING: Mapping[str, Option] = MappingProxyType({})


class Sampler:
    """Draws architectures within limits that aren't known yet."""

    def __init__(self, limits: SizeLimits) -> None:
        self.limits = limits
        self._lists: dict[State, Iterator[Architecture]] = {}
        self._failures: Counter[State] = Counter()

    @cached_property
    def counts(self) -> SizeCounts:
        """The architectures of each size."""
        return SizeCounts(self.limits)

    def new(
        self,
        rng: random.Random,
        known: Collection[Architecture],
        like: Architecture | None = None,
        fixed: Mapping[str, Option] = NOTHING,
    ) -> Architecture | None:
        """Return an architecture that isn't known; None if there is no other within the limits.

        It is similar to the one that it is to be `like`, and has the `fixed` options of single
        choices. `known` must grow by what is returned, and never shrink.
        """
        if not self.limits.ranges and like is None and not fixed:
            for _ in range(REPEATED):
                drawn = self.limits.space.sample(rng)
                if drawn not in known:
                    return drawn
        start = self.counts.start(fixed)
        if start not in self._lists:
            if not self._few(start, len(known)):
                return self._drawn(rng, known, start, like)
            self._lists[start] = iter(self._shuffled(start, rng))
        return next((arch for arch in self._lists[start] if arch not in known), None)

    def varied(
        self, make: Callable[[], Architecture], rng: random.Random, known: Collection[Architecture]
    ) -> Architecture | None:
        """Return what `make` makes, or else something like it, that is new and within the limits.

        None if nothing new is within the limits.
        """
        for _ in range(TRIES):
            made = make()
            if made not in known and self.limits.admit(made):
                return made
        return self.new(rng, known, like=made)

    def sample(self, count: int, rng: random.Random) -> list[Architecture]:
        """Return different architectures; fewer if there are no more within the limits.

        The first of more are the same.
        """
        return sample_each([self], count, rng)

    def available(self, wanted: int) -> int:
        """Return how many of the wanted number of architectures there are."""
        start = self.counts.start()
        if not self._few(start, wanted):
            return wanted
        return min(wanted, sum(1 for _ in self.counts.every(start)))

    def require(self) -> None:
        """Raise LimitsError if no architecture is within the limits."""
        if not self.limits.ranges or self.new(random.Random(0), ()) is not None:
            self._lists.clear()
            return
        raise LimitsError(
            f"an architecture of {self.limits.space.name} must be within the limits, but none is "
            f"within {self.limits}: {self._nearest()}"
        )

    def _few(self, start: State, known: int) -> bool:
        return self.counts.number(start) <= max(LISTED, KNOWN_SHARE * known)

    def _drawn(
        self,
        rng: random.Random,
        known: Collection[Architecture],
        start: State,
        like: Architecture | None,
    ) -> Architecture | None:
        for i in range(MISSES):
            measure = MEASURES[min(self._failures[start] // REPEATED, len(MEASURES) - 1)]
            drawn = self.counts.draw(rng, measure, start, like if i < ALIKE else None)
            if drawn is not None and drawn not in known:
                self._failures[start] -= self._failures[start] % REPEATED
                return drawn
            self._failures[start] += 1
        return None

    def _shuffled(self, start: State, rng: random.Random) -> list[Architecture]:
        """Return all architectures in the order in which drawing without replacement gives them."""
        # Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006.
        weighted = [(rng.random() ** (1 / p), arch) for arch, p in self.counts.every(start)]
        return [arch for _, arch in sorted(weighted, key=lambda pair: pair[0], reverse=True)]

    def _nearest(self) -> str:
        """Return the nearest sizes outside the limits."""
        limits, space = self.limits, self.limits.space
        counts = SizeCounts(limits, above=True)
        near = [
            *counts.nearest(NEAREST, random.Random(0)),
            *(arch for arch in (space.smallest(), space.largest()) if not limits.admit(arch)),
        ]
        near.sort(key=limits.excess)
        if len(limits.ranges) > 1:
            sizes = [f"{name} {compact(limits.size(name, near[0]))}" for name in limits.ranges]
            return f"the nearest has {', '.join(sizes)}"
        [(name, (low, high))] = limits.ranges.items()
        sizes_near = [limits.size(name, arch) for arch in near]
        below = next((size for size in sizes_near if size < (low or 0)), None)
        above = next((size for size in sizes_near if high is not None and size > high), None)
        found = [exactly(size) for size in (below, above) if size is not None]
        return f"the nearest {name} are {' and '.join(found)}"


def exactly(size: int) -> str:
    """Return a size as people write it, and the number itself."""
    return f"{compact(size)} ({size:,})"


def sample_each(samplers: Sequence[Sampler], count: int, rng: random.Random) -> list[Architecture]:
    """Return different architectures, in turn one of each sampler; fewer if there are no more."""
    found: dict[Architecture, None] = {}
    left = list(samplers)
    while left and len(found) < count:
        for sampler in list(left):
            if len(found) == count:
                break
            arch = sampler.new(rng, found)
            if arch is None:
                left.remove(sampler)
            else:
                found[arch] = None
    return list(found)
