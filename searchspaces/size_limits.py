"""Limits on the size of architectures."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from autoprox.errors import AutoproxError
from autoprox.files.human_readable_sizes import SizeRange, format_range
from autoprox.searchspaces.space import Architecture, SearchSpace

SIZE_TOLERANCE = 0.02


class LimitsError(AutoproxError):
    """Limits that no architecture meets."""


class ArchitectureSizes(NamedTuple):
    """The sizes that can be limited."""

    params: int
    flops: int


def matching_size_range(size: int) -> SizeRange:
    """Return the range of sizes within 2 % of this one."""
    return math.ceil(size * (1 - SIZE_TOLERANCE)), math.floor(size * (1 + SIZE_TOLERANCE))


@dataclass(frozen=True)
class SizeLimits:
    """The sizes allowed for the architectures of a space whose head has this many classes."""

    space: SearchSpace
    classes: int
    params: SizeRange = (None, None)
    flops: SizeRange = (None, None)

    @property
    def ranges(self) -> dict[str, SizeRange]:
        """The limits by the names of the sizes that are limited."""
        ranges = zip(ArchitectureSizes._fields, (self.params, self.flops), strict=True)
        return {name: ends for name, ends in ranges if ends != (None, None)}

    def size(self, name: str, architecture: Architecture) -> int:
        """Return the number of parameters or of multiply-accumulates."""
        measure = self.space.params if name == "params" else self.space.flops
        return measure(architecture, self.classes)

    def sizes(self, architecture: Architecture) -> ArchitectureSizes:
        """Return all sizes of an architecture."""
        return ArchitectureSizes(
            *(self.size(name, architecture) for name in ArchitectureSizes._fields)
        )

    def admit(self, architecture: Architecture) -> bool:
        """Return whether the architecture is within the limits."""
        return all(
            (low or 0) <= self.size(name, architecture) <= (high or math.inf)
            for name, (low, high) in self.ranges.items()
        )

    def excess(self, architecture: Architecture) -> float:
        """Return how far the architecture is outside the limits, in powers of e; 0 inside."""
        return sum(
            math.log(max((low or 0) / size, size / (high or size), 1.0))
            for name, (low, high) in self.ranges.items()
            for size in [self.size(name, architecture)]
        )

    def __str__(self) -> str:
        return ", ".join(f"{name} {format_range(ends)}" for name, ends in self.ranges.items())
