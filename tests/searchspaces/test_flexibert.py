"""The FlexiBERT space: its operations against others' implementations, its published sizes."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.fft
import torch
from helpers.bert import NAMES, randomised, tokens, translated
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode
from transformers import ConvBertConfig, ElectraConfig, ElectraForMaskedLM
from transformers.models.convbert.modeling_convbert import ConvBertLayer

from autoprox.searchspaces import Architecture, ArchitectureError
from autoprox.searchspaces.flexibert import (
    FLEXIBERT,
    TOKEN_MIXERS,
    FlexiBert,
    FlexiBlock,
    FlexiBlockSpec,
)

ELECTRA_NAMES = NAMES | {
    "attention.self": "mixer.qkv",
    "intermediate.dense": "hidden.0",
    "output.dense": "output",
    "embeddings_project": "project",
    "generator_predictions.dense": "prediction.transform",
    "generator_predictions.LayerNorm": "prediction.norm",
    "generator_lm_head.bias": "prediction.bias",
}
CONVBERT_NAMES = ELECTRA_NAMES | {
    "qkv.key_conv_attn_layer.bias": "pointwise.bias",
    "qkv.key_conv_attn_layer.": "",
    "qkv.conv_kernel_layer": "kernels",
    "qkv.conv_out_layer": "convolved",
}


def choices(depth: int, operation: str, **changed: Any) -> dict[str, Any]:
    layer = {
        "operation": operation,
        "num_operation_heads": 4,
        "feed_forward_dimension": 512,
        "num_feed_forward": 1,
    }
    lists = {name: [changed.get(name, value)] * depth for name, value in layer.items()}
    return {"hidden_size": changed.get("hidden_size", 256), "depth": depth, **lists}


def arch(depth: int, operation: str, **changed: Any) -> Architecture:
    return FLEXIBERT.architecture(choices(depth, operation, **changed))


def block(operation: str, heads: int = 4, stack: int = 1) -> FlexiBlock:
    shape = FlexiBlockSpec(24, 512, heads, 24, 40, operation, stack)
    network = randomised(FlexiBlock(shape))
    assert isinstance(network, FlexiBlock)
    return network


def inputs(length: int = 11) -> Tensor:
    return torch.randn(2, length, 24, generator=torch.Generator().manual_seed(2))


# ---- the operations


def test_logits_with_dot_product_attention_are_electras() -> None:
    config = ElectraConfig(
        embedding_size=8,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=40,
    )
    theirs = randomised(ElectraForMaskedLM(config))
    shape = FlexiBlockSpec(24, 512, 4, 24, 40, "sdp", 1)
    ours = FlexiBert([shape] * 2, d_embed=8)
    ours.load_state_dict(translated(theirs, ELECTRA_NAMES))
    ids = tokens(2, 7)
    torch.testing.assert_close(ours(ids), theirs(ids).logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kernel", [5, 9])
@pytest.mark.parametrize("heads", [2, 4])
def test_span_convolution_is_convberts(heads: int, kernel: int) -> None:
    config = ConvBertConfig(
        hidden_size=24,
        num_attention_heads=heads,
        head_ratio=2,
        conv_kernel_size=kernel,
        intermediate_size=40,
    )
    theirs = randomised(ConvBertLayer(config))
    state = translated(theirs, CONVBERT_NAMES)
    state["mixer.pointwise.weight"] = state["mixer.pointwise.weight"][..., 0]
    state["mixer.pointwise.bias"] = state["mixer.pointwise.bias"][:, 0]
    ours = block(f"dsc{kernel}", heads)
    ours.load_state_dict(state)
    wanted = theirs(inputs())
    wanted = wanted[0] if isinstance(wanted, tuple) else wanted
    torch.testing.assert_close(ours(inputs()), wanted, rtol=1e-4, atol=1e-4)


def test_weighted_multiplicative_attention() -> None:
    """Head by head: the scores are queries times weight times keys."""
    mixer: Any = block("wma").mixer
    x = inputs()
    query, key, value = (x @ mixer.qkv.weight.T + mixer.qkv.bias).split(24, -1)
    query = query @ mixer.weight.weight.T
    heads = [slice(6 * h, 6 * h + 6) for h in range(4)]
    wanted = [
        ((query[..., h] @ key[..., h].mT) / math.sqrt(6)).softmax(-1) @ value[..., h] for h in heads
    ]
    assert mixer.weight.bias is None
    torch.testing.assert_close(mixer(x), torch.cat(wanted, -1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("operation", ["dft", "dct"])
def test_transforms_are_numpys_and_scipys(operation: str) -> None:
    mixer: Any = block(operation, heads=2).mixer
    x = inputs()
    linear = functional.linear(x, mixer.input.weight, mixer.input.bias).detach().numpy()
    heads = [linear[..., :12].astype(np.float64), linear[..., 12:].astype(np.float64)]
    if operation == "dft":
        wanted = [np.fft.fft2(head, axes=(1, 2)).real for head in heads]
    else:
        wanted = [scipy.fft.dctn(head, type=2, axes=(1, 2)) for head in heads]
    found = mixer(x).detach().numpy()
    assert found == pytest.approx(np.concatenate(wanted, -1), rel=1e-4, abs=1e-3)


def test_three_feed_forward_layers() -> None:
    network = block("dft", stack=3)
    with torch.no_grad():
        network.proj.weight.zero_()
        network.proj.bias.zero_()
    x = network.norm1(inputs())
    hidden = x
    for layer in network.hidden:
        hidden = nn.GELU()(layer(hidden))
    assert [tuple(layer.weight.shape) for layer in network.hidden] == [(40, 24), (40, 40), (40, 40)]
    torch.testing.assert_close(network(inputs()), network.norm2(x + network.output(hidden)))


# ---- what is measured of them


@pytest.mark.parametrize(
    ("operation", "mixing"),
    [
        ("sdp", [(384, 128)]),
        ("wma", [(384, 128), (128, 128)]),
        ("dft", [(128, 128)]),
        ("dct", [(128, 128)]),
        ("dsc5", [(192, 128), (64, 128), (10, 64), (64, 128)]),
        ("dsc9", [(192, 128), (64, 128), (18, 64), (64, 128)]),
    ],
)
def test_linear_layers(operation: str, mixing: list[tuple[int, int]]) -> None:
    with torch.device("meta"):
        network = FLEXIBERT.build(arch(2, operation, hidden_size=128, num_feed_forward=3))
    shapes = [(domain, tuple(layer.weight.shape)) for domain, layer in network.layers()]
    mlp = [(512, 128), (512, 512), (512, 512), (128, 512)]
    wanted = [("msa", s) for s in [*mixing, (128, 128)]] + [("mlp", s) for s in mlp]
    assert shapes == 2 * wanted
    assert [module.heads for module in network.transformer_blocks] == [4, 4]


@pytest.mark.parametrize("operation", TOKEN_MIXERS)
def test_counts_are_those_of_the_built_network(operation: str) -> None:
    for own in (
        arch(2, operation, hidden_size=128, num_operation_heads=2, num_feed_forward=3),
        arch(4, operation, feed_forward_dimension=1024),
    ):
        with torch.device("meta"):
            network = FLEXIBERT.build(own)
        assert FLEXIBERT.params(own) == sum(p.numel() for p in network.parameters())
        with FlopCounterMode(display=False) as counter:
            network(torch.zeros(1, 512, dtype=torch.int64, device="meta"))
        assert 2 * FLEXIBERT.flops(own) == counter.get_total_flops()


@pytest.mark.parametrize("hidden_size", [128, 256])
def test_attention_alone_makes_electra_small(hidden_size: int) -> None:
    config = ElectraConfig(
        embedding_size=128, hidden_size=hidden_size, num_hidden_layers=4, intermediate_size=1024
    )
    with torch.device("meta"):
        theirs = ElectraForMaskedLM(config)
    own = arch(4, "sdp", hidden_size=hidden_size, feed_forward_dimension=1024)
    assert FLEXIBERT.params(own) == sum(p.numel() for p in theirs.parameters())


@pytest.mark.parametrize("operation", TOKEN_MIXERS)
def test_every_parameter_is_set_and_gets_a_gradient(operation: str) -> None:
    shapes = [FlexiBlockSpec(16, 512, 2, 16, 24, operation, stack) for stack in (1, 3)]
    network = FlexiBert(shapes, d_embed=8)
    network.initialise(seed=1)
    network(tokens(2, 10)).logsumexp(-1).sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.detach().abs().max() <= 1, name
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


def test_initialisation_is_normal_and_seeded() -> None:
    def weights(operation: str, seed: int) -> dict[str, Tensor]:
        own = Architecture("flexibert", choices(1, operation))
        return dict(FLEXIBERT.build(own, seed=seed).blocks[0].named_parameters())

    first, again, other = (weights("dsc9", seed) for seed in (1, 1, 2))
    for name, weight in first.items():
        assert torch.equal(weight, again[name]), name
        if name.startswith("norm"):
            continue
        if name.endswith("bias"):
            assert not weight.any(), name
        else:
            assert weight.std().item() == pytest.approx(0.02, rel=0.1), name
            assert not torch.equal(weight, other[name]), name
    weighted = weights("wma", 1)["mixer.weight.weight"]
    assert weighted.std().item() == pytest.approx(0.02, rel=0.1)


# ---- the space


def test_the_space_is_that_of_the_benchmark() -> None:
    assert FLEXIBERT.size() == 10_621_440
    assert FLEXIBERT.origins(arch(2, "dft")) is None
    smallest = FLEXIBERT.params(arch(2, "dft", hidden_size=128))
    largest = arch(4, "wma", feed_forward_dimension=1024, num_feed_forward=3)
    assert (round(smallest / 1e6), round(FLEXIBERT.params(largest) / 1e6)) == (4, 16)


def test_features_tell_halves_apart() -> None:
    changed = {"operation": ["dft", "sdp", "dsc5", "dsc5"], "num_operation_heads": [2, 4, 4, 4]}
    own = FLEXIBERT.architecture(choices(4, "sdp", num_feed_forward=3) | changed)
    log = math.log
    first = (0.5, 0, 0.5, 0, 0, 0, log(3), log(512), log(3), log(1536))
    second = (0, 0, 0, 0, 1, 0, log(4), log(512), log(3), log(1536))
    assert FLEXIBERT.features(own) == pytest.approx((log(4), log(256), *first, *second))


def test_unknown_operation() -> None:
    with pytest.raises(ArchitectureError, match=r"operation\[0\] must be one of sdp, .*dsc9, but"):
        arch(2, "fft")
