"""Architectures of given sizes: as many from each of several bands of numbers of parameters."""

import math
import random
from collections.abc import Sequence
from itertools import cycle, islice, pairwise

from autoprox.files.sizes import show_range
from autoprox.searchspaces.base import Architecture, ArchitectureError, SearchSpace

Band = tuple[float, float]  # the least and the greatest number of parameters

DRAWS, CLIMBS, TRIES = 20, 300, 30
PROBABILITY = 0.1


def size_bands(low: float, high: float, count: int) -> list[Band]:
    """So many bands side by side, of equal width in the logarithm."""
    edges = [low * (high / low) ** (i / count) for i in range(count + 1)]
    return list(pairwise(edges))


def sample_bands(
    space: SearchSpace, bands: Sequence[Band], count: int, classes: int, rng: random.Random
) -> list[Architecture]:
    """Different architectures, in turn one from each band; the first of more are the same."""
    found: dict[Architecture, None] = {}
    for band in islice(cycle(bands), count):
        for _ in range(TRIES):
            drawn = _draw(space, band, classes, rng)
            if drawn is not None and drawn not in found:
                found[drawn] = None
                break
        else:
            own = sum(_outside(space.params(arch, classes), band) == 0 for arch in found)
            raise ArchitectureError(
                f"{space.name} must have {math.ceil(count / len(bands))} architectures in each "
                f"band of sizes, but {own} were found in {show_range((int(band[0]), int(band[1])))}"
            )
    return list(found)


def _draw(space: SearchSpace, band: Band, classes: int, rng: random.Random) -> Architecture | None:
    """A random one in the band, or one that mutations lead there from a random one."""
    for _ in range(DRAWS):
        arch = space.sample(rng)
        if not (outside := _outside(space.params(arch, classes), band)):
            return arch
    for _ in range(CLIMBS):
        mutant = space.mutate(arch, rng, PROBABILITY)
        if (now := _outside(space.params(mutant, classes), band)) <= outside:
            arch, outside = mutant, now
        if not outside:
            return arch
    return None


def _outside(params: int, band: Band) -> float:
    """How far a size is from the band, in powers of e; 0 in it."""
    low, high = band
    return math.log(max(low / params, params / high, 1.0))
