"""Architectures of given sizes, counted from their networks."""

import math
import random

import pytest

from autoprox.searchspaces import get_space
from autoprox.searchspaces.architecture_sampler import sample_size_bands, size_bands
from autoprox.searchspaces.size_limits import LimitsError

SPACE = get_space("autoformer-nano")


def test_bands_divide_the_logarithm_evenly() -> None:
    bands = size_bands(10, 160, 4)
    assert [edge for band in bands for edge in band] == pytest.approx(
        [10, 20, 20, 40, 40, 80, 80, 160]
    )


def test_architectures_come_from_each_band_in_turn() -> None:
    bands = size_bands(20_000, 160_000, 3)
    found = sample_size_bands(SPACE, bands, 8, 10, random.Random(0))
    sizes = [sum(p.numel() for p in SPACE.network(arch, 10).parameters()) for arch in found]
    assert [int(math.log(size / 20_000, 2)) for size in sizes] == [0, 1, 2, 0, 1, 2, 0, 1]
    assert len(set(found)) == 8
    assert sample_size_bands(SPACE, bands, 5, 10, random.Random(0)) == found[:5]
    assert sample_size_bands(SPACE, bands, 5, 10, random.Random(1)) != found[:5]


def test_a_band_that_is_rare_is_found() -> None:
    """DeiT-Ti, 5.717 M, with 96 hidden units less in each of its 12 MLPs is the least of all."""
    space = get_space("autoformer-ti")
    found = sample_size_bands(space, [(5.27e6, 5.33e6)], 4, 1000, random.Random(0))
    assert all(5.27e6 <= space.params(arch) <= 5.33e6 for arch in found)


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (5e6, 9e6, r"autoformer-nano must be within .* none is within params 5M:6.082M: the near"),
        (100, 110, r"none is within params 100:103: the nearest params are 2.17K \(2,170\)"),
    ],
)
def test_a_band_without_architectures_is_named(low: float, high: float, message: str) -> None:
    with pytest.raises(LimitsError, match=message):
        sample_size_bands(SPACE, size_bands(low, high, 3), 9, 10, random.Random(0))
