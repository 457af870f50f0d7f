"""Exported architectures, loaded again: the same parameters, the same outputs."""

import json
import math
import random
import re
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from helpers.bert import NAMES, randomised, tokens, translated
from helpers.sources import loaded, run_alone
from safetensors.torch import load_file
from torch import Tensor, nn

import autoprox
from autoprox.commands.export_network import export_architecture
from autoprox.export import ExportError
from autoprox.export.architecture_formats import architecture_files
from autoprox.models.model_loading import import_library
from autoprox.searchspaces import SPACES, Architecture, SearchSpace
from autoprox.searchspaces.language_model_bases import TokenSpace
from autoprox.searchspaces.swin import SwinSpace

CLASSES = 7
TIMM = {
    "class_token": "cls_token",
    r"^position": "pos_embed",
    r"^patches": "patch_embed.proj",
    r"(blocks\.\d+)\.(qkv|proj)": r"\1.attn.\2",
    r"(blocks\.\d+)\.(fc\d)": r"\1.mlp.\2",
}


def smallest(space: SearchSpace) -> Architecture:
    """The smallest of some random architectures."""
    rng = random.Random(0)
    return min((space.sample(rng) for _ in range(20)), key=space.params)


def inputs_of(space: SearchSpace) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    if isinstance(space, TokenSpace):
        return torch.randint(0, space.vocabulary, (2, 9), generator=generator)
    return torch.randn(2, *space.input_shape, generator=generator)


def exported(space: SearchSpace, architecture: Architecture, target: str, folder: Path) -> Path:
    out = folder / target
    export_architecture(architecture, target, out, CLASSES)
    return out


@pytest.mark.parametrize("name", SPACES)
def test_the_torch_file_is_the_network_of_every_space(name: str, tmp_path: Path) -> None:
    space = SPACES[name]
    architecture = smallest(space)
    source = architecture_files("torch", space, architecture, CLASSES)["network.py"]
    assert isinstance(source, str)
    assert "autoprox" not in source.replace("Written by autoprox", "")
    (tmp_path / "network.py").write_text(source)
    theirs = loaded(tmp_path / "network.py").build(seed=5)
    ours = autoprox.build(architecture, classes=CLASSES, seed=5)
    assert sum(p.numel() for p in theirs.parameters()) == space.params(architecture, CLASSES)
    ours_state, theirs_state = ours.state_dict(), theirs.state_dict()
    assert list(ours_state) == list(theirs_state)
    assert all(torch.equal(ours_state[key], theirs_state[key]) for key in ours_state)
    assert theirs.training == ours.training
    inputs = inputs_of(space)
    with torch.no_grad():
        assert torch.equal(ours(inputs), theirs(inputs))


@pytest.mark.parametrize("name", ["autoformer-nano", "gpt2-nano"])
def test_the_torch_folder_trains_without_autoprox(name: str, tmp_path: Path) -> None:
    out = exported(SPACES[name], smallest(SPACES[name]), "torch", tmp_path)
    code = "import runpy; sys.argv[0] = 'train.py'; runpy.run_path('train.py')"
    assert "step 2/2: loss" in run_alone(out, code, "--steps", "2")
    assert (out / "weights.pt").exists()
    assert len((out / "train.py").read_text().splitlines()) <= 70


@pytest.mark.parametrize("name", ["gpt2-nano", "flexibert"])
def test_a_text_that_is_too_short_is_an_error_of_one_line(name: str, tmp_path: Path) -> None:
    """A tenth of it is the test, which needs a sequence and one token more."""
    out = exported(SPACES[name], smallest(SPACES[name]), "torch", tmp_path)
    written = re.search(r"^CONTEXT = (\d+)", (out / "train.py").read_text(), re.MULTILINE)
    assert written is not None
    least = 10 * int(written[1]) + 1
    text = tmp_path / "text.txt"
    for count in (0, least - 1):
        text.write_bytes(b"a" * count)
        done = train(out, text)
        message = f"error: --text must have over {least - 1} bytes, but has {count}\n"
        assert (done.returncode, done.stderr) == (1, message)
    text.write_bytes(b"a" * least)
    assert train(out, text).returncode == 0


def train(out: Path, text: Path) -> subprocess.CompletedProcess[str]:
    """A step of the exported program."""
    given = ("--text", text, "--steps", "1", "--batch-size", "1")
    command = [sys.executable, "train.py", *map(str, given)]
    return subprocess.run(command, cwd=out, capture_output=True, text=True)


def timm_network(out: Path) -> nn.Module:
    import_library("timm")
    network: nn.Module = loaded(out / "network.py").build()
    return network.eval()


VITS = [
    (
        "autoformer-ti",
        {"hidden_dim": 192, "depth": 12, "mlp_ratio": [3.5] * 12, "num_heads": [3] * 12},
    ),
    (
        "autoformer-ti",
        {"hidden_dim": 192, "depth": 12, "mlp_ratio": [3.5, 4] * 6, "num_heads": [3, 4, 4] * 4},
    ),
    ("autoformer-nano", {"hidden_dim": 24, "depth": 2, "mlp_ratio": [1, 2], "num_heads": [1, 3]}),
]


@pytest.mark.parametrize(("name", "choices"), VITS)
def test_timms_vision_transformer(name: str, choices: dict[str, object], tmp_path: Path) -> None:
    space = SPACES[name]
    architecture = space.architecture(choices)
    theirs = timm_network(exported(space, architecture, "timm", tmp_path))
    assert sum(p.numel() for p in theirs.parameters()) == space.params(architecture, CLASSES)
    ours = randomised(space.build(architecture, CLASSES))
    theirs.load_state_dict(renamed(ours.state_dict(), TIMM))
    same_outputs(ours, theirs, inputs_of(space))


PITS = [
    ("pit", {"base_dim": 16, "mlp_ratio": 2, "depth": [2, 4, 2], "num_heads": [2, 4, 4]}),
    ("pit-nano", {"base_dim": 8, "mlp_ratio": 0.5, "depth": [1, 2, 1], "num_heads": [1, 2, 4]}),
]


@pytest.mark.parametrize(("name", "choices"), PITS)
def test_timms_pit(name: str, choices: dict[str, object], tmp_path: Path) -> None:
    space = SPACES[name]
    architecture = space.architecture(choices)
    theirs = timm_network(exported(space, architecture, "timm", tmp_path))
    assert sum(p.numel() for p in theirs.parameters()) == space.params(architecture, CLASSES)
    ours = randomised(space.build(architecture, CLASSES))
    # Both list their parameters in depth order, but for the embeddings.
    state = ours.state_dict()
    first = ["class_token", "position", "patches.weight", "patches.bias"]
    side = theirs.get_parameter("pos_embed").shape[-1]
    renamed_state = {
        "cls_token": state["class_token"],
        "pos_embed": state["position"].mT.reshape(1, -1, side, side),
        "patch_embed.conv.weight": state["patches.weight"],
        "patch_embed.conv.bias": state["patches.bias"],
    }
    rest = [value for key, value in state.items() if key not in first]
    own = [key for key in theirs.state_dict() if key not in renamed_state]
    renamed_state.update(zip(own, rest, strict=True))
    theirs.load_state_dict(renamed_state)
    same_outputs(ours, theirs, inputs_of(space))


def swin(stages: Sequence[tuple[int, Sequence[tuple[int, int, float]]]]) -> dict[str, object]:
    """The choices of a Swin: of each stage the width, of each block window, width of q, ratio."""
    choices: dict[str, object] = {}
    for stage, (width, blocks) in enumerate(stages, 1):
        windows, inner, ratios = zip(*blocks, strict=True)
        choices |= {f"embed_dim_{stage}": width, f"depth_{stage}": len(blocks)}
        choices |= {f"window_{stage}": windows, f"qkv_dim_{stage}": inner}
        choices[f"mlp_ratio_{stage}"] = ratios
    return choices


SWINS = [
    (
        "s3",
        [
            (224, [(14, 224, 3.0), (7, 288, 4.0)]),
            (288, [(7, 224, 3.5)] * 2),
            (256, [(7, 256, 3.0), (14, 256, 3.0), (7, 224, 4.0)]),
            (224, [(14, 224, 3.5)] * 2),
        ],
    ),
    (
        "swin-nano",
        [
            (16, [(2, 16, 1.0), (4, 32, 1.5), (2, 24, 2.0)]),
            (32, [(4, 24, 1.0), (2, 16, 1.5)]),
            (24, [(2, 24, 2.0), (2, 24, 2.0)]),
            (32, [(4, 16, 1.0)]),
        ],
    ),
]


def of_timms_swin(theirs: nn.Module) -> dict[str, Tensor]:
    """The parameters of timm's Swin under our names and in our order.

    The four tokens that merge stand together feature by feature, rows before columns; biases go
    by distance.
    """
    state: dict[str, Tensor] = {}
    for name, value in theirs.named_parameters():
        value = value.detach()
        if found := re.match(
            r"layers\.(\d)\.(?:blocks\.(\d+)|downsample)\.(?:attn\.|mlp\.)?", name
        ):
            stage = int(found[1]) + 1
            place = f"stage{stage}_block{found[2]}" if found[2] else f"merging{stage}"
            name = f"blocks.{place}.{name[found.end() :]}"
        name = name.replace("relative_position_bias_table", "biases.weight")
        if "merging" in name:
            value = value.unflatten(-1, (2, 2, -1)).movedim(-1, -3).mT.flatten(-3)
        elif "biases" in name:
            window = (math.isqrt(len(value)) + 1) // 2
            pairs = list(product(range(1 - window, window), repeat=2))
            order = sorted(pairs, key=lambda pair: (max(map(abs, pair)), pair))
            value = value[[pairs.index(pair) for pair in order]]
        state[name.replace("patch_embed.proj", "patches").replace("head.fc", "head")] = value
    return renamed(state, {r"^patch_embed\.norm": "patch_norm"})


@pytest.mark.parametrize(("name", "stages"), SWINS, ids=["s3", "swin-nano"])
def test_timms_swin(name: str, stages: Any, tmp_path: Path) -> None:
    """Stages of any widths; blocks with windows, heads and MLPs of their own."""
    space = SPACES[name]
    architecture = space.architecture(swin(stages))
    theirs = timm_network(exported(space, architecture, "timm", tmp_path))
    assert type(theirs).__name__ == "SwinTransformer"
    assert sum(p.numel() for p in theirs.parameters()) == space.params(architecture, CLASSES)
    assert theirs.get_submodule("layers.1.blocks.0.mlp.fc1").weight.std() > 0.01
    ours = space.build(architecture, CLASSES)
    ours.load_state_dict(of_timms_swin(randomised(theirs)))
    same_outputs(ours, theirs, inputs_of(space))


def test_timms_swin_has_windows_that_divide_the_grid() -> None:
    """timm attends to the padding of others."""
    space = SPACES["swin-nano"]
    assert isinstance(space, SwinSpace)
    wider = space.with_options({**space.options, "window_1": (3,)})
    choices = swin([(16, [(3, 16, 1.0)])] + [(16, [(2, 16, 1.0)])] * 3)
    rule = "swin-nano whose windows don't divide the grid, as 3 tokens don't divide 16: use torch"
    with pytest.raises(ExportError, match=rule):
        architecture_files("timm", wider, wider.architecture(choices), CLASSES)


@pytest.mark.parametrize("name", ["autoformer-supernet-ti", "shunted", "bert", "gpt2-nano"])
def test_what_timm_has_not_is_an_error(name: str) -> None:
    rule = f"timm has no network like those of {name}: use torch"
    with pytest.raises(ExportError, match=rule):
        architecture_files("timm", SPACES[name], smallest(SPACES[name]), CLASSES)


def test_a_uniform_bert_is_transformers_own(tmp_path: Path) -> None:
    space = SPACES["bert"]
    architecture = space.architecture({"depth": 6, "mlp_size": [512] * 6, "num_heads": [8] * 6})
    out = exported(space, architecture, "transformers", tmp_path)
    theirs = loaded(out / "network.py").build()
    assert type(theirs) is transformers.BertForMaskedLM
    assert sum(p.numel() for p in theirs.parameters()) == space.params(architecture)
    ours = space.build(architecture)
    ours.load_state_dict(translated(randomised(theirs), NAMES), strict=True)
    same_outputs(ours, theirs, tokens(2, 9))


def test_a_uniform_gpt2_is_transformers_own(tmp_path: Path) -> None:
    space = SPACES["gpt2"]
    choices = {"n_layer": 2, "d_embed": 128, "d_model": [128] * 2, "d_inner": [320] * 2}
    architecture = space.architecture({**choices, "n_head": [4] * 2})
    out = exported(space, architecture, "transformers", tmp_path)
    theirs = loaded(out / "network.py").build().eval()
    assert type(theirs) is transformers.GPT2LMHeadModel
    assert sum(p.numel() for p in theirs.parameters()) == space.params(architecture)
    ours = randomised(space.build(architecture))
    names = {
        "embedding": "transformer.wte",
        r"^position$": "transformer.wpe.weight",
        r"^norm\.": "transformer.ln_f.",
        r"^blocks\.(\d+)\.norm(\d)": r"transformer.h.\1.ln_\2",
        r"^blocks\.(\d+)\.qkv": r"transformer.h.\1.attn.c_attn",
        r"^blocks\.(\d+)\.proj": r"transformer.h.\1.attn.c_proj",
        r"^blocks\.(\d+)\.fc1": r"transformer.h.\1.mlp.c_fc",
        r"^blocks\.(\d+)\.fc2": r"transformer.h.\1.mlp.c_proj",
    }
    state = renamed(ours.state_dict(), names)
    turned = {k: v.T if ".c_" in k and v.ndim == 2 else v for k, v in state.items()}
    missing = theirs.load_state_dict(turned, strict=False)
    assert missing.missing_keys == ["lm_head.weight"]
    theirs.tie_weights()
    same_outputs(ours, theirs, inputs_of(space))


@pytest.mark.parametrize(
    ("name", "auto"),
    [
        ("autoformer-nano", "AutoModelForImageClassification"),
        ("flexibert", "AutoModelForMaskedLM"),
        ("gpt2-nano", "AutoModelForCausalLM"),
    ],
)
def test_any_other_network_is_a_model_of_its_own(
    name: str, auto: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "hf"))
    space = SPACES[name]
    architecture = smallest(space)
    out = exported(space, architecture, "transformers", tmp_path)
    ours = space.build(architecture, CLASSES)
    inputs = inputs_of(space)
    labels = inputs if isinstance(space, TokenSpace) else torch.tensor([0, 1])
    for kind in ("AutoModel", auto):
        theirs = getattr(transformers, kind).from_pretrained(out, trust_remote_code=True)
        assert sum(p.numel() for p in theirs.parameters()) == space.params(architecture, CLASSES)
        same_outputs(ours, theirs, inputs)
    logits, targets = ours(inputs), labels
    if auto == "AutoModelForCausalLM":
        logits, targets = logits[:, :-1], labels[:, 1:]
    loss = nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten())
    assert theirs(inputs, labels=labels).loss.item() == pytest.approx(loss.item(), rel=1e-5)
    saved = load_file(out / "model.safetensors")
    assert {f"network.{key}" for key in ours.state_dict()} == set(saved)
    assert json.loads((out / "config.json").read_text())["architecture"] == architecture.to_json()


def renamed(state: dict[str, Tensor], names: dict[str, str]) -> dict[str, Tensor]:
    found = {}
    for key, value in state.items():
        for pattern, name in names.items():
            key = re.sub(pattern, name, key)
        found[key] = value
    return found


def same_outputs(ours: nn.Module, theirs: nn.Module, inputs: Tensor) -> None:
    with torch.no_grad():
        found = theirs.eval()(inputs)
        expected = ours.eval()(inputs)
    torch.testing.assert_close(getattr(found, "logits", found), expected, rtol=1e-4, atol=1e-4)
