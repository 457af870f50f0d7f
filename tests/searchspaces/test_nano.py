"""The nano space against transformers' ViT, and its initialisation."""

import pytest
import torch
from torch import nn
from transformers import ViTConfig, ViTForImageClassification

from autoprox.searchspaces import Architecture, get_space
from autoprox.searchspaces.autoformer import AutoFormerNano

SPACE = get_space("autoformer-nano")


def architecture(width: int, heads: list[int], ratios: list[float]) -> Architecture:
    choices = {"hidden_dim": width, "depth": len(heads), "num_heads": heads, "mlp_ratio": ratios}
    return SPACE.architecture(choices)


@pytest.mark.parametrize(("width", "heads", "depth"), [(16, 2, 1), (32, 4, 12), (48, 6, 5)])
def test_with_8_dimensions_a_head_it_is_vit(width: int, heads: int, depth: int) -> None:
    config = ViTConfig(
        image_size=16,
        patch_size=4,
        hidden_size=width,
        num_hidden_layers=depth,
        num_attention_heads=heads,
        intermediate_size=4 * width,
        num_labels=10,
    )
    with torch.device("meta"):
        vit = ViTForImageClassification(config)
    arch = architecture(width, [heads] * depth, [4.0] * depth)
    assert SPACE.params(arch, classes=10) == sum(p.numel() for p in vit.parameters())


def test_the_number_of_architectures() -> None:
    assert SPACE.size() == 7 * sum(25**depth for depth in range(1, 13))


def test_all_widths_begin_at_the_same_scale() -> None:
    network = SPACE.build(architecture(64, [4, 1], [4.0, 1.0]), classes=10, seed=1)
    for layer in (*(layer for _, layer in network.layers()), network.head):
        assert isinstance(layer, nn.Linear)
        bound = layer.in_features**-0.5
        assert 0.9 * bound < layer.weight.abs().max().item() <= bound
        assert layer.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)


def test_positions_begin_larger_than_published() -> None:
    network = SPACE.build(architecture(128, [1], [1.0]), classes=10, seed=1)
    assert isinstance(network, AutoFormerNano)
    assert network.position.std().item() == pytest.approx(15 * 0.02, rel=0.05)
    assert network.class_token.std().item() == pytest.approx(0.02, rel=0.2)
