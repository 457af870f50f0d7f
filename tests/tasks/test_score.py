"""The score of a model of another library is that of a plain re-derivation."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

import autoprox
from autoprox.errors import ConfigError, MeasurementError
from autoprox.models.loading import LoadedModel, ModelError, TokenModel, import_library, load_model
from autoprox.tasks.score import Inputs

SNIP = "sum(sum(abs(mul(all.weight, all.grad))))"
SYNFLOW = "sum(sum(abs(mul(ones.all.weight, ones.all.grad))))"
TOKENS = torch.randint(200, (2, 6), generator=torch.Generator().manual_seed(0))


def gpt2() -> nn.Module:
    ends = {"bos_token_id": 1, "eos_token_id": 1}
    config = GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=200, **ends)
    return GPT2LMHeadModel(config)


def bert() -> nn.Module:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    return BertForMaskedLM(BertConfig(**sizes, intermediate_size=48, vocab_size=200))


def in_blocks(model: nn.Module) -> list[Tensor]:
    """The matrices of the blocks."""
    places = (".layer.", ".h.", "blocks.")
    named = model.named_parameters()
    return [p for name, p in named if p.ndim == 2 and any(place in name for place in places)]


def saliency(model: nn.Module) -> float:
    return sum((p * p.grad).abs().sum().item() for p in in_blocks(model))  # type: ignore[operator]


@pytest.mark.parametrize("make", [gpt2, bert])
def test_snip_of_a_language_model(make: Callable[[], nn.Module]) -> None:
    model = make().train()
    found = autoprox.score("snip", model, TOKENS, TOKENS)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert model.training
    logits = model.eval()(TOKENS).logits
    functional.cross_entropy(logits.flatten(0, 1), TOKENS.flatten()).backward()
    assert found == pytest.approx(saliency(model), rel=1e-5)


@pytest.mark.parametrize("make", [gpt2, bert])
def test_an_input_of_ones_is_one_of_embeddings(make: Callable[[], nn.Module]) -> None:
    model = make().eval()
    found = autoprox.score(SYNFLOW, model, TOKENS, TOKENS)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.abs_()
    model(inputs_embeds=torch.ones(1, 6, 32)).logits.sum().backward()
    assert found == pytest.approx(saliency(model), rel=1e-4)


def test_several_models_are_ranked_among_each_other() -> None:
    models = [bert(), gpt2(), gpt2()]
    found = autoprox.score(f"rank({SNIP})", models, TOKENS, TOKENS)
    scores = autoprox.score(SNIP, models, TOKENS, TOKENS)
    assert isinstance(scores, list)
    assert found == [1.0 + sum(other < own for other in scores) for own in scores]
    with pytest.raises(ConfigError, match="ranks needs a list of several models, but got one"):
        autoprox.score("dss++", bert(), TOKENS, TOKENS)


def test_swin_and_structure() -> None:
    model = import_library("timm").create_model(
        "swin_tiny_patch4_window7_224", img_size=56, embed_dim=16, depths=(2, 2), num_heads=(2, 4),
        num_classes=5,
    )  # fmt: skip
    images, labels = torch.randn(2, 3, 56, 56), torch.tensor([0, 4])
    patterns = {"msa": ["attn.*"], "mlp": ["mlp.*"]}
    found = autoprox.score(SNIP, model, images, labels, **patterns)
    assert found == autoprox.score(SNIP, model, images, labels)
    functional.cross_entropy(model.eval()(images), labels).backward()
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and ".blocks." in name]
    matrices = [p for p in matrices if p.shape[0] != 169]  # no tables of relative positions
    expected = sum((p * p.grad).abs().sum().item() for p in matrices)
    assert found == pytest.approx(expected, rel=1e-5)
    widths_and_tokens = "sum(mul(mul(width, tokens), heads))"
    assert autoprox.score(widths_and_tokens, model, images, labels) == pytest.approx(
        2 * 16 * 14**2 * 2 + 2 * 32 * 7**2 * 4
    )


def test_layers_that_are_not_there_are_named() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Linear(8, 2))
    given = (torch.randn(2, 3, 2, 2), torch.tensor([0, 1]))
    with pytest.raises(ModelError) as raised:
        autoprox.score("snip", model, *given)
    assert str(raised.value) == (
        "the proxy needs layers of mlp and msa, but of model 1 it finds none of a known family; "
        "name them by --mlp PATTERN and --msa PATTERN, of its linear layers *"
    )
    found = autoprox.score("sum(sum(mlp.weight))", model, *given, mlp=["1", "2"])
    assert found == pytest.approx(sum(layer.weight.sum().item() for layer in model[1:]), rel=1e-6)


@pytest.mark.parametrize("domain", ["msa", "mlp"])
def test_a_pattern_without_a_layer_is_an_error(domain: str) -> None:
    """Each pattern must match in some model; another pattern or model may match more."""
    both = {"msa": ["attn.c_attn", "attention.self.*"], "mlp": ["mlp.c_fc", "intermediate.dense"]}
    found = autoprox.score(SNIP, [gpt2(), bert()], TOKENS, TOKENS, **both)
    assert isinstance(found, list)
    wrong = {**both, domain: [*both[domain], "mlp.c_fcc"]}
    message = (
        rf"each --{domain} must match a linear layer of a model, but 'mlp.c_fcc' matches none "
        r"\(did you mean .*mlp.c_fc\?\); the layers are transformer.h.\*.attn.c_attn, "
    )
    with pytest.raises(ModelError, match=message):
        autoprox.score(SNIP, [gpt2(), bert()], TOKENS, TOKENS, **wrong)
    with pytest.raises(ModelError, match=r"but 'nothing\*' matches none; the layers are"):
        autoprox.score(SNIP, gpt2(), TOKENS, TOKENS, **{domain: ["nothing*"]})


def test_what_is_not_finite_is_nan_and_what_fails_is_told() -> None:
    model = bert()
    with torch.no_grad():
        model.cls.predictions.bias[0] = torch.nan
    assert math.isnan(autoprox.score("snip", model, TOKENS, TOKENS))  # type: ignore[arg-type]
    with pytest.raises(MeasurementError, match="model 1 can't be measured: IndexError: index out"):
        autoprox.score("snip", model, TOKENS + 200, TOKENS)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("vit", "a model must be timm:NAME, transformers:NAME or MODULE:FUNCTION, but got 'vit'"),
        ("timm:vit_tiny", "timm has no model 'vit_tiny' .did you mean"),
        ("transformers:/nowhere", "transformers can't make /nowhere: "),
        ("transformers:t5", "must have a head of ImageClassification, MaskedLM, CausalLM"),
        ("absent:model", "a model must be a function given as MODULE:FUNCTION"),
        ("builtins:list", "builtins:list must return a module, or a module with inputs"),
    ],
)
def test_a_model_that_cannot_be_loaded(reference: str, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_model(reference)


def test_kinds_of_transformers_have_random_weights_by_seed(tmp_path: Any) -> None:
    small = BertConfig(
        hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=48,
        vocab_size=400, architectures=["BertForMaskedLM"],
    )  # fmt: skip
    small.save_pretrained(tmp_path)
    first, second = (load_model(f"transformers:{tmp_path}", seed=seed) for seed in (0, 1))
    assert type(first.model) is BertForMaskedLM
    assert first.tokens == TokenModel(f"transformers:{tmp_path}", 400, 512, "masked", 103)
    state = load_model(f"transformers:{tmp_path}").model.state_dict()
    assert all(torch.equal(value, state[key]) for key, value in first.model.state_dict().items())
    assert not torch.equal(*(next(m.model.parameters()) for m in (first, second)))
    batch = Inputs(batch_size=3, length=8).batch(first)
    assert batch.inputs.shape == batch.labels.shape == (3, 8)
    assert ((batch.inputs == 103) == (batch.labels != -100)).all()
    with pytest.raises(autoprox.errors.AutoproxError, match="takes tokens, which images"):
        Inputs(images=tmp_path).batch(first)


def test_a_model_of_images_sees_as_many_classes_as_it_tells() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 7))
    batch = Inputs(batch_size=50).batch(LoadedModel("m", model, (3, 2, 2)))
    assert batch.inputs.shape == (50, 3, 2, 2)
    assert set(batch.labels.tolist()) == set(range(7))
