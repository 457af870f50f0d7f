"""Limits on sizes: what is inside them, and how far outside the rest is."""

import math

import pytest
from helpers.networks import SPACE

from autoprox.searchspaces.size_limits import SizeLimits, matching_size_range

PARAMS = SPACE.params(SPACE.smallest(), 10)
FLOPS = SPACE.flops(SPACE.smallest(), 10)


@pytest.mark.parametrize(
    ("params", "flops", "outside"),
    [
        ((PARAMS, PARAMS), (FLOPS, FLOPS), 0),
        ((PARAMS + 1, None), (None, None), math.log((PARAMS + 1) / PARAMS)),
        ((None, PARAMS - 1), (None, None), math.log(PARAMS / (PARAMS - 1))),
        ((None, PARAMS), (2 * FLOPS, None), math.log(2)),
        ((None, None), (None, None), 0),
    ],
)
def test_how_far_an_architecture_is_outside(
    params: tuple[int | None, int | None], flops: tuple[int | None, int | None], outside: float
) -> None:
    limits = SizeLimits(SPACE, 10, params, flops)
    assert limits.excess(SPACE.smallest()) == pytest.approx(outside)
    assert limits.admit(SPACE.smallest()) == (outside == 0)


def test_sizes_within_two_percent() -> None:
    assert matching_size_range(1_000) == (980, 1_020)
    assert matching_size_range(1_001) == (981, 1_021)
