"""PreNAS's selection against plain sums, every isomer of small groups, and the rules of sizes."""

import random
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from autoprox.oneshot.prenas.isomer_selection import (
    NORMALISERS,
    IsomerError,
    IsomerFields,
    IsomerSelector,
    LayerScores,
    option_allocations,
    require_reachable_size,
)
from autoprox.oneshot.prenas.supernet_saliency import SupernetSaliency, measure_saliency
from autoprox.searchspaces import Architecture, get_space
from autoprox.searchspaces.autoformer import AutoFormerNanoSpace
from autoprox.searchspaces.space import one, per_layer_field

FIELDS = {
    "hidden_dim": one(16, 24),
    "depth": one(2, 3),
    "mlp_ratio": per_layer_field(1.0, 2.0),
    "num_heads": per_layer_field(1, 2),
}
SPACE = AutoFormerNanoSpace("small", "with two options a layer", FIELDS)
CLASSES = 3


@pytest.fixture(scope="module")
def saliency() -> SupernetSaliency:
    return measure_saliency(SPACE, CLASSES, images=4, seed=1)


@pytest.fixture(scope="module", params=NORMALISERS)
def selector(saliency: SupernetSaliency, request: pytest.FixtureRequest) -> IsomerSelector:
    return IsomerSelector(saliency, request.param)


def thirds(rows: Tensor, heads: int) -> Tensor:
    """The plain order of rows of qkv, from that of heads."""
    return rows.unflatten(0, (heads, 3, -1)).transpose(0, 1).flatten(0, 2)


def plain_scores(saliency: SupernetSaliency, arch: Architecture) -> tuple[float, list[float]]:
    """SNIP outside of the blocks and in each, matrix by matrix in the plain order."""
    most = max(FIELDS["num_heads"].options[0])
    dim, rest, blocks = 8, 0.0, [0.0] * arch["depth"]
    width = arch["hidden_dim"]
    for name, values in saliency.products.items():
        if not name.startswith("blocks."):
            part = values if name == "head.bias" else values[..., :width]
            if name == "patches.weight":
                part = values[:width]
            rest += float(part.sum())
            continue
        layer, rest_of_name = int(name.split(".")[1]), name.split(".", 2)[2]
        if layer >= arch["depth"]:
            continue
        inner = dim * arch["num_heads"][layer]
        hidden = int(width * arch["mlp_ratio"][layer])
        if rest_of_name.startswith("qkv"):
            part = torch.cat([third[:inner] for third in thirds(values, most).chunk(3)])
            part = part[:, :width] if part.dim() == 2 else part
        elif rest_of_name == "proj.weight":
            part = values[:width, :inner]
        elif rest_of_name == "fc1.weight":
            part = values[:hidden, :width]
        elif rest_of_name == "fc1.bias":
            part = values[:hidden]
        elif rest_of_name == "fc2.weight":
            part = values[:width, :hidden]
        else:
            part = values[:width]
        blocks[layer] += float(part.sum())
    return rest, blocks


def every_architecture() -> Iterator[Architecture]:
    for width, depth in product((16, 24), (2, 3)):
        for ratios in product((1.0, 2.0), repeat=depth):
            for heads in product((1, 2), repeat=depth):
                yield SPACE.architecture(
                    {"hidden_dim": width, "depth": depth, "mlp_ratio": ratios, "num_heads": heads}
                )


def test_scores_are_plain_sums(saliency: SupernetSaliency, selector: IsomerSelector) -> None:
    _, whole = plain_scores(saliency, SPACE.largest())
    for arch in random.Random(0).sample(list(every_architecture()), 20):
        rest, blocks = plain_scores(saliency, arch)
        assert selector.snip.score(arch) == pytest.approx(rest + sum(blocks))
        normalised = sum(own / total for own, total in zip(blocks, whole, strict=False))
        assert selector.normalised.score(arch) == pytest.approx(normalised)


def test_the_products_are_those_of_one_backward_pass() -> None:
    """Without stochastic depth's chance: the first block is never left out, one block is all."""
    space = AutoFormerNanoSpace("one", "one block", {**FIELDS, "depth": one(1)})
    found = measure_saliency(space, CLASSES, images=10, seed=5)
    network = space.build(space.largest(), CLASSES, seed=5)
    generator = torch.Generator().manual_seed(5)
    noise = torch.empty(10, 3, 16, 16)
    for place, (mean, std) in enumerate(((0.485, 0.229), (0.456, 0.224), (0.406, 0.225))):
        torch.nn.init.normal_(noise[:, place], mean, std, generator=generator)
    network(noise).sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None
        product_ = (parameter * parameter.grad).abs()
        ours = found.products[name]
        if "qkv" in name:
            ours = thirds(ours, 2)
        torch.testing.assert_close(ours.float(), product_.detach(), rtol=1e-3, atol=1e-5)


def group(arch: Architecture) -> tuple[float, ...]:
    return (
        arch["hidden_dim"],
        arch["depth"],
        sum(arch["mlp_ratio"]),
        sum(arch["num_heads"]),
    )


def test_with_two_options_a_representative_is_the_best_isomer(saliency: SupernetSaliency) -> None:
    selector = IsomerSelector(saliency, "paper")
    best: dict[tuple[float, ...], float] = {}
    for arch in every_architecture():
        score = selector.normalised.score(arch)
        best[group(arch)] = max(score, best.get(group(arch), 0.0))
    chosen = {group(arch): selector.normalised.score(arch) for arch in selector.representatives}
    assert len(selector.representatives) == len(chosen) == len(best)
    assert chosen == pytest.approx(best)


def brute(steps: NDArray[np.float64], total: int) -> float:
    """The greatest sum of gains of any allocation of so many steps."""
    sums = np.concatenate([np.zeros((len(steps), 1)), steps.cumsum(1)], axis=1)
    return max(
        sum(sums[layer, taken] for layer, taken in enumerate(allocation))
        for allocation in product(range(sums.shape[1]), repeat=len(steps))
        if sum(allocation) == total
    )


@pytest.mark.parametrize("seed", range(5))
def test_the_greedy_allocation_is_the_best_where_gains_shrink(seed: int) -> None:
    """Of three steps a layer, each smaller than the one before."""
    steps = -np.sort(-np.random.default_rng(seed).random((4, 3)), axis=1)
    for total, taken in enumerate(option_allocations(steps)):
        assert sum(taken) == total
        gained = sum(steps[layer, :count].sum() for layer, count in enumerate(taken))
        assert gained == pytest.approx(brute(steps, total))
    assert taken == (3, 3, 3, 3)


def test_the_greedy_allocation_takes_one_step_at_a_time() -> None:
    """Appendix B: a great gain behind a small one isn't seen."""
    path = list(option_allocations(np.array([[1.0, 9.0], [2.0, 1.5]])))
    assert path == [(0, 0), (0, 1), (0, 2), (1, 2), (2, 2)]


def test_the_released_normaliser(saliency: SupernetSaliency) -> None:
    """|w g| of what is added to qkv, or to fc1 and fc2, by the matrix's sums of |w| and of |g|."""
    layout = IsomerFields(SPACE)
    heads, ratios = [], []
    for layer in range(3):
        parts = [saliency.products[f"blocks.{layer}.{n}.weight"] for n in ("qkv", "fc1", "fc2")]
        norms = [saliency.magnitudes[f"blocks.{layer}.{n}.weight"] for n in ("qkv", "fc1", "fc2")]
        qkv, fc1, fc2 = (part / norm for part, norm in zip(parts, norms, strict=True))
        heads.append(float(qkv[48:96].sum()))
        ratios.append(float(fc1[24:48].sum() + fc2[:, 24:48].sum()))
    wanted = {tuple(taken) for taken in option_allocations(np.array(heads)[:, None])}
    chosen = IsomerSelector(saliency, "released").representatives
    found = {arch["num_heads"] for arch in chosen if arch["depth"] == 3}
    assert found == {tuple(1 + t for t in taken) for taken in wanted}
    wanted = {tuple(taken) for taken in option_allocations(np.array(ratios)[:, None])}
    found = {arch["mlp_ratio"] for arch in chosen if arch["depth"] == 3}
    assert found == {tuple(1.0 + t for t in taken) for taken in wanted}
    assert layout.networks == ["hidden_dim"]


def test_magnitudes_are_products_of_sums() -> None:
    found = measure_saliency(SPACE, CLASSES, images=1)
    network = SPACE.build(SPACE.largest(), CLASSES)
    weight = network.get_parameter("head.weight").detach().abs()
    gradient = found.products["head.weight"] / weight
    assert found.magnitudes["head.weight"] == pytest.approx(
        float(weight.sum() * gradient.sum()), rel=1e-4
    )


def test_those_preferred_are_below_their_sizes_and_the_most_salient(
    selector: IsomerSelector,
) -> None:
    sizes = [5000, 9000, 13_000, 10**6]
    chosen = selector.choose(sizes, per_size=2)
    for one_ in chosen:
        below = [
            arch for arch in selector.representatives if SPACE.params(arch, CLASSES) < one_.size
        ]
        ranked = sorted(below, key=selector.snip.score, reverse=True)[:2]
        assert one_.architecture in ranked
        assert one_.params == SPACE.params(one_.architecture, CLASSES) < one_.size
        assert one_.flops == SPACE.flops(one_.architecture, CLASSES)
    assert len({one_.architecture for one_ in chosen}) == len(chosen)
    assert {one_.size for one_ in chosen} <= set(sizes)
    assert SPACE.largest() in [one_.architecture for one_ in chosen]


def test_options_that_are_not_equally_far_apart() -> None:
    fields = {**FIELDS, "mlp_ratio": per_layer_field(0.5, 1.0, 4.0), "depth": one(2)}
    space = AutoFormerNanoSpace("uneven", "with uneven options", fields)
    found = measure_saliency(space, CLASSES, images=2)
    layout = IsomerFields(space)
    scores = LayerScores(found, layout, layout.sums(found), dict.fromkeys(found.products, 1.0))
    table = scores.steps((16,), "mlp_ratio")
    for layer in range(2):
        rows = found.products[f"blocks.{layer}.fc1.weight"][:, :16]
        columns = found.products[f"blocks.{layer}.fc2.weight"][:16]
        bias = found.products[f"blocks.{layer}.fc1.bias"]
        gain = rows[16:64].sum() + columns[:, 16:64].sum() + bias[16:64].sum()
        assert table[layer, 1] == pytest.approx(float(gain) / 3)


def test_a_space_without_isomers() -> None:
    with pytest.raises(IsomerError, match=r"layers all have the same options, which pit has not"):
        IsomerFields(get_space("pit"))


def test_sizes_out_of_reach() -> None:
    least = SPACE.params(SPACE.smallest(), CLASSES)
    require_reachable_size(SPACE, CLASSES, least + 1)
    with pytest.raises(IsomerError, match=rf"beyond {least}, the least of small \(to \d+\), but"):
        require_reachable_size(SPACE, CLASSES, least)


def test_an_unknown_normaliser(saliency: SupernetSaliency) -> None:
    with pytest.raises(IsomerError, match=r"unknown normaliser 'papers' \(did you mean paper\?\)"):
        IsomerSelector(saliency, "papers")
