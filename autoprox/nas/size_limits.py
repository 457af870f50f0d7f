"""Limits to the size of candidates, and how architectures within them are found."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from autoprox.errors import AutoproxError
from autoprox.files.sizes import Range, short, show_range
from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.searchspaces.base import Option

SAMPLES, CLIMBS = 200, 1000
CLIMB_PROBABILITY = 0.1


MATCH = 0.02


class LimitsError(AutoproxError):
    """Limits that no architecture meets."""


class Sizes(NamedTuple):
    """What limits are on."""

    params: int
    flops: int


def matched(size: int) -> Range:
    """Sizes that differ from this one by 2 % at most."""
    return math.ceil(size * (1 - MATCH)), math.floor(size * (1 + MATCH))


@dataclass(frozen=True)
class SizeLimits:
    """The sizes that candidates of a space may have, their head made for so many classes."""

    space: SearchSpace
    classes: int
    params: Range = (None, None)
    flops: Range = (None, None)

    def sizes(self, architecture: Architecture) -> Sizes:
        """The number of parameters and of multiply-accumulates."""
        params = self.space.params(architecture, self.classes)
        return Sizes(params, self.space.flops(architecture, self.classes))

    def excess(self, sizes: Sizes) -> float:
        """How far sizes are outside, in powers of e; 0 inside."""
        return sum(
            math.log(max((low or 0) / size, size / (high or size), 1.0))
            for (low, high), size in zip((self.params, self.flops), sizes, strict=True)
        )

    def approach(self, first: Architecture, rng: random.Random) -> Architecture:
        """An architecture within the limits, by mutations of one outside that lead to them."""
        found = self._climb(first, rng)
        if not self.excess(self.sizes(found)):
            return found
        others = [*extremes(self.space), *(self.space.sample(rng) for _ in range(SAMPLES))]
        nearest = min(others, key=lambda other: self.excess(self.sizes(other)))
        found = self._climb(nearest, rng)
        if self.excess(self.sizes(found)):
            raise LimitsError(self._unmet([self.sizes(a) for a in (found, *others)]))
        return found

    def with_option(self, name: str, option: Option, rng: random.Random) -> Architecture | None:
        """An architecture within the limits that has this option of a single choice, if any."""
        ends = extremes(self.space, {name: option})
        least, greatest = map(self.sizes, ends)
        for low, high, limit in zip(least, greatest, (self.params, self.flops), strict=True):
            if high < (limit[0] or 0) or low > (limit[1] or math.inf):
                return None
        nearest = min(ends, key=lambda end: self.excess(self.sizes(end)))
        found = self._climb(nearest, rng, lambda made: bool(made[name] == option))
        return None if self.excess(self.sizes(found)) else found

    def _climb(
        self,
        first: Architecture,
        rng: random.Random,
        keep: Callable[[Architecture], bool] = lambda made: True,
    ) -> Architecture:
        """The last of the mutants, among those to keep, each of which is no farther outside."""
        best, excess = first, self.excess(self.sizes(first))
        for _ in range(CLIMBS):
            if not excess:
                break
            mutant = self.space.mutate(best, rng, CLIMB_PROBABILITY)
            if keep(mutant) and (found := self.excess(self.sizes(mutant))) <= excess:
                best, excess = mutant, found
        return best

    def _unmet(self, seen: Sequence[Sizes]) -> str:
        params, flops = zip(*seen, strict=True)
        asked = ", ".join(
            f"{name} {show_range(limit)}"
            for name, limit in (("params", self.params), ("flops", self.flops))
            if limit != (None, None)
        )
        return (
            f"an architecture of {self.space.name} must meet the limits, but none was found for "
            f"{asked}: its params reach from {short(min(params))} to {short(max(params))}, "
            f"its flops from {short(min(flops))} to {short(max(flops))}"
        )


def extremes(
    space: SearchSpace, fixed: Mapping[str, Option] = MappingProxyType({})
) -> list[Architecture]:
    """The architectures with the least, and with the greatest, value of every choice not fixed."""
    choose: tuple[Callable[[Any], Any], ...] = (min, max)
    found = []
    for end in choose:
        choices: dict[str, Any] = {}
        for name, field in space.fields.items():
            values = [end(options) for options in field.positions(choices)]
            choices[name] = fixed[name] if name in fixed else field.value(values)
        found.append(space.architecture(choices))
    return found
