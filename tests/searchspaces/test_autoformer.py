"""AutoFormer against published counts, against DeiT of transformers and torch's own layers."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import ViTConfig, ViTForImageClassification

from autoprox.searchspaces import Architecture, get_space
from autoprox.searchspaces.autoformer import AutoFormer
from autoprox.searchspaces.blocks import EncoderBlock

RELATIVE_POSITION_TABLES = 2 * 2 * 30 * 64

# The networks that AutoFormer and AZ-NAS found: width, heads, MLP ratios, and the parameters and
# GFLOPs that AutoFormer's code counts, which include the relative positions of every block.
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
    """An AutoFormer that needn't be in one of the spaces: they share their geometry."""
    choices = {
        "hidden_dim": width,
        "depth": len(heads),
        "mlp_ratio": ratios,
        "num_heads": heads,
    }
    return Architecture("autoformer-ti", choices)


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_networks(name: str) -> None:
    width, heads, ratios, params, gigaflops = PUBLISHED[name]
    space, arch = get_space("autoformer-ti"), architecture(width, heads, ratios)
    assert space.params(arch) + RELATIVE_POSITION_TABLES * len(heads) == params
    assert 0.95 < space.flops(arch) / 1e9 / gigaflops < 1


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("autoformer-ti", 5.4, 10.5), ("autoformer-s", 13, 34.8), ("autoformer-b", 42, 76.9)],
)
def test_space_spans_the_published_sizes(name: str, low: float, high: float) -> None:
    space = get_space(name)
    for pick, millions in ((min, low), (max, high)):
        depth = pick(space.fields["depth"].options[0])
        width = pick(space.fields["hidden_dim"].options[0])
        lists = {n: [pick(space.fields[n].options[0])] * depth for n in ("mlp_ratio", "num_heads")}
        arch = space.architecture({"hidden_dim": width, "depth": depth} | lists)
        counted = space.params(arch) + RELATIVE_POSITION_TABLES * depth
        assert counted / 1e6 == pytest.approx(millions, rel=0.01)


def test_the_numbers_of_architectures() -> None:
    assert get_space("autoformer-ti").size() == 3 * (4**12 + 4**13 + 4**14)
    assert get_space("autoformer-s").size() == 3 * (9**12 + 9**13 + 9**14)
    assert get_space("autoformer-b").size() == 3 * (6**14 + 6**15 + 6**16)


@pytest.mark.parametrize(
    ("width", "heads", "millions", "gigaflops"),
    [(192, 3, 5.7, 1.26), (384, 6, 22.1, 4.6), (768, 12, 86.6, 17.6)],
)
def test_deit_is_the_corner_with_64_dimensions_a_head(
    width: int, heads: int, millions: float, gigaflops: float
) -> None:
    """The mean over the patch tokens has no parameters, so that nothing differs."""
    config = ViTConfig(
        hidden_size=width,
        num_hidden_layers=12,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        num_labels=1000,
    )
    with torch.device("meta"):
        deit = ViTForImageClassification(config)
    space, arch = get_space("autoformer-ti"), architecture(width, [heads] * 12, [4.0] * 12)
    assert space.params(arch) == sum(p.numel() for p in deit.parameters())
    assert space.params(arch) / 1e6 == pytest.approx(millions, abs=0.05)
    assert space.flops(arch) / 1e9 == pytest.approx(gigaflops, abs=0.05)


def torch_layer(block: EncoderBlock) -> nn.TransformerEncoderLayer:
    """The block as PyTorch's own layer, which has a head's dimensions from the width."""
    width, hidden = block.fc1.in_features, block.fc1.out_features
    layer = nn.TransformerEncoderLayer(
        width, block.heads, hidden, 0.0, "gelu", 1e-6, batch_first=True, norm_first=True
    )
    attention = {"in_proj_weight": block.qkv.weight, "in_proj_bias": block.qkv.bias}
    state = {f"self_attn.{name}": p for name, p in attention.items()}
    parts = {
        "self_attn.out_proj": block.proj,
        "linear1": block.fc1,
        "linear2": block.fc2,
        "norm1": block.norm1,
        "norm2": block.norm2,
    }
    for name, part in parts.items():
        state |= {f"{name}.{key}": p for key, p in part.state_dict().items()}
    layer.load_state_dict(state)
    return layer


@torch.no_grad()
def test_forward_is_that_of_torchs_own_layers() -> None:
    generator = torch.Generator().manual_seed(0)
    arch = architecture(192, [3, 3], [3.5, 4.0])
    network = get_space("autoformer-ti").build(arch, classes=5)
    assert isinstance(network, AutoFormer)
    for p in network.parameters():
        p.add_(torch.randn(p.shape, generator=generator), alpha=0.1)
    images = torch.randn(2, 3, 224, 224, generator=generator)

    def expected() -> Tensor:
        kernel = network.patches.weight.flatten(1)
        patches = functional.unfold(images, 16, stride=16).mT @ kernel.T + network.patches.bias
        tokens = torch.cat([network.class_token.repeat(2, 1, 1), patches], 1) + network.position
        for block in network.transformer_blocks:
            tokens = torch_layer(block)(tokens)
        norm = network.norm
        tokens = functional.layer_norm(tokens, norm.normalized_shape, norm.weight, norm.bias, 1e-6)
        return tokens[:, 1:].mean(1) @ network.head.weight.T + network.head.bias

    torch.testing.assert_close(network(images), expected(), rtol=1e-4, atol=1e-4)


def test_initial_weights_are_normal_and_biases_zero() -> None:
    arch = architecture(192, [3, 4], [3.5, 4.0])
    network = get_space("autoformer-ti").build(arch, seed=5)
    assert isinstance(network, AutoFormer)
    normal = [layer for _, layer in network.layers()] + [network.head]
    weights = torch.cat([layer.weight.detach().flatten() for layer in normal])
    assert weights.mean().item() == pytest.approx(0, abs=1e-4)
    assert weights.std().item() == pytest.approx(0.02, rel=0.01)
    assert (weights.abs() > 0.04).float().mean().item() == pytest.approx(0.0455, rel=0.05)
    assert not any(layer.bias.any() for layer in normal)
    for embedding in (network.class_token, network.position):
        assert embedding.std().item() == pytest.approx(0.02, rel=0.15)
    start = network.class_token.flatten()[:16]
    assert not torch.equal(network.head.weight[0, :16], start), "the head has the trunk's stream"
    bound = (3 * 16 * 16) ** -0.5
    assert network.patches.weight.abs().max().item() == pytest.approx(bound, rel=0.01)
    for module in network.modules():
        if isinstance(module, nn.LayerNorm):
            assert (module.weight == 1).all()
            assert not module.bias.any()
