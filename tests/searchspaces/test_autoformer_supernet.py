"""AutoFormer's supernets against published counts, and relative positions against a plain loop."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.searchspaces import Architecture, SearchSpace, get_space
from autoprox.searchspaces.autoformer import RelativeEncoderBlock, RelativePositionEmbedding
from autoprox.searchspaces.transformer import BlockSpec

# The networks that AutoFormer and AZ-NAS found: width, heads, MLP ratios, and the parameters and
# GFLOPs that AutoFormer's code counts.
PUBLISHED = {
    "autoformer-t": (
        192,
        [3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 4, 3, 3],
        [3.5, 3.5, 3.0, 3.5, 3.0, 3.0, 4.0, 4.0, 3.5, 4.0, 3.5, 4.0, 3.5],
        5_867_944,
        1.344,
    ),
    "autoformer-s": (
        384,
        [6, 6, 5, 7, 5, 5, 5, 6, 6, 7, 7, 6, 7],
        [3.0, 3.5, 3.0, 3.5, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 4.0, 3.5, 4.0],
        22_891_432,
        4.892,
    ),
    "autoformer-b": (
        576,
        [9, 9, 9, 9, 9, 10, 9, 9, 10, 9, 10, 9, 9, 10],
        [3.5, 3.5, 4.0, 3.5, 4.0, 3.5, 3.5, 3.0, 4.0, 4.0, 3.0, 4.0, 3.0, 3.5],
        53_691_688,
        11.237,
    ),
    "az-nas-tiny": (
        192,
        [4, 3, 4, 4, 4, 4, 4, 3, 3, 4, 4, 4],
        [3.5, 3.5, 3.5, 4.0, 3.5, 3.5, 3.5, 3.5, 3.5, 3.5, 4.0, 4.0],
        5_921_032,
        1.380,
    ),
}


def architecture(width: int, heads: list[int], ratios: list[float]) -> Architecture:
    """A network that needn't be in one of the spaces: they share their geometry."""
    choices = {
        "hidden_dim": width,
        "depth": len(heads),
        "mlp_ratio": ratios,
        "num_heads": heads,
    }
    return Architecture("autoformer-supernet-ti", choices)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_networks(name: str) -> None:
    width, heads, ratios, params, gigaflops = PUBLISHED[name]
    space, arch = get_space("autoformer-supernet-ti"), architecture(width, heads, ratios)
    assert space.params(arch) == params
    assert space.flops(arch) / 1e9 == pytest.approx(gigaflops, rel=0.03)


def extreme(space: SearchSpace, pick: Callable[..., Any]) -> Architecture:
    """The architecture with the least or the greatest value of everything."""
    depth = pick(space.fields["depth"].options[0])
    width = pick(space.fields["hidden_dim"].options[0])
    lists = {n: [pick(space.fields[n].options[0])] * depth for n in ("mlp_ratio", "num_heads")}
    return space.architecture({"hidden_dim": width, "depth": depth} | lists)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("ti", "5.37", "10.52"), ("s", "13.06", "34.79"), ("b", "41.69", "76.88")],
)
def test_space_spans_the_published_sizes(name: str, low: str, high: str) -> None:
    space = get_space(f"autoformer-supernet-{name}")
    for pick, millions in ((min, low), (max, high)):
        assert f"{space.params(extreme(space, pick)) / 1e6:.2f}" == millions


def test_the_numbers_of_architectures() -> None:
    assert get_space("autoformer-supernet-ti").size() == 3 * (4**12 + 4**13 + 4**14)
    assert get_space("autoformer-supernet-s").size() == 3 * (9**12 + 9**13 + 9**14)
    assert get_space("autoformer-supernet-b").size() == 3 * (6**14 + 6**15 + 6**16)


def randomised(module: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in module.parameters():
            p.normal_(0.0, 0.3, generator=generator)
    return module


def vector(positions: RelativePositionEmbedding, side: int, i: int, j: int) -> Tensor:
    """Of tokens i and j, of which 0 is the class token."""
    vertical, horizontal = positions.vertical.weight, positions.horizontal.weight
    if 0 in (i, j):
        return vertical[0] + horizontal[0]
    rows = (j - 1) // side - (i - 1) // side
    columns = (j - 1) % side - (i - 1) % side
    return vertical[max(-14, min(14, rows)) + 15] + horizontal[max(-14, min(14, columns)) + 15]


def vectors(positions: RelativePositionEmbedding, side: int) -> list[Tensor]:
    """Of each token and every other: [tokens, head dim]."""
    tokens = range(1 + side**2)
    return [torch.stack([vector(positions, side, i, j) for j in tokens]) for i in tokens]


def attended(block: RelativeEncoderBlock, x: Tensor, side: int) -> Tensor:
    """Attention of one image [tokens, width], token by token."""
    parts = functional.linear(x, block.qkv.weight, block.qkv.bias).chunk(3, -1)
    of_keys, of_values = (vectors(p, side) for p in (block.key_positions, block.value_positions))
    heads = []
    for q, k, v in zip(*(part.split(64, -1) for part in parts), strict=True):
        weights = [((k + of_keys[i]) @ q[i] / 8).softmax(0) for i in range(len(x))]
        heads.append(torch.stack([w @ (v + of_values[i]) for i, w in enumerate(weights)]))
    return functional.linear(torch.cat(heads, -1), block.proj.weight, block.proj.bias)


@pytest.mark.parametrize("side", [2, 5])
def test_attention_is_that_of_a_plain_loop(side: int) -> None:
    """Gradients agree as outputs do."""
    shape = BlockSpec(24, 1 + side**2, 2, inner=128, hidden=8)
    block = randomised(RelativeEncoderBlock(shape).double())
    assert isinstance(block, RelativeEncoderBlock)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, shape.tokens, 24, generator=generator, dtype=torch.float64) / 5
    weights = torch.randn(x.shape, generator=generator, dtype=torch.float64)
    ours, loop = block.attend(x), torch.stack([attended(block, image, side) for image in x])
    torch.testing.assert_close(ours, loop)
    parameters = [block.qkv.weight, block.proj.weight, *tables(block)]
    found, wanted = (
        torch.autograd.grad((output * weights).sum(), parameters) for output in (ours, loop)
    )
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b)
        assert b.any()


def test_distances_are_clipped() -> None:
    """Of 17 rows the last is 16 from the first; the vectors are those of 14."""
    side = 17
    positions = randomised(RelativePositionEmbedding())
    assert isinstance(positions, RelativePositionEmbedding)
    query = torch.randn(1, 1, 1 + side**2, 64, generator=torch.Generator().manual_seed(1))
    products = positions.keys(query)[0, 0]
    for i in (1, 20, side**2):
        wanted = torch.stack([vector(positions, side, i, j) for j in range(1 + side**2)])
        torch.testing.assert_close(products[i], wanted @ query[0, 0, i])


def tables(block: RelativeEncoderBlock) -> list[Tensor]:
    positions = (block.key_positions, block.value_positions)
    return [table for part in positions for table in part.parameters()]


def test_tables_are_embeddings() -> None:
    """Normal with standard deviation 0.02, and none of the linear layers that are measured."""
    network = get_space("autoformer-supernet-ti").build(architecture(192, [3, 4], [3.5, 4.0]))
    for block in network.transformer_blocks:
        assert isinstance(block, RelativeEncoderBlock)
        found = tables(block)
        assert [tuple(table.shape) for table in found] == [(30, 64)] * 4
        assert torch.cat(found).std().item() == pytest.approx(0.02, rel=0.03)
    layers = {id(layer.weight) for _, layer in network.layers() + network.extra_layers()}
    every = {name: p for name, p in network.named_parameters() if "positions" in name}
    assert len(every) == 8
    assert not layers & {id(p) for p in every.values()}
    assert sum(p.numel() for p in every.values()) == 2 * 7680


def test_a_slice_has_the_first_heads_of_the_largest() -> None:
    space = get_space("autoformer-supernet-ti")
    arch = space.architecture(dict(architecture(192, [3, 4] * 6, [3.5, 4.0] * 6).choices))
    assert space.origins(arch) == tuple(range(12))
    assert [block.inner for block in space.blocks(arch)] == [192, 256] * 6
