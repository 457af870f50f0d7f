"""Limits to the size of candidates, and how architectures within them are found."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from autoprox.errors import AutoproxError
from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.searchspaces.base import Option

UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)", re.IGNORECASE)
SAMPLES, CLIMBS = 200, 1000
CLIMB_PROBABILITY = 0.1

Limit = tuple[int | None, int | None]


class LimitsError(AutoproxError):
    """SizeLimits that can't be read, or that no architecture meets."""


class Sizes(NamedTuple):
    """What limits are on."""

    params: int
    flops: int


def read_limit(name: str, given: Any) -> Limit:
    """The two ends of a limit: text such as 10M:40M, 1.2G: or :6M, or a pair, None for no end."""
    if given is None:
        return None, None
    ends = given.split(":") if isinstance(given, str) else given
    try:
        low, high = map(_number, ends)
    except (TypeError, ValueError):
        raise LimitsError(
            f"{name} must be LOW:HIGH, for example 10M:40M, 1.2G: or :6M, but got {given!r}"
        ) from None
    if low is not None and high is not None and low > high:
        raise LimitsError(f"`low <= high` must hold for {name}, but got {given!r}")
    return low, high


def _number(end: Any) -> int | None:
    if end is None or end == "":
        return None
    if isinstance(end, str):
        match = NUMBER.fullmatch(end.strip())
        if match is None:
            raise ValueError(end)
        return round(float(match[1]) * UNITS[match[2].upper()])
    if isinstance(end, bool) or not math.isfinite(end):
        raise ValueError(end)
    return int(end)


def short(number: float) -> str:
    """A size for people: 5.72M."""
    unit = next((u for u in "TGMK" if number >= UNITS[u]), "")
    return f"{number / UNITS[unit]:.4g}{unit}"


@dataclass(frozen=True)
class SizeLimits:
    """The sizes that candidates of a space may have, their head made for so many classes."""

    space: SearchSpace
    classes: int
    params: Limit = (None, None)
    flops: Limit = (None, None)

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
            f"{name} {_text(limit)}"
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


def _text(limit: Limit) -> str:
    return ":".join("" if end is None else short(end) for end in limit)
