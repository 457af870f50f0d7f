"""Which layers are measured of the models of other libraries."""

import pytest
import torch
from torch import nn
from transformers import (
    BertConfig,
    BertForMaskedLM,
    DistilBertConfig,
    DistilBertForMaskedLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    RobertaConfig,
    RobertaForMaskedLM,
    ViTConfig,
    ViTForImageClassification,
)

from autoprox.models.measured_layers import (
    block_heads,
    block_layers,
    block_tokens,
    block_widths,
    find_layers,
    find_model_family,
    layer_weights,
)
from autoprox.models.model_adapter import conv1d_to_linear
from autoprox.models.model_loading import import_library
from autoprox.searchspaces import SPACES

SIZES = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "vocab_size": 200,
}
TOKENS = torch.arange(10).view(2, 5) + 3


def bert() -> nn.Module:
    return BertForMaskedLM(BertConfig(**SIZES))


def roberta() -> nn.Module:
    return RobertaForMaskedLM(RobertaConfig(**SIZES))


def distilbert() -> nn.Module:
    config = DistilBertConfig(dim=32, n_layers=2, n_heads=4, hidden_dim=64, vocab_size=200)
    return DistilBertForMaskedLM(config)


def gpt2() -> nn.Module:
    ends = {"bos_token_id": 1, "eos_token_id": 1}
    return GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=200, **ends))


def llama() -> nn.Module:
    return LlamaForCausalLM(LlamaConfig(**SIZES))


def vit() -> nn.Module:
    sizes = {name: size for name, size in SIZES.items() if name != "vocab_size"}
    return ViTForImageClassification(ViTConfig(**sizes, image_size=32))


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)


@pytest.mark.parametrize(
    ("make", "family", "msa", "shapes"),
    [
        (bert, "bert", 4, {(32, 32), (64, 32), (32, 64)}),
        (roberta, "bert", 4, {(32, 32), (64, 32), (32, 64)}),
        (distilbert, "distilbert", 4, {(32, 32), (64, 32), (32, 64)}),
        (gpt2, "gpt2", 2, {(96, 32), (32, 32), (128, 32), (32, 128)}),
        (llama, "llama", 4, {(32, 32), (64, 32), (32, 64)}),
        (vit, "vit", 4, {(32, 32), (64, 32), (32, 64)}),
        (encoder, "torch", 2, {(96, 32), (32, 32), (64, 32), (32, 64)}),
    ],
)
def test_families(make, family, msa, shapes):
    model = conv1d_to_linear(make())
    layers = find_layers(model)
    assert find_model_family(model) == family
    domains = list(layers.values())
    assert domains == ([*["msa"] * msa, *["mlp"] * (domains.count("mlp") // 2)]) * 2
    matrices = layer_weights(model)
    assert {tuple(matrices[name].shape) for name in layers} == shapes
    assert list(map(len, block_layers(layers).values())) == [len(layers) // 2] * 2
    inputs = torch.randn(2, 5, 32) if family == "torch" else TOKENS
    inputs = torch.randn(2, 3, 32, 32) if family == "vit" else inputs
    assert block_widths(model, layers) == [32, 32]
    assert block_heads(model, layers) == [4, 4]
    assert block_tokens(model, layers, inputs) == [1 + 2 * 2 if family == "vit" else 5] * 2


@pytest.mark.parametrize(
    ("name", "params", "counts", "width"),
    [
        ("vit_tiny_patch16_224", 5.717, [4] * 12, [192] * 12),
        ("deit_tiny_patch16_224", 5.717, [4] * 12, [192] * 12),
        ("pit_ti_224", 4.85, [4] * 12, [64] * 2 + [128] * 6 + [256] * 4),
        (
            "swin_tiny_patch4_window7_224",
            28.288,
            [4] * 12,
            [96] * 2 + [192] * 2 + [384] * 6 + [768] * 2,
        ),
    ],
)
def test_models_of_timm(name, params, counts, width):
    with torch.device("meta"):
        model = import_library("timm").create_model(name)
    layers = find_layers(model)
    assert find_model_family(model) == "timm"
    assert list(map(len, block_layers(layers).values())) == counts
    assert block_widths(model, layers) == width
    assert sum(p.numel() for p in model.parameters()) / 1e6 == pytest.approx(params, abs=5e-3)


@pytest.mark.parametrize("name", SPACES)
def test_the_networks_of_all_spaces_are_found_by_name(name):
    space = SPACES[name]
    with torch.device("meta"):
        network = space.network(space.largest(), 5)
    names = {id(module): name for name, module in network.named_modules()}
    expected = {names[id(layer)]: domain for domain, layer in network.layers()}
    found = find_layers(network)
    if "msa" not in expected.values():  # a network of convolutions
        assert found == {}
        return
    assert found == expected
    assert list(found) == list(expected)
    assert len(block_layers(found)) == len(network.transformer_blocks)


def test_a_user_names_the_layers():
    model = nn.ModuleDict({"trunk": encoder(), "head": nn.Linear(32, 3)})
    patterns = {"msa": ["trunk.*.out_proj"], "mlp": ["layers.1.*", "head"]}
    assert find_layers(model, patterns) == {
        "trunk.layers.0.self_attn.out_proj": "msa",
        "trunk.layers.1.self_attn.in_proj": "mlp",
        "trunk.layers.1.self_attn.out_proj": "msa",
        "trunk.layers.1.linear1": "mlp",
        "trunk.layers.1.linear2": "mlp",
        "head": "mlp",
    }


def test_a_model_of_no_family_has_no_layers():
    assert find_layers(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 2))) == {}


def test_linear_layers_in_place_of_transposed_ones_change_nothing():
    model = gpt2().eval()
    copied = conv1d_to_linear(model)
    assert copied is not model
    assert not any(type(module).__name__ == "Conv1D" for module in copied.modules())
    torch.testing.assert_close(copied(TOKENS).logits, model(TOKENS).logits)
    other = bert()
    assert conv1d_to_linear(other) is other
