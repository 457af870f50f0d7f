"""Shunted ViT against its published sizes, and against its formulas written out."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from autoprox.inputs.batch import Batch
from autoprox.language import STATISTICS
from autoprox.searchspaces import Architecture, ArchitectureError
from autoprox.searchspaces.shunted_vit import SHUNTED, Shunted
from autoprox.statistics.collector import collect_statistics


def choices(**changed: Any) -> dict[str, Any]:
    """Those of Shunted-T, or others."""
    return {
        "base_dim": 64,
        "patch_size": 4,
        "stem_convs": 0,
        "depth": [1, 2, 4, 1],
        "num_heads": [2, 4, 8, 16],
        "mlp_ratio": [8, 8, 4, 4],
    } | changed


def tiny(**changed: Any) -> Architecture:
    """A block a stage, too small for the space, so that it needs little time."""
    small = choices(base_dim=8, depth=[1] * 4, num_heads=[2, 4, 2, 8], mlp_ratio=[2, 1, 3, 2])
    return Architecture(SHUNTED.name, small | {"patch_size": 8, "stem_convs": 1} | changed)


def on_meta(arch: Architecture, classes: int) -> Shunted:
    with torch.device("meta"):
        network = SHUNTED.build(arch, classes)
    assert isinstance(network, Shunted)
    return network


def noise(count: int) -> Tensor:
    return torch.randn(count, *SHUNTED.input_shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("depth", "convolutions", "millions", "gigaflops"),
    [([1, 2, 4, 1], 0, 11.5, 2.1), ([2, 4, 12, 1], 1, 22.4, 4.9), ([3, 4, 24, 2], 2, 39.6, 8.1)],
    ids=["shunted-t", "shunted-s", "shunted-b"],
)
def test_published_networks_are_in_the_space(
    depth: list[int], convolutions: int, millions: float, gigaflops: float
) -> None:
    """The published figures have the digits after the first decimal cut off."""
    arch = SHUNTED.architecture(choices(depth=depth, stem_convs=convolutions))
    assert math.floor(SHUNTED.params(arch) / 1e5) / 10 == millions
    assert math.floor(SHUNTED.flops(arch) / 1e8) / 10 == gigaflops


@pytest.mark.parametrize("arch", [tiny(), tiny(patch_size=4, stem_convs=2)])
def test_counts_are_those_of_the_built_network(arch: Architecture) -> None:
    network = on_meta(arch, classes=7)
    assert SHUNTED.params(arch, 7) == sum(p.numel() for p in network.parameters())
    with FlopCounterMode(display=False) as counter:
        network(torch.empty(1, *SHUNTED.input_shape, device="meta"))
    assert 2 * SHUNTED.flops(arch, 7) == counter.get_total_flops()


@pytest.mark.parametrize(("patch", "sides"), [(4, (56, 28, 14, 7)), (8, (28, 14, 7, 4))])
def test_blocks_are_those_of_the_built_network(patch: int, sides: tuple[int, ...]) -> None:
    arch = SHUNTED.architecture(choices(base_dim=48, patch_size=patch))
    network, outputs = on_meta(arch, classes=7), []
    for block in network.transformer_blocks:
        block.register_forward_hook(lambda _, inputs, output: outputs.append(tuple(output.shape)))
    assert network(torch.empty(2, *SHUNTED.input_shape, device="meta")).shape == (2, 7)
    stages = [stage for stage, depth in enumerate(arch["depth"]) for _ in range(depth)]
    assert outputs == [(2, sides[stage] ** 2, 48 * 2**stage) for stage in stages]
    assert [(2, b.tokens, b.width) for b in SHUNTED.blocks(arch)] == outputs
    heads = [arch["num_heads"][stage] for stage in stages]
    assert [b.heads for b in SHUNTED.blocks(arch)] == heads
    assert [block.heads for block in network.transformer_blocks] == heads


def test_linear_layers_are_those_of_attention_and_mlp() -> None:
    network = on_meta(tiny(), classes=7)
    named = [
        ("msa", "q"),
        ("msa", "scales.0.kv"),
        ("msa", "scales.1.kv"),
        ("msa", "proj"),
        ("mlp", "fc1"),
        ("mlp", "fc2"),
    ]
    wanted = [
        (domain, stage.blocks[0].get_submodule(name))
        for stage in network.stages
        for domain, name in named
        if stage is not network.stages[-1] or name != "scales.1.kv"
    ]
    assert [(d, id(layer)) for d, layer in network.layers()] == [(d, id(m)) for d, m in wanted]
    every = {id(m) for m in network.modules() if isinstance(m, nn.Linear)}
    assert every - {id(layer) for _, layer in network.layers()} == {id(network.head)}


def test_extra_layers_are_in_depth_order() -> None:
    """Between stages a convolution; of the first three stages queries and two keys and values."""
    arch = tiny(patch_size=4, stem_convs=2)
    layers = on_meta(arch, classes=7).extra_layers()
    attention = ["qkv"] * 3
    pools = [part for _ in range(3) for part in (*attention, "pool")]
    assert [domain for domain, _ in layers] == ["stem"] * 4 + pools + ["qkv"] * 2 + ["head"]
    pooled = [tuple(layer.weight.shape) for domain, layer in layers if domain == "pool"]
    assert pooled == [(16, 8, 3, 3), (32, 16, 3, 3), (64, 32, 3, 3)]
    assert [layer.weight.shape[2] for domain, layer in layers if domain == "stem"] == [7, 3, 3, 2]


def depthwise(grid: Tensor, conv: nn.Conv2d) -> Tensor:
    """Nine shifted copies of a grid of tokens, each weighted feature by feature."""
    side = grid.shape[2]
    padded = functional.pad(grid, (1, 1, 1, 1))
    shifted = [
        padded[:, :, i : i + side, j : j + side] * conv.weight[:, 0, i, j, None, None]
        for i in range(3)
        for j in range(3)
    ]
    return torch.stack(shifted).sum(0) + conv.bias[:, None, None]


def on_grid(tokens: Tensor, conv: nn.Conv2d) -> Tensor:
    side = math.isqrt(tokens.shape[1])
    grid = tokens.transpose(1, 2).reshape(len(tokens), -1, side, side)
    return depthwise(grid, conv).flatten(2).transpose(1, 2)


def merged(x: Tensor, conv: nn.Conv2d, norm: nn.LayerNorm) -> Tensor:
    """Each square of tokens as one: flattened, then through the convolution's weights."""
    side, rate = math.isqrt(x.shape[1]), conv.kernel_size[0]
    grid = x.transpose(1, 2).reshape(len(x), -1, side, side)
    squares = functional.unfold(grid, rate, stride=rate).transpose(1, 2)
    tokens = squares @ conv.weight.flatten(1).T + conv.bias
    return functional.gelu(
        functional.layer_norm(tokens, norm.normalized_shape, norm.weight, norm.bias)
    )


def heads_of(query: Tensor, key: Tensor, value: Tensor, heads: int) -> Tensor:
    outputs = []
    for q, k, v in zip(*(part.chunk(heads, -1) for part in (query, key, value)), strict=True):
        outputs.append((q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v)
    return torch.cat(outputs, -1)


def block_output(x: Tensor, block: Any, rate: int) -> Tensor:
    normed = functional.layer_norm(x, x.shape[2:], block.norm1.weight, block.norm1.bias, 1e-6)
    query = block.q(normed)
    if rate > 1:
        coarse, fine = block.scales
        assert [scale.merge.convolution.kernel_size[0] for scale in block.scales] == [
            rate,
            rate // 2,
        ]
        half, outputs = x.shape[2] // 2, []
        for scale, q in ((coarse, query[..., :half]), (fine, query[..., half:])):
            kv = scale.kv(merged(normed, scale.merge.convolution, scale.merge.norm))
            key, value = kv[..., :half], kv[..., half:]
            outputs.append(heads_of(q, key, value + on_grid(value, scale.local), block.heads // 2))
        attended = torch.cat(outputs, -1)
    else:
        (scale,) = block.scales
        key, value = scale.kv(normed).tensor_split(2, -1)
        attended = heads_of(query, key, value, block.heads) + on_grid(value, scale.local)
    x = x + block.proj(attended)
    normed = functional.layer_norm(x, x.shape[2:], block.norm2.weight, block.norm2.bias, 1e-6)
    hidden = block.fc1(normed)
    return x + block.fc2(functional.gelu(hidden + on_grid(hidden, block.detail)))


@torch.no_grad()
@pytest.mark.parametrize("patch", [4, 8])
def test_forward_is_the_published_one(patch: int) -> None:
    generator = torch.Generator().manual_seed(0)
    network = SHUNTED.build(tiny(patch_size=patch), classes=5)
    assert isinstance(network, Shunted)
    for p in network.parameters():
        p.add_(torch.randn(p.shape, generator=generator), alpha=0.1)
    first, second = (network.stages[0].embedding.convolution[i] for i in (0, 3))
    norms = [network.stages[0].embedding.convolution[i] for i in (1, 4)]
    last = network.stages[0].embedding.convolution[6]

    grid = functional.conv2d(noise(2), first.weight, stride=2, padding=3)
    grid = functional.conv2d(batch_normed(grid, norms[0]), second.weight, padding=1)
    grid = functional.conv2d(batch_normed(grid, norms[1]), last.weight, last.bias, patch // 2)
    for stage, rate in zip(network.stages, (8, 4, 2, 1), strict=True):
        if rate < 8:
            conv = stage.embedding.convolution
            grid = functional.conv2d(grid, conv.weight, conv.bias, stride=2, padding=1)
        norm, side = stage.embedding.norm, grid.shape[2]
        tokens = grid.flatten(2).transpose(1, 2)
        tokens = functional.layer_norm(tokens, tokens.shape[2:], norm.weight, norm.bias, 1e-5)
        tokens = block_output(tokens, stage.blocks[0], rate)
        norm = stage.norm
        tokens = functional.layer_norm(tokens, tokens.shape[2:], norm.weight, norm.bias, 1e-6)
        grid = tokens.transpose(1, 2).reshape(2, -1, side, side)
    expected = tokens.mean(1) @ network.head.weight.T + network.head.bias
    torch.testing.assert_close(network(noise(2)), expected, rtol=1e-4, atol=1e-4)


def batch_normed(grid: Tensor, norm: nn.BatchNorm2d) -> Tensor:
    """Before any training: the statistics are still those of a standard normal distribution."""
    scaled = grid / math.sqrt(1 + 1e-5) * norm.weight[:, None, None] + norm.bias[:, None, None]
    return scaled.clamp(min=0)


def test_passes_leave_the_network_as_it_was() -> None:
    network = SHUNTED.build(tiny(), classes=3)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    batch = Batch(noise(2), torch.tensor([0, 2]), 3, "noise")
    needs = [s for s in STATISTICS.values() if s.domain != "all"]
    measured = collect_statistics(network, batch, needs)
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name
    for statistic, matrices in measured.items():
        assert len(matrices) == {"msa": 4 * 3 + 3, "mlp": 4 * 2}[statistic.domain]
        assert all(matrix.isfinite().all() and matrix.any() for matrix in matrices), statistic


@torch.no_grad()
def test_an_image_does_not_depend_on_the_others() -> None:
    network, images = SHUNTED.build(tiny(), classes=3), noise(3)
    torch.testing.assert_close(network(images)[1:2], network(images[1:2]))


def test_initial_weights_are_the_published_ones() -> None:
    arch = Architecture(SHUNTED.name, choices(base_dim=32, depth=[1] * 4, stem_convs=1))
    network = SHUNTED.build(arch, classes=1000, seed=5)
    assert isinstance(network, Shunted)
    linear = [*(layer for _, layer in network.layers()), network.head]
    weights = torch.cat([layer.weight.detach().flatten() for layer in linear])
    assert weights.std().item() == pytest.approx(0.02, rel=0.01)
    assert weights.mean().item() == pytest.approx(0, abs=1e-4)
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    assert len(convolutions) == 3 + 3 * (2 + 2 + 1) + 3 + 2
    for conv in convolutions:
        fan_out = math.prod(conv.kernel_size) * conv.out_channels / conv.groups
        loose = 3 / math.sqrt(conv.weight.numel())
        assert conv.weight.std().item() == pytest.approx(math.sqrt(2 / fan_out), rel=loose)
    assert not any(m.bias.any() for m in (*linear, *convolutions) if m.bias is not None)


def test_sizes_of_the_space() -> None:
    single, depths, heads, ratios = 9 * 2 * 3, 4 * 7 * 27 * 4, 3 * 4 * 5 * 5, 15**4
    assert SHUNTED.size() == single * depths * heads * ratios
    assert SHUNTED.size() == pytest.approx(2.6e12, rel=0.05)
    assert SHUNTED.largest()["base_dim"] == 96
    assert SHUNTED.origins(SHUNTED.largest()) is None


def test_every_choice_is_a_feature() -> None:
    plain = SHUNTED.features(SHUNTED.architecture(choices()))
    assert plain[:3] == pytest.approx([math.log(n) for n in (64, 4, 1)])
    for change in (
        {"base_dim": 80},
        {"patch_size": 8},
        {"stem_convs": 2},
        {"depth": [1, 2, 4, 2]},
        {"num_heads": [2, 4, 8, 8]},
        {"mlp_ratio": [8, 8, 4, 6]},
    ):
        changed = SHUNTED.features(SHUNTED.architecture(choices(**change)))
        assert sum(a != b for a, b in zip(plain, changed, strict=True)) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"patch_size": 16}, "^patch_size must be one of 4, 8, but got 16$"),
        ({"num_heads": [1, 4, 8, 16]}, r"^num_heads\[0\] must be one of 2, 4, 8, but got 1$"),
        ({"depth": [1, 2, 4]}, r"^depth must be a list of 4 values, but got \[1, 2, 4\]$"),
    ],
)
def test_wrong_choices_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ArchitectureError, match=message):
        SHUNTED.architecture(choices(**change))
