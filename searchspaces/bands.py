"""Architectures of given sizes: as many from each of several bands of parameter counts."""

import math
import random
from collections.abc import Sequence
from itertools import pairwise

from autoprox.searchspaces.base import Architecture, SearchSpace
from autoprox.searchspaces.limits import SizeLimits
from autoprox.searchspaces.sampler import Sampler, sample_each

Band = tuple[float, float]  # the least and the greatest number of parameters


def size_bands(low: float, high: float, count: int) -> list[Band]:
    """Return adjacent bands of equal width in the logarithm."""
    edges = [low * (high / low) ** (i / count) for i in range(count + 1)]
    return list(pairwise(edges))


def sample_bands(
    space: SearchSpace, bands: Sequence[Band], count: int, classes: int, rng: random.Random
) -> list[Architecture]:
    """Return different architectures, in turn one from each band; the first of more are the same.

    A band that has no more is passed over; there are fewer architectures if no band has more.
    """
    ranges = [(math.ceil(low), math.floor(high)) for low, high in bands]
    samplers = [Sampler(SizeLimits(space, classes, ends)) for ends in ranges]
    for sampler in samplers:
        sampler.require()
    return sample_each(samplers, count, rng)
