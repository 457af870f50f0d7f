"""GPT-2 against the network of transformers, and blocks of mixed widths against torch's layers."""

import json
import math
import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode
from transformers import GPT2Config, GPT2LMHeadModel

from autoprox.searchspaces.gpt2 import GPT2, GPT2Block, GPT2Network
from autoprox.searchspaces.space import Architecture, ArchitectureError

VOCABULARY = 50257 + 7  # that of ETAS has seven tokens more
SMALL = {
    "n_layer": 12,
    "d_embed": 768,
    "d_model": [768] * 12,
    "d_inner": [3072] * 12,
    "n_head": [12] * 12,
}


def architecture(d_embed: int, *blocks: tuple[int, int, int]) -> Architecture:
    """A network that needn't be in the space, of (width, inner width, heads) of each block."""
    widths, inner, heads = zip(*blocks, strict=True)
    choices = {"d_embed": d_embed, "d_model": widths, "d_inner": inner, "n_head": heads}
    return Architecture("gpt2", {"n_layer": len(blocks), **choices})


def samples(n: int) -> list[Architecture]:
    rng = random.Random(0)
    return [GPT2.sample(rng) for _ in range(n)]


def on_meta(arch: Architecture) -> GPT2Network:
    with torch.device("meta"):
        return GPT2.network(arch, 0)


def published(arch: Architecture) -> GPT2LMHeadModel:
    """The network of transformers for an architecture whose widths are all the same."""
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_layer=arch["n_layer"],
        n_embd=arch["d_embed"],
        n_head=arch["n_head"][0],
        n_inner=arch["d_inner"][0],
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
    )
    return GPT2LMHeadModel(config)


def randomised(arch: Architecture) -> GPT2Network:
    """The network with biases and norms that aren't at their neutral values."""
    network = GPT2.build(arch)
    assert isinstance(network, GPT2Network)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in network.parameters():
            p.add_(torch.randn(p.shape, generator=generator), alpha=0.1)
    return network


def tokens(batch: int, length: int) -> Tensor:
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(2))


def test_gpt2_small_is_in_the_space() -> None:
    arch = GPT2.architecture(SMALL)
    with torch.device("meta"):
        original = published(arch)
    count = sum(p.numel() for p in original.parameters())
    assert GPT2.params(arch) == count == 124_439_808 + 7 * 768
    assert sum(p.numel() for p in on_meta(arch).parameters()) == count


@torch.no_grad()
def test_forward_is_that_of_transformers() -> None:
    arch = architecture(48, (48, 112, 4), (48, 112, 4))
    network, original = randomised(arch), published(arch)
    state = {"transformer.wte.weight": network.embedding.weight}
    state["transformer.wpe.weight"] = network.position
    names = {"norm1": "ln_1", "norm2": "ln_2", "qkv": "attn.c_attn", "proj": "attn.c_proj"}
    names |= {"fc1": "mlp.c_fc", "fc2": "mlp.c_proj"}
    for i, block in enumerate(network.transformer_blocks):
        for ours, theirs in names.items():
            for kind, p in block.get_submodule(ours).named_parameters():
                state[f"transformer.h.{i}.{theirs}.{kind}"] = p.T if p.ndim == 2 else p
    for kind, p in network.norm.named_parameters():
        state[f"transformer.ln_f.{kind}"] = p
    state["lm_head.weight"] = network.embedding.weight
    original.load_state_dict(state)
    original.eval()
    ids = tokens(2, 9)
    torch.testing.assert_close(network(ids), original(ids).logits, rtol=1e-4, atol=1e-4)


def torch_layer(block: GPT2Block) -> nn.TransformerEncoderLayer:
    """The block as PyTorch's own layer."""
    layer = nn.TransformerEncoderLayer(
        block.fc1.in_features,
        block.heads,
        block.fc1.out_features,
        0.0,
        lambda x: functional.gelu(x, approximate="tanh"),
        batch_first=True,
        norm_first=True,
    )
    state = {"self_attn.in_proj_weight": block.qkv.weight, "self_attn.in_proj_bias": block.qkv.bias}
    names = {"self_attn.out_proj": "proj", "linear1": "fc1", "linear2": "fc2"}
    for theirs, ours in (names | {"norm1": "norm1", "norm2": "norm2"}).items():
        for kind, p in block.get_submodule(ours).named_parameters():
            state[f"{theirs}.{kind}"] = p
    layer.load_state_dict(state)
    return layer


@torch.no_grad()
def test_blocks_of_different_widths_are_joined_by_linear_layers() -> None:
    """A layer at the entry, one between blocks two and three, one at the exit."""
    arch = architecture(24, (16, 40, 4), (16, 36, 2), (32, 72, 8))
    network = randomised(arch)
    linears = [layer for layer in network.blocks if isinstance(layer, nn.Linear)]
    assert [(j.in_features, j.out_features) for j in linears] == [(24, 16), (16, 32), (32, 24)]
    mask = torch.full((7, 7), -math.inf).triu(1)
    embedded = torch.randn(2, 7, 24, generator=torch.Generator().manual_seed(3))

    entry, between, exit_ = linears
    first, second, third = (torch_layer(block) for block in network.transformer_blocks)
    x = entry(embedded + network.position[:7])
    x = second(first(x, src_mask=mask), src_mask=mask)
    x = exit_(third(between(x), src_mask=mask))
    x = functional.layer_norm(x, (24,), network.norm.weight, network.norm.bias)
    wanted = x @ network.embedding.weight.T
    torch.testing.assert_close(network(embedded), wanted, rtol=1e-4, atol=1e-4)


@torch.no_grad()
def test_a_token_is_predicted_from_those_before() -> None:
    network = randomised(architecture(16, (32, 72, 2), (16, 40, 2)))
    ids = tokens(1, 6)
    changed = ids.clone()
    changed[0, 4] += 1
    before, after = network(ids), network(changed)
    torch.testing.assert_close(before[:, :4], after[:, :4])
    assert (before[:, 4:] - after[:, 4:]).abs().amax(-1).min() > 1e-3


def test_params_and_flops_are_those_of_the_built_network() -> None:
    for arch in [*samples(3), GPT2.largest()]:
        network = on_meta(arch)
        assert GPT2.params(arch) == sum(p.numel() for p in network.parameters())
        with FlopCounterMode(display=False) as counter:
            network(torch.empty(1, *GPT2.input_shape, dtype=torch.int64, device="meta"))
        assert 2 * GPT2.flops(arch) == counter.get_total_flops()


def test_initial_weights_are_gpt2s() -> None:
    arch = architecture(128, (256, 1024, 4), (128, 512, 4))
    network = GPT2.build(arch, seed=5)
    assert isinstance(network, GPT2Network)
    residual, rest = [], [network.embedding.weight, network.position]
    for block in network.transformer_blocks:
        residual += [block.get_parameter("proj.weight"), block.get_parameter("fc2.weight")]
        rest += [block.get_parameter("qkv.weight"), block.get_parameter("fc1.weight")]
    rest += [layer.weight for layer in network.blocks if isinstance(layer, nn.Linear)]
    assert len(rest) == 2 + 4 + 2
    for weight in rest:
        assert weight.std().item() == pytest.approx(0.02, rel=0.02)
    for weight in residual:
        assert weight.std().item() == pytest.approx(0.02 / math.sqrt(2 * 2), rel=0.02)
    for name, p in network.named_parameters():
        if name.endswith("bias"):
            assert not p.any(), name
        elif "norm" in name:
            assert (p == 1).all(), name


def test_weights_depend_on_the_seed_alone() -> None:
    arch = architecture(16, (32, 72, 2))
    first, again, other = (GPT2.build(arch, seed=seed).state_dict() for seed in (1, 1, 2))
    for name, p in first.items():
        constant = name.endswith("bias") or "norm" in name
        assert torch.equal(p, again[name]), name
        assert torch.equal(p, other[name]) == constant, name


def test_every_parameter_gets_a_gradient() -> None:
    network = GPT2.build(architecture(16, (32, 72, 2), (16, 40, 2)))
    network(tokens(1, 8)).logsumexp(-1).sum().backward()
    for name, p in network.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name
        assert p.grad.any(), name


def test_samples_obey_the_rules_between_fields() -> None:
    drawn = samples(200)
    layers = [
        layer
        for arch in drawn
        for layer in zip(arch["d_model"], arch["d_inner"], arch["n_head"], strict=True)
    ]
    assert all(inner > 2 * width and width % heads == 0 for width, inner, heads in layers)
    assert {heads for _, _, heads in layers} == {2, 4, 8, 12}
    assert {width for width, _, _ in layers} == set(range(128, 1025, 64))
    assert {arch["n_layer"] for arch in drawn} == set(range(2, 17))


def test_size_counts_layers() -> None:
    layers = sum(
        2 * width < inner and width % heads == 0
        for width in range(2 * 64, 17 * 64, 64)
        for inner in range(4 * 64, 65 * 64, 64)
        for heads in (2, 4, 8, 12)
    )
    assert GPT2.size() == 4 * sum(layers**depth for depth in range(2, 17))


def test_json_is_readable() -> None:
    text = json.dumps(GPT2.architecture(SMALL).to_json())
    data = json.loads(text)
    assert data == {"space": "gpt2", "choices": SMALL}
    assert GPT2.architecture(data["choices"]) == GPT2.architecture(SMALL)


def test_blocks_are_slices_of_the_largest_networks() -> None:
    whole = GPT2.blocks(GPT2.largest())
    assert (len(whole), whole[0].width, whole[0].hidden) == (16, 1024, 4096)
    for arch in samples(20):
        origins = GPT2.origins(arch)
        assert origins == tuple(range(arch["n_layer"]))
        for block, origin in zip(GPT2.blocks(arch), origins, strict=True):
            assert block.width == block.inner <= whole[origin].width
            assert block.hidden <= whole[origin].hidden


def test_features_tell_apart_what_the_fields_choose() -> None:
    arch = architecture(256, (128, 320, 2), (256, 640, 4), (512, 1280, 8))
    wanted = [3, 128, 256, 512, 2, 4, 8, 2.5, 2.5, 2.5, 256]
    assert GPT2.features(arch) == pytest.approx([math.log(x) for x in wanted])
    columns = zip(*(GPT2.features(a) for a in samples(30)), strict=True)
    assert all(len(set(column)) > 1 for column in columns)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"d_embed": 192}, r"^d_embed must be one of 128, 256, 512, 768, but got 192$"),
        ({"n_layer": 17}, r"^n_layer must be one of 2, 3, .*, 16, but got 17$"),
        ({"d_inner": [1536] * 12}, r"^d_inner\[0\] must be one of 1600, 1664, .* but got 1536$"),
        ({"d_model": [*[768] * 3, 1024, *[768] * 8]}, r"^n_head\[3\] must be one of 2, 4, 8, but"),
    ],
)
def test_wrong_choices_are_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ArchitectureError, match=message):
        GPT2.architecture(SMALL | changes)
