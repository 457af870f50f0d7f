"""The score of a model of another library is that of a plain re-derivation."""

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.commands import Command
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

import autoprox
from autoprox.commands import score as score_module
from autoprox.commands.score import ModelInputs
from autoprox.errors import ConfigError, MeasurementError
from autoprox.models import memory_estimate
from autoprox.models.model_loading import (
    LoadedModel,
    ModelError,
    TokenInput,
    import_library,
    load_model,
)

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
    assert first.tokens == TokenInput(f"transformers:{tmp_path}", 400, 512, "masked", 103)
    state = load_model(f"transformers:{tmp_path}").model.state_dict()
    assert all(torch.equal(value, state[key]) for key, value in first.model.state_dict().items())
    assert not torch.equal(*(next(m.model.parameters()) for m in (first, second)))
    batch = ModelInputs(batch_size=3, length=8).batch(first)
    assert batch.inputs.shape == batch.labels.shape == (3, 8)
    assert ((batch.inputs == 103) == (batch.labels != -100)).all()
    with pytest.raises(autoprox.errors.AutoproxError, match="takes tokens, which images"):
        ModelInputs(images=tmp_path).batch(first)


def test_a_model_of_images_sees_as_many_classes_as_it_tells() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 7))
    batch = ModelInputs(batch_size=50).batch(LoadedModel("m", model, (3, 2, 2)))
    assert batch.inputs.shape == (50, 3, 2, 2)
    assert set(batch.labels.tolist()) == set(range(7))


def test_a_model_that_the_memory_cannot_hold_is_not_built(
    run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was killed after a minute without a word; sizes by the published counts."""
    monkeypatch.setattr(score_module, "available_memory", lambda: 24 * 10**9)
    started = time.monotonic()
    result = run("score", "--proxy", "snip", "--model", "transformers:llama")
    assert (result.code, result.err.count("\n")) == (1, 1)
    least = 4 * 6_738_415_616 * 3.5 / 1e9
    assert f"with 6.738G parameters takes at least {least:.2f}GB of memory" in result.err
    assert "of which 24GB are available; score a smaller model" in result.err
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("proxy", ["snip", "sum(sum(abs(all.weight)))"])
@pytest.mark.parametrize("compared", [1, 2])
def test_the_memory_that_a_score_takes(
    run: Command, monkeypatch: pytest.MonkeyPatch, proxy: str, compared: int
) -> None:
    """3.5 or 2.5 times the parameters of the larger, and those of the other: one byte less is too
    little, as many are enough."""
    ti, bert_ = 4 * 5_717_416, 4 * 109_514_298
    factor = 3.5 if proxy == "snip" else 2.5
    models = ["--model", "timm:vit_tiny_patch16_224"]
    needed = factor * ti
    if compared == 2:
        models += ["--compare", "transformers:bert"]
        needed = factor * bert_ + ti
    given = ("score", "--proxy", proxy, *models, "--batch-size", "1")
    if proxy == "snip" and compared == 1:
        needed = max(needed, 2 * ti + outputs_of_vit_tiny())
    monkeypatch.setattr(score_module, "available_memory", lambda: int(needed) - 1)
    assert "takes at least" in run(*given).err
    monkeypatch.setattr(score_module, "available_memory", lambda: int(needed))
    assert run(*given).code == 0


def outputs_of_vit_tiny() -> int:
    """The bytes of the outputs of the layers for one image, counted by hand."""
    model = import_library("timm").create_model("vit_tiny_patch16_224").eval()
    found: list[int] = []
    for module in model.modules():
        if not list(module.children()):
            module.register_forward_hook(lambda m, i, output: found.append(output.numel()))
    with torch.no_grad():
        model(torch.zeros(1, 3, 224, 224))
    return 4 * sum(found)


def test_what_the_activations_take_is_counted(
    run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(score_module, "available_memory", lambda: 10**9)
    given = ("score", "--proxy", "snip", "--model", "timm:vit_tiny_patch16_224")
    result = run(*given, "--batch-size", "1000")
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert "takes at least" in result.err


def test_a_function_that_returns_too_large_a_model_is_not_measured(
    run: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What it built is there already; measuring it takes 2.5 times as much again."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vast.py").write_text(
        "from timm.models import VisionTransformer\n\n\ndef make():\n"
        "    return VisionTransformer(embed_dim=48, depth=2, num_heads=2, num_classes=2)\n"
    )
    params = 4 * sum(p.numel() for p in load_model("vast:make").model.parameters())
    given = ("score", "--proxy", "snip", "--model", "vast:make")
    monkeypatch.setattr(score_module, "available_memory", lambda: int(2.5 * params) - 1)
    assert "a score of vast:make with" in run(*given).err
    monkeypatch.setattr(score_module, "available_memory", lambda: int(2.5 * params) + 1)
    assert run(*given).code == 0


def test_memory_is_what_the_system_and_the_container_leave(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    files = {name: tmp_path / name for name in ("meminfo", "limit", "used")}
    files["meminfo"].write_text("MemTotal: 9 kB\nMemAvailable:    5 kB\n")
    monkeypatch.setattr(memory_estimate, "MEMINFO", files["meminfo"])
    monkeypatch.setattr(memory_estimate, "LIMITS", [(files["limit"], files["used"])])
    assert memory_estimate.available_memory() == 5 * 1024
    files["used"].write_text("1000\n")
    for limit, expected in (("max", 5 * 1024), ("4000\n", 3000), ("99999", 5 * 1024)):
        files["limit"].write_text(limit)
        assert memory_estimate.available_memory() == expected
    files["meminfo"].write_text("")
    files["limit"].write_text("max")
    assert memory_estimate.available_memory() is None


FUNCTIONS = """
import torch
from torch import nn
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel, ViTConfig
from transformers import ViTForImageClassification

SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}

def gpt2():
    ends = {"bos_token_id": 1, "eos_token_id": 1}
    return GPT2LMHeadModel(
        GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=300, n_positions=40, **ends)
    )

def bert():
    return BertForMaskedLM(BertConfig(**SIZES, intermediate_size=48, vocab_size=300))

def vit():
    config = ViTConfig(**SIZES, intermediate_size=48, image_size=32, patch_size=16, num_labels=3)
    return ViTForImageClassification(config)

class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(90, 8)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1, enable_nested_tensor=False
        )
        self.logits = nn.Linear(8, 90)

    def forward(self, tokens):
        return self.logits(self.encoder(self.words(tokens)))

class Classifier(Own):
    def forward(self, tokens):
        return super().forward(tokens).mean(1)

class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(7, 2)

    def forward(self, values):
        return self.layer(values)
"""


@pytest.fixture
def functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "several", raising=False)
    (tmp_path / "several.py").write_text(FUNCTIONS)


@pytest.mark.parametrize(
    ("name", "shape", "most"),
    [
        ("gpt2", (3, 40), 300),
        ("bert", (3, 64), 300),
        ("Own", (3, 64), 90),
        ("vit", (3, 3, 32, 32), None),
    ],
)
def test_a_function_returns_a_model_of_any_input(
    functions: None, run: Command, name: str, shape: tuple[int, ...], most: int | None
) -> None:
    """Tokens below the vocabulary, at most as many as the context; or images of its size."""
    inputs = ModelInputs(batch_size=3).batch(load_model(f"several:{name}")).inputs
    assert tuple(inputs.shape) == shape
    if most is not None:
        assert inputs.dtype == torch.int64
        assert 0 <= int(inputs.min()) <= int(inputs.max()) < most
    result = run("score", "--proxy", "snip", "--model", f"several:{name}", "--json")
    assert result.code == 0, result.err
    assert result.json["models"][0]["score"] > 0


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Odd", "several:Odd must map images [3, 224, 224] to logits, but RuntimeError: mat1 "),
        ("Classifier", "several:Classifier can't be measured: ValueError: Expected input batch"),
    ],
)
def test_a_function_whose_model_takes_something_else(
    functions: None, run: Command, name: str, message: str
) -> None:
    result = run("score", "--proxy", "snip", "--model", f"several:{name}")
    assert result.code in (1, 2)
    assert result.err.startswith(f"error: {message}")
    assert result.err.count("\n") == 1
