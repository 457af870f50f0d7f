"""Limits: architectures within them are found where there are any."""

import random

import pytest
from helpers.networks import SPACE

from autoprox.nas.size_limits import LimitsError, SizeLimits, Sizes, extremes
from autoprox.searchspaces import SPACES, get_space


@pytest.mark.parametrize(
    ("sizes", "outside"),
    [((100, 50), 0), ((99, 50), 1), ((201, 50), 1), ((100, 51), 1), ((200, 1), 0), ((50, 60), 2)],
)
def test_how_far_sizes_are_outside(sizes: tuple[int, int], outside: int) -> None:
    limits = SizeLimits(SPACE, 10, (100, 200), (None, 50))
    alone = [
        SizeLimits(SPACE, 10, (100, 200)).excess(Sizes(*sizes)),
        SizeLimits(SPACE, 10, flops=(None, 50)).excess(Sizes(*sizes)),
    ]
    assert sum(excess > 0 for excess in alone) == outside
    assert limits.excess(Sizes(*sizes)) == pytest.approx(sum(alone))


@pytest.mark.parametrize("name", SPACES)
def test_extremes_enclose_every_size(name: str) -> None:
    limits, rng = SizeLimits(get_space(name), 10), random.Random(0)
    least, most = map(limits.sizes, extremes(limits.space))
    assert least < most
    for _ in range(20):
        sizes = limits.sizes(limits.space.sample(rng))
        assert least.params <= sizes.params <= most.params
        # Larger patches of Shunted ViT are fewer tokens.
        assert least.flops <= sizes.flops <= most.flops or name == "shunted"


@pytest.mark.parametrize("seed", range(5))
def test_what_is_rare_is_found(seed: int) -> None:
    """Random architectures of AutoFormer-Ti that are so small are less than one in a million."""
    space, rng = get_space("autoformer-ti"), random.Random(seed)
    least, _ = map(SizeLimits(space, 1000).sizes, extremes(space))
    limits = SizeLimits(space, 1000, (None, least.params + 50_000), (1_000_000_000, None))
    found = limits.approach(space.sample(rng), rng)
    space.validate(found)
    assert least.params <= space.params(found) <= least.params + 50_000


def test_limits_that_nothing_meets_say_what_can_be_reached() -> None:
    """The least is DeiT-Ti, 5.717 M, with 96 hidden units less in each of its 12 MLPs."""
    space, rng = get_space("autoformer-ti"), random.Random(0)
    limits = SizeLimits(space, 1000, (None, 3_000_000))
    message = (
        r"autoformer-ti must meet the limits, but none was found for params :3M: "
        r"its params reach from 5.274M to 10.19M, its flops from 1.167G to 2.203G"
    )
    with pytest.raises(LimitsError, match=message):
        limits.approach(space.sample(rng), rng)


def test_an_architecture_with_an_option_is_found_where_there_is_one() -> None:
    space, rng = get_space("gpt2-hw"), random.Random(0)
    limits = SizeLimits(space, 1000, (75_000_000, 76_000_000), (None, 120_000_000_000))
    found = limits.with_option("embed_dim", 768, rng)
    assert found is not None
    assert found["embed_dim"] == 768
    assert 75_000_000 <= space.params(found) <= 76_000_000
    assert limits.with_option("embed_dim", 384, rng) is None
    assert SizeLimits(space, 1000, (None, 50_000_000)).with_option("embed_dim", 768, rng) is None


def test_limits_that_exclude_each_other_are_named_together() -> None:
    limits, rng = SizeLimits(SPACE, 10, (None, 20_000), (2_000_000, None)), random.Random(0)
    with pytest.raises(LimitsError, match=r"none was found for params :20K, flops 2M::"):
        limits.approach(SPACE.sample(rng), rng)
