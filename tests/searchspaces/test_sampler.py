"""Architectures within limits, compared with an enumeration of small spaces."""

import random
from collections import Counter
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from scipy.stats import chisquare

from autoprox.files.human_readable_sizes import SizeRange
from autoprox.searchspaces import SPACES, Architecture, ArchitectureError, SearchSpace, get_space
from autoprox.searchspaces.architecture_counts_by_size import ArchitectureCounts
from autoprox.searchspaces.architecture_sampler import ArchitectureSampler, sample_in_turn
from autoprox.searchspaces.autoformer import AutoFormerNanoSpace
from autoprox.searchspaces.size_limits import LimitsError, SizeLimits, matching_size_range
from autoprox.searchspaces.space import one, per_layer_field

SMALL = AutoFormerNanoSpace(
    "autoformer-nano",
    "with few options",
    {
        "hidden_dim": one(16, 24, 32),
        "depth": one(1, 2, 3),
        "mlp_ratio": per_layer_field(1.0, 2.0),
        "num_heads": per_layer_field(1, 2, 4),
    },
)


def enumerated(space: SearchSpace) -> Iterator[Architecture]:
    """Every architecture of a small space, from the product of its options."""

    def extended(choices: dict[str, Any], names: list[str]) -> Iterator[dict[str, Any]]:
        if not names:
            yield choices
            return
        field = space.fields[names[0]]
        for values in product(*field.positions(choices)):
            yield from extended({**choices, names[0]: field.value(values)}, names[1:])

    for choices in extended({}, list(space.fields)):
        if space.rule(choices) is None:
            yield space.architecture(choices)


def probability(space: SearchSpace, arch: Architecture) -> float:
    """How probable `sample` makes an architecture, but for a factor that all have in common."""
    found = 1.0
    for field in space.fields.values():
        for options in field.positions(dict(arch.choices)):
            found /= len(options)
    return found


def inside(space: SearchSpace, params: SizeRange, flops: SizeRange) -> set[Architecture]:
    """The architectures within limits, one by one."""
    ends = ((low or 0, high or 1 << 62) for low, high in (params, flops))
    (least, most), (fewest, greatest) = ends
    return {
        arch
        for arch in enumerated(space)
        if least <= space.params(arch, 10) <= most and fewest <= space.flops(arch, 10) <= greatest
    }


CASES: list[tuple[SearchSpace, SizeRange, SizeRange]] = [
    (SMALL, (None, 12_000), (None, None)),
    (SMALL, (7_000, 9_000), (100_000, 140_000)),
    (SMALL, (None, None), (90_000, 120_000)),
    (SMALL, (None, None), (None, None)),
    (get_space("pit"), (5_880_000, 6_120_000), (None, None)),
    (get_space("pit-nano"), (150_000, 160_000), (None, 6_000_000)),
    (get_space("bignas-nano"), (30_000, 40_000), (None, None)),
    (get_space("bignas-nano"), (None, None), (None, 1_000_000)),
]


@pytest.mark.parametrize(("space", "params", "flops"), CASES)
def test_all_that_exist_are_found_and_then_none(
    space: SearchSpace, params: SizeRange, flops: SizeRange
) -> None:
    existing = inside(space, params, flops)
    assert existing
    limits, rng = SizeLimits(space, 10, params, flops), random.Random(0)
    found = ArchitectureSampler(limits).sample(len(existing) + 1, rng)
    assert len(found) == len(existing)
    assert set(found) == existing
    assert ArchitectureSampler(limits).available(10**6) == len(existing)
    assert ArchitectureSampler(limits).available(len(existing) - 1) == len(existing) - 1
    counts = ArchitectureCounts(limits)
    assert {arch for arch, _ in counts.every()} == existing


@pytest.mark.parametrize(("space", "params", "flops"), CASES[:3] + CASES[-2:])
def test_draws_are_as_probable_as_samples(
    space: SearchSpace, params: SizeRange, flops: SizeRange
) -> None:
    """A chi-square test; `sample` gives each architecture of a space of fixed depth the same."""
    existing = list(inside(space, params, flops))
    weights = [probability(space, arch) for arch in existing]
    if not any(field.count for field in space.fields.values()):
        assert len(set(weights)) == 1
    counts, rng, draws = (
        ArchitectureCounts(SizeLimits(space, 10, params, flops)),
        random.Random(3),
        6_000,
    )
    drawn = Counter(arch for _ in range(draws) if (arch := counts.draw(rng)) is not None)
    total = sum(drawn.values())
    assert set(drawn) <= set(existing)
    expected = [total * weight / sum(weights) for weight in weights]
    order = sorted(range(len(existing)), key=expected.__getitem__)
    assert (
        chisquare(*pooled([drawn[existing[i]] for i in order], [expected[i] for i in order]))[1]
        > 0.001
    )


def pooled(observed: list[int], expected: list[float]) -> tuple[list[float], list[float]]:
    """The counts, rare ones together, so that at least ten are expected of each."""
    pairs: list[list[float]] = [[0.0, 0.0]]
    for seen, mean in zip(observed, expected, strict=True):
        if pairs[-1][1] >= 10:
            pairs.append([0.0, 0.0])
        pairs[-1][0] += seen
        pairs[-1][1] += mean
    last = pairs.pop()
    pairs[-1] = [pairs[-1][0] + last[0], pairs[-1][1] + last[1]]
    return [seen for seen, _ in pairs], [mean for _, mean in pairs]


@pytest.mark.parametrize("name", SPACES)
def test_every_space_has_its_sizes_counted(name: str) -> None:
    """As many different architectures within 2 % as are asked for, unless fewer exist."""
    space, rng = get_space(name), random.Random(1)
    middle = sorted(space.params(space.sample(rng), 10) for _ in range(21))[10]
    sampler = ArchitectureSampler(SizeLimits(space, 10, matching_size_range(middle)))
    found = sampler.sample(60, rng)
    assert len(set(found)) == len(found) == sampler.available(60)
    for arch in found:
        space.validate(arch)
        assert 0.98 * middle <= space.params(arch, 10) <= 1.02 * middle
    if len(found) < 60:
        assert set(found) == inside(space, matching_size_range(middle), (None, None))


@pytest.mark.parametrize("seed", range(3))
def test_what_is_rare_is_found(seed: int) -> None:
    """Random architectures of AutoFormer-Ti that are so small are less than one in a million."""
    space, rng = get_space("autoformer-ti"), random.Random(seed)
    least = space.params(space.smallest())
    limits = SizeLimits(space, 1000, (None, least + 50_000), (1_000_000_000, None))
    found = ArchitectureSampler(limits).sample(20, rng)
    assert len(found) == 20
    assert all(least <= space.params(arch) <= least + 50_000 for arch in found)


def test_the_first_of_more_are_the_same() -> None:
    limits = SizeLimits(SMALL, 10, (None, 12_000))
    few, many, others = (
        ArchitectureSampler(limits).sample(count, random.Random(seed))
        for count, seed in ((5, 0), (9, 0), (9, 1))
    )
    assert many[:5] == few
    assert others != many


def test_samplers_take_turns_until_none_has_more() -> None:
    ranges = [(None, 5_000), (5_001, 7_000)]
    samplers = [ArchitectureSampler(SizeLimits(SMALL, 10, ends)) for ends in ranges]
    numbers = [len(inside(SMALL, ends, (None, None))) for ends in ranges]
    assert numbers[0] < numbers[1]
    found = sample_in_turn(samplers, 10**4, random.Random(0))
    assert len(found) == sum(numbers)
    small = [SMALL.params(arch, 10) <= 5_000 for arch in found]
    assert small[: 2 * numbers[0]] == [True, False] * numbers[0]


def test_similar_architectures_keep_what_the_limits_allow() -> None:
    space, rng = get_space("autoformer-ti"), random.Random(0)
    sampler = ArchitectureSampler(SizeLimits(space, 1000, matching_size_range(6_000_000)))
    kept = []
    for _ in range(20):
        outside = space.sample(rng)
        similar = sampler.new(rng, (), like=outside)
        assert similar is not None
        assert sampler.limits.admit(similar)
        pairs = zip(outside["num_heads"], similar["num_heads"], strict=False)
        kept += [a == b for a, b in pairs]
    assert sum(kept) / len(kept) > 0.9


def test_a_single_choice_can_be_fixed() -> None:
    space, rng = get_space("gpt2-hw"), random.Random(0)
    sampler = ArchitectureSampler(
        SizeLimits(space, 1000, (75_000_000, 76_000_000), (None, 120_000_000_000))
    )
    found = sampler.new(rng, (), fixed={"embed_dim": 768})
    assert found is not None
    assert found["embed_dim"] == 768
    assert sampler.limits.admit(found)
    assert sampler.new(rng, (), fixed={"embed_dim": 384}) is None


@pytest.mark.parametrize(
    ("name", "params", "flops", "message"),
    [
        ("autoformer-ti", (None, 3_000_000), (None, None), r"none is within params :3M: the nearest"
         r" params are 5.274M \(5,273,896\)$"),
        ("pit", (6_000_000, 6_000_001), (None, None), "the nearest params are "
         r"5.978M \(5,978,250\) and 6.005M \(6,004,746\)$"),
        ("pit", (6_000_000, None), (None, 1_000_000), "none is within params 6M:, flops :1M: "
         "the nearest has params .*, flops .*M$"),
    ],
)  # fmt: skip
def test_limits_without_architectures_name_the_nearest(
    name: str, params: SizeRange, flops: SizeRange, message: str
) -> None:
    space, classes = get_space(name), 10 if name == "pit" else 1000
    with pytest.raises(LimitsError, match=f"architecture of {name} must be within .*{message}"):
        ArchitectureSampler(SizeLimits(space, classes, params, flops)).require()
    if name == "pit" and flops == (None, None):
        sizes = sorted(space.params(arch, classes) for arch in enumerated(space))
        below = [size for size in sizes if size < 6_000_000]
        above = [size for size in sizes if size > 6_000_001]
        assert (below[-1], above[0]) == (5_978_250, 6_004_746)


def test_a_space_must_say_what_its_sizes_depend_on() -> None:
    class Careless(type(get_space("pit"))):  # type: ignore[misc]
        chained = frozenset[str]()

    pit = get_space("pit")
    with pytest.raises(ArchitectureError, match="the sizes of pit must follow from its choices"):
        ArchitectureCounts(SizeLimits(Careless("pit", "PiT", pit.fields), 10, (None, 6_000_000)))
