"""The nano space against transformers' GPT-2, and its initialisation."""

import pytest
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel

from autoprox.searchspaces import Architecture
from autoprox.searchspaces.gpt2 import GPT2_NANO, GPT2NanoNetwork


def architecture(layers: int, width: int, inner: int, heads: int) -> Architecture:
    lists = {"d_model": [width] * layers, "d_inner": [inner] * layers, "n_head": [heads] * layers}
    return GPT2_NANO.architecture({"n_layer": layers, "d_embed": width} | lists)


@pytest.mark.parametrize(
    ("layers", "width", "inner", "heads"), [(1, 32, 96, 1), (3, 64, 256, 2), (12, 48, 192, 4)]
)
def test_with_one_width_it_is_gpt2(layers: int, width: int, inner: int, heads: int) -> None:
    config = GPT2Config(
        vocab_size=256,
        n_positions=64,
        n_embd=width,
        n_layer=layers,
        n_head=heads,
        n_inner=inner,
    )
    with torch.device("meta"):
        gpt2 = GPT2LMHeadModel(config)
    arch = architecture(layers, width, inner, heads)
    assert GPT2_NANO.params(arch) == sum(p.numel() for p in gpt2.parameters())


def test_the_number_of_architectures() -> None:
    """Pairs of d_model and d_inner: 4 + 6 + 6 + 6 + 6; four numbers of heads; six embeddings."""
    assert GPT2_NANO.size() == 6 * sum((28 * 4) ** layers for layers in range(1, 13))
    assert 0.8e6 < GPT2_NANO.params(GPT2_NANO.largest()) < 0.85e6


def test_all_widths_begin_at_the_same_scale() -> None:
    for width in (16, 64):
        network = GPT2_NANO.build(architecture(2, width, 96, 2), seed=1)
        assert isinstance(network, GPT2NanoNetwork)
        assert network.embedding.weight.std().item() == pytest.approx(width**-0.5, rel=0.03)
        assert network.position.std().item() == pytest.approx(0.02, rel=0.05)
        for block in network.transformer_blocks:
            for layer, scale in (
                (block.qkv, 1),
                (block.proj, 0.5),
                (block.fc1, 1),
                (block.fc2, 0.5),
            ):
                assert isinstance(layer, nn.Linear)
                bound = scale * layer.in_features**-0.5
                assert 0.95 * bound < layer.weight.abs().max().item() <= bound
