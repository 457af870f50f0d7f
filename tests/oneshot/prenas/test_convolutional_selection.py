"""The selection in convolutional spaces against every architecture of a small one."""

import random
from itertools import product

import pytest
import torch

from autoprox.oneshot.prenas.convolutional_selection import (
    ConvolutionalSelector,
    PartialNetwork,
    dominated_by_fewer,
)
from autoprox.oneshot.prenas.supernet_saliency import SupernetSaliency, measure_saliency
from autoprox.searchspaces import Architecture
from autoprox.searchspaces.bignas import NanoBigNASSpace
from autoprox.searchspaces.space import one, per_stage_field

FIELDS = {
    "resolution": one(8, 16),
    "stem": one(8, 16),
    "channels": per_stage_field((8, 16), (16, 24)),
    "depth": per_stage_field((1, 2), (1, 2)),
    "kernel": per_stage_field((3,), (3, 5)),
    "last": one(16, 24),
}
CLASSES = 3


class Small(NanoBigNASSpace):
    strides = (1, 2)
    expansions = (1, 4)


SPACE = Small("small", "with two stages", FIELDS)


@pytest.fixture(scope="module")
def saliency() -> SupernetSaliency:
    return measure_saliency(SPACE, CLASSES, images=4)


def every_architecture() -> list[Architecture]:
    """Of the greatest resolution, which changes no parameter."""
    columns = [list(product(*FIELDS[name].options)) for name in ("channels", "depth", "kernel")]
    return [
        SPACE.architecture(
            {"resolution": 16, "stem": stem, "last": last}
            | dict(zip(("channels", "depth", "kernel"), own, strict=True))
        )
        for stem, last, *own in product((8, 16), (16, 24), *columns)
    ]


def plain_snip(saliency: SupernetSaliency, arch: Architecture) -> float:
    """The sum over channels and, where a kernel is smaller, over its middle."""
    network = SPACE.network(arch, CLASSES)
    total = 0.0
    for name, parameter in network.named_parameters():
        whole = saliency.products[name]
        if name.endswith("depthwise.weight") and whole.shape[-1] == 5:
            order = torch.tensor([3, 0, 1, 2, 4])  # rows are kept with the middle first
            whole = whole[:, :, order][..., order]
            if parameter.shape[-1] == 3:
                whole = whole[..., 1:4, 1:4]
        total += float(whole[tuple(slice(n) for n in parameter.shape)].sum())
    return total


@pytest.mark.parametrize("count", [1, 3])
def test_the_best_below_each_size_are_those_of_all(saliency: SupernetSaliency, count: int) -> None:
    known = [(SPACE.params(a, CLASSES), plain_snip(saliency, a)) for a in every_architecture()]
    ordered = sorted(params for params, _ in known)
    sizes = [ordered[len(ordered) * i // 5] for i in range(1, 5)] + [ordered[-1] + 1]
    chosen = ConvolutionalSelector(saliency, SPACE).choose(sizes, count)
    found = {(one_.params, round(one_.snip, 6)) for one_ in chosen}
    wanted: set[tuple[int, float]] = set()
    for size in sizes:
        below = sorted((pair for pair in known if pair[0] < size), key=lambda pair: -pair[1])
        wanted |= {(params, round(snip, 6)) for params, snip in below[:count]}
    assert found == wanted
    for one_ in chosen:
        assert one_.params == SPACE.params(one_.architecture, CLASSES) < one_.size
        assert one_.snip == pytest.approx(plain_snip(saliency, one_.architecture))


def test_the_largest_has_all_of_every_block(saliency: SupernetSaliency) -> None:
    [largest] = ConvolutionalSelector(saliency, SPACE).choose([10**9])
    assert largest.architecture == SPACE.largest()
    assert largest.normalised == pytest.approx(len(SPACE.blocks(SPACE.largest())))


def test_unsurpassed_are_those_that_may_be_among_the_best() -> None:
    rng = random.Random(0)
    drawn = [PartialNetwork(rng.randrange(50), rng.random(), 0) for _ in range(200)]
    for count in (1, 3):
        kept = set(dominated_by_fewer(drawn, count))
        for one_ in drawn:
            better = [o for o in drawn if o.params <= one_.params and o.snip > one_.snip]
            assert (one_ in kept) == (len(better) < count)
