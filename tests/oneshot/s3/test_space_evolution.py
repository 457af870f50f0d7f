"""The E-T error, and how options move by it, against numbers worked out by hand and scipy."""

import random

import pytest
from scipy.stats import linregress

from autoprox.oneshot.s3.space_evolution import (
    OptionShift,
    SpaceQuality,
    evolve_space,
    option_qualities,
    shift_all_options,
    shift_options,
    space_quality,
)
from autoprox.searchspaces import Architecture
from autoprox.searchspaces.swin import SWIN_NANO, SWIN_S3


def test_the_error_of_a_space_is_of_all_and_of_the_best() -> None:
    found = space_quality([50.0, 20.0, 40.0, 30.0], top=2)
    assert (found.expected, found.top_tier, found.error) == (35, 25, 30)
    assert space_quality([50.0, 20.0], top=50).error == 35


def test_subspaces_are_of_those_that_have_an_option() -> None:
    """Of stages, those whose value it is; of blocks, those that have it in one."""
    rng = random.Random(0)
    errors = {SWIN_NANO.sample(rng): 50 + 10 * rng.random() for _ in range(60)}
    found = option_qualities(SWIN_NANO, errors, top=5)
    assert list(found) == list(SWIN_NANO.fields)
    for option in (16, 24, 32):
        single = sorted(e for a, e in errors.items() if a["embed_dim_2"] == option)
        blocks = sorted(e for a, e in errors.items() if option in a["qkv_dim_3"])
        assert found["embed_dim_2"][option].architectures == len(single)
        for own, name in ((single, "embed_dim_2"), (blocks, "qkv_dim_3")):
            expected = (sum(own) / len(own) + sum(own[:5]) / 5) / 2
            assert found[name][option].error == pytest.approx(expected)


def moved(options: tuple[float, ...], errors: list[float], step: float, tau: float) -> OptionShift:
    named = {o: SpaceQuality(e, e, 9) for o, e in zip(options, errors, strict=True)}
    return shift_options(options, named, step, tau)


@pytest.mark.parametrize(
    ("options", "errors", "step", "after", "dropped"),
    [
        # The error falls by 1 % a step: floor(-1 / .4) = -3, so options rise by three steps.
        ((2, 3, 4), [30.0, 29.0, 28.0], 1, (5, 6, 7), ()),
        # It rises by .5 % a step of 64: floor(.5 / .4) = 1.
        ((224, 256, 288), [30.0, 30.25, 30.5], 64, (160, 192, 224), ()),
        ((3.0, 3.5, 4.0), [30.0, 30.0, 29.9], 0.5, (3.5, 4.0, 4.5), ()),
        ((7, 14), [30.0, 30.3], 7, (7, 14), ()),
        ((7, 14), [30.0, 30.5], 7, (7,), (0,)),
        ((1, 2, 3), [30.0, 30.8, 31.6], 1, (1,), (-1, 0)),
        ((1, 2, 3), [30.0, 39.0, 48.0], 1, (1,), (-21, -20, -19)),
    ],
)
def test_options_move_against_the_error(
    options: tuple[float, ...],
    errors: list[float],
    step: float,
    after: tuple[float, ...],
    dropped: tuple[float, ...],
) -> None:
    found = moved(options, errors, step, tau=0.4)
    assert (found.after, found.dropped) == (after, dropped)
    assert found.slope == pytest.approx(linregress([o / step for o in options], errors).slope)


def test_a_single_option_stays() -> None:
    found = moved((7,), [30.0], 7, tau=0.4)
    assert (found.after, found.slope, found.steps) == ((7,), None, 0)


def test_an_evolved_space_has_all_options_after() -> None:
    """Its architectures are valid there, and the space before is as it was."""
    rng = random.Random(1)
    architectures = [SWIN_S3.sample(rng) for _ in range(200)]
    errors = {arch: 40.0 - arch["depth_3"] for arch in architectures}
    found = shift_all_options(SWIN_S3, option_qualities(SWIN_S3, errors, 50), tau=0.4)
    space = evolve_space(SWIN_S3, found)
    assert space.fields["depth_3"].options == ((5, 6, 7),)
    assert found["depth_3"].slope == pytest.approx(-1)
    arch = space.sample(rng)
    assert isinstance(arch, Architecture)
    assert arch["depth_3"] >= 5
    assert len(arch["window_3"]) == arch["depth_3"]
    assert SWIN_S3.fields["depth_3"].options == ((2, 3, 4),)
