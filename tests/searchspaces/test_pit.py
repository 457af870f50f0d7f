"""PiT against published sizes and a network of torch's own layers."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from autoprox.searchspaces import Architecture, ArchitectureError, get_space
from autoprox.searchspaces.pit import PiT, TokenPooling


def architecture(base_dim: int, depth: list[int], heads: list[int], ratio: int) -> Architecture:
    """A PiT that needn't be in the space."""
    choices = {"base_dim": base_dim, "mlp_ratio": ratio, "depth": depth, "num_heads": heads}
    return Architecture("pit", choices)


@pytest.mark.parametrize(
    ("name", "base_dim", "heads", "millions", "gigaflops"),
    [
        ("pit", 32, [2, 4, 8], 4.9, 0.7),
        ("pit-xs", 48, [2, 4, 8], 10.6, 1.4),
        ("pit-s", 48, [3, 6, 12], 23.5, 2.9),
    ],
)
def test_published_networks_are_in_their_spaces(
    name: str, base_dim: int, heads: list[int], millions: float, gigaflops: float
) -> None:
    space = get_space(name)
    arch = space.architecture(dict(architecture(base_dim, [2, 6, 4], heads, 4).choices))
    assert space.params(arch) / 1e6 == pytest.approx(millions, abs=0.06)
    assert space.flops(arch) / 1e9 == pytest.approx(gigaflops, abs=0.05)


def test_parameters_that_another_implementation_counted() -> None:
    """The first network of ViT-Bench-101, as ported from the benchmark's code by others."""
    space = get_space("pit")
    arch = space.architecture(
        {"base_dim": 16, "depth": [2, 8, 4], "num_heads": [2, 4, 4], "mlp_ratio": 6}
    )
    assert space.params(arch, classes=100) == 893_828


def test_stages_have_fewer_and_wider_tokens() -> None:
    blocks = get_space("pit").blocks(architecture(24, [1, 4, 2], [2, 4, 8], 2))
    assert [b.tokens for b in blocks] == [730] + [197] * 4 + [50] * 2
    assert [b.width for b in blocks] == [48] + [96] * 4 + [192] * 2
    assert [b.hidden for b in blocks] == [96] + [192] * 4 + [384] * 2


def test_extra_layers_are_in_depth_order() -> None:
    network = get_space("pit").build(architecture(16, [2, 1, 1], [2, 2, 4], 2), classes=5)
    shapes = [(domain, tuple(layer.weight.shape)) for domain, layer in network.extra_layers()]
    assert shapes == [
        ("stem", (32, 3, 16, 16)),
        *[("qkv", (96, 32))] * 2,
        ("pool", (32, 1, 3, 3)),
        ("pool", (32, 32)),
        ("qkv", (96, 32)),
        ("pool", (64, 1, 3, 3)),
        ("pool", (64, 32)),
        ("qkv", (192, 64)),
        ("head", (5, 64)),
    ]


@pytest.mark.parametrize("name", ["pit", "pit-xs", "pit-s"])
def test_the_number_of_architectures(name: str) -> None:
    """Ten of the 27 triples of heads never fall from a stage to the next."""
    assert get_space(name).size() == 4 * 4 * 27 * 10


def test_heads_may_not_fall() -> None:
    message = r"^num_heads must be multiples, each of the one before, but got \(4, 2, 8\)$"
    with pytest.raises(ArchitectureError, match=message):
        get_space("pit").architecture(dict(architecture(16, [1, 4, 2], [4, 2, 8], 2).choices))
    with pytest.raises(ArchitectureError, match=r"^depth\[1\] must be one of 4, 6, 8, but got 2$"):
        get_space("pit").architecture(dict(architecture(16, [1, 2, 2], [2, 2, 8], 2).choices))


def attention(x: Tensor, qkv: torch.nn.Linear, proj: torch.nn.Linear, heads: int) -> Tensor:
    """Attention head by head, as the formula has it."""
    query, key, value = functional.linear(x, qkv.weight, qkv.bias).chunk(3, dim=-1)
    outputs = []
    for q, k, v in zip(*(part.chunk(heads, dim=-1) for part in (query, key, value)), strict=True):
        outputs.append((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v)
    return functional.linear(torch.cat(outputs, -1), proj.weight, proj.bias)


@torch.no_grad()
def test_forward_is_the_published_one() -> None:
    """Positions on the patches alone; the class token past the convolutions, and to the head."""
    generator = torch.Generator().manual_seed(0)
    arch = architecture(16, [1, 1, 1], [2, 2, 4], 2)
    network = get_space("pit").build(arch, classes=5)
    assert isinstance(network, PiT)
    for p in network.parameters():
        p.add_(torch.randn(p.shape, generator=generator), alpha=0.1)
    images = torch.randn(2, 3, 224, 224, generator=generator)

    def norm(x: Tensor, layer: torch.nn.LayerNorm) -> Tensor:
        return functional.layer_norm(x, layer.normalized_shape, layer.weight, layer.bias, 1e-6)

    grid = functional.conv2d(images, network.patches.weight, network.patches.bias, stride=8)
    grid = grid + network.position.mT.reshape(1, -1, 27, 27)
    class_token = network.class_token.repeat(2, 1, 1)
    poolings = [module for module in network.modules() if isinstance(module, TokenPooling)]
    for stage, block in enumerate(network.transformer_blocks):
        if stage:
            conv, fc = poolings[stage - 1].conv, poolings[stage - 1].fc
            groups = grid.shape[1]
            grid = functional.conv2d(grid, conv.weight, conv.bias, 2, 1, groups=groups)
            class_token = functional.linear(class_token, fc.weight, fc.bias)
        x = torch.cat([class_token, grid.flatten(2).mT], 1)
        x = x + attention(norm(x, block.norm1), block.qkv, block.proj, block.heads)
        x = x + block.fc2(functional.gelu(block.fc1(norm(x, block.norm2))))
        class_token, grid = x[:, :1], x[:, 1:].mT.reshape(2, -1, *grid.shape[2:])
    assert grid.shape == (2, 64, 7, 7)
    expected = functional.linear(
        norm(class_token[:, 0], network.norm), network.head.weight, network.head.bias
    )
    torch.testing.assert_close(network(images), expected, rtol=1e-4, atol=1e-4)


def test_initial_weights_are_pytorchs_default() -> None:
    network = get_space("pit").build(architecture(16, [2, 4, 2], [2, 4, 8], 4), seed=5)
    assert isinstance(network, PiT)
    layers = [layer for _, layer in network.layers()] + [network.head]
    for layer in layers:
        bound = layer.in_features**-0.5
        assert layer.weight.abs().max().item() == pytest.approx(bound, rel=0.01)
        assert layer.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.03)
        assert 0.5 * bound < layer.bias.abs().max().item() <= bound
    for embedding in (network.class_token, network.position):
        assert embedding.std().item() == pytest.approx(0.02, rel=0.3)
