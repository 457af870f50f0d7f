"""AutoFormer against published counts, against DeiT of transformers and torch's own layers."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import ViTConfig, ViTForImageClassification

from autoprox.searchspaces import Architecture, get_space
from autoprox.searchspaces.autoformer import AutoFormer
from autoprox.searchspaces.transformer import EncoderBlock

# Networks that Auto-Prox retrained, by its released configurations: width, number of blocks, how
# many of them have ratio 4 (the others 3.5), classes, and the size in its table 3, in millions.
RETRAINED = {
    "te-nas, cifar-100": (192, 12, 8, 100, "5.40"),
    "te-nas, flowers": (192, 12, 4, 102, "5.25"),
    "te-nas, chaoyang": (192, 12, 2, 4, "5.16"),
    "tf-tas, cifar-100": (192, 12, 4, 100, "5.25"),
    "nwot, cifar-100": (240, 12, 8, 100, "8.36"),
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


@pytest.mark.parametrize("name", RETRAINED)
def test_sizes_of_table_3(name: str) -> None:
    """Half of the blocks have four heads: those of 64 dimensions would have more parameters."""
    width, depth, large, classes, printed = RETRAINED[name]
    ratios = [4.0] * large + [3.5] * (depth - large)
    arch = architecture(width, [3, 4] * (depth // 2), ratios)
    assert f"{get_space('autoformer-ti').params(arch, classes) / 1e6:.2f}" == printed
    assert f"{get_space('autoformer-supernet-ti').params(arch, classes) / 1e6:.2f}" != printed


@pytest.mark.parametrize("name", ["autoformer-ti", "autoformer-s", "autoformer-b"])
def test_heads_share_the_width_without_remainder(name: str) -> None:
    space = get_space(name)
    (options,) = space.fields["num_heads"].options
    for width in space.fields["hidden_dim"].options[0]:
        sizes = {space.params(architecture(width, [heads] * 12, [4.0] * 12)) for heads in options}
        assert len(sizes) == 1
        assert not any(width % heads for heads in options)


def test_the_numbers_of_architectures() -> None:
    assert get_space("autoformer-ti").size() == 3 * (4**12 + 4**13 + 4**14)
    assert get_space("autoformer-s").size() == 3 * (6**12 + 6**13 + 6**14)
    assert get_space("autoformer-b").size() == 3 * (6**14 + 6**15 + 6**16)


@pytest.mark.parametrize(
    ("width", "heads", "millions", "gigaflops"),
    [(192, 3, 5.7, 1.26), (384, 6, 22.1, 4.6), (768, 12, 86.6, 17.6)],
)
def test_deit_is_the_corner_where_every_ratio_is_4(
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
    arch = architecture(192, [3, 4], [3.5, 4.0])
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
