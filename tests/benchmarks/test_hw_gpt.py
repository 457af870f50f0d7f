"""HW-GPT-Bench: its networks against GPT-NeoX, its surrogate against a few lines of numpy."""

import hashlib
import io
import json
import math
import os
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import kendalltau
from torch import Tensor
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

from autoprox.benchmarks import load_benchmark
from autoprox.benchmarks.benchmark import BenchmarkError, BenchmarkSelection, assemble_benchmark
from autoprox.benchmarks.data_files import read_verified_file
from autoprox.benchmarks.hw_gpt_bench import HW_GPT_BENCH, load_hw_gpt_surrogate
from autoprox.benchmarks.hw_gpt_surrogate import PerplexitySurrogate
from autoprox.searchspaces.gpt2 import GPT2_HW, HWGPTNetwork
from autoprox.searchspaces.space import Architecture, ArchitectureError

DATA = os.environ.get("AUTOPROX_DATA")
needs_data = pytest.mark.skipif(
    DATA is None or not Path(DATA, "hw-gpt-bench").is_dir(),
    reason="needs the file of hw-gpt-bench: set AUTOPROX_DATA to a folder that has it",
)
CHOICES = {
    "embed_dim": 384,
    "n_layer": 10,
    "mlp_ratio": [2, 3, 4, 2, 2, 3, 3, 4, 4, 2],
    "n_head": [4, 8, 12, 12, 12, 8, 8, 4, 4, 4],
    "bias": False,
}


def architecture(width: int, ratios: list[int], heads: list[int], bias: bool) -> Architecture:
    """A network that needn't be in the space."""
    choices = {"embed_dim": width, "mlp_ratio": ratios, "n_head": heads, "bias": bias}
    return Architecture("gpt2-hw", {"n_layer": len(heads), **choices})


def samples(n: int) -> list[Architecture]:
    rng = random.Random(0)
    return [GPT2_HW.sample(rng) for _ in range(n)]


def on_meta(arch: Architecture) -> HWGPTNetwork:
    with torch.device("meta"):
        return GPT2_HW.network(arch, 0)


def randomised(arch: Architecture) -> HWGPTNetwork:
    """The network with biases and norms that aren't at their neutral values."""
    network = GPT2_HW.build(arch)
    assert isinstance(network, HWGPTNetwork)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in network.parameters():
            p.add_(torch.randn(p.shape, generator=generator), alpha=0.1)
    return network


def tokens(batch: int, length: int) -> Tensor:
    return torch.randint(50304, (batch, length), generator=torch.Generator().manual_seed(2))


# ---- the networks


def neox(arch: Architecture) -> GPTNeoXForCausalLM:
    """GPT-NeoX, which has the same heads as our network where they fill the width."""
    config = GPTNeoXConfig(
        vocab_size=50304,
        hidden_size=arch["embed_dim"],
        num_hidden_layers=arch["n_layer"],
        num_attention_heads=arch["n_head"][0],
        intermediate_size=arch["embed_dim"] * arch["mlp_ratio"][0],
        max_position_embeddings=1024,
        rotary_pct=0.5,
        tie_word_embeddings=True,
    )
    return GPTNeoXForCausalLM(config)


@torch.no_grad()
def test_forward_is_that_of_gpt_neox() -> None:
    """It has the query, key and value of a head next to each other; ours are by kind."""

    def by_head(p: Tensor) -> Tensor:
        return p.unflatten(0, (3, 2, 64)).transpose(0, 1).flatten(0, 2)

    arch = architecture(128, [3, 3], [2, 2], bias=True)
    network, original = randomised(arch), neox(arch)
    names = {"norm1": "input_layernorm", "norm2": "post_attention_layernorm"}
    names |= {"qkv": "attention.query_key_value", "proj": "attention.dense"}
    names |= {"fc1": "mlp.dense_h_to_4h", "fc2": "mlp.dense_4h_to_h"}
    values = {"embed_in.weight": network.embedding.weight}
    for kind, p in network.norm.named_parameters():
        values[f"final_layer_norm.{kind}"] = p
    for i, block in enumerate(network.transformer_blocks):
        for ours, theirs in names.items():
            for kind, p in block.get_submodule(ours).named_parameters():
                values[f"layers.{i}.{theirs}.{kind}"] = by_head(p) if ours == "qkv" else p
    parameters = dict(original.named_parameters())
    assert parameters.keys() == {f"gpt_neox.{name}" for name in values}
    for name, value in values.items():
        parameters[f"gpt_neox.{name}"].copy_(value)
    original.eval()
    ids = tokens(2, 11)
    torch.testing.assert_close(network(ids), original(ids).logits, rtol=1e-4, atol=1e-4)


def turned(x: Tensor) -> Tensor:
    """Rotary positions as RoFormer writes them, in complex numbers: x [length, 64] of one head."""
    pairs = torch.complex(x[:, :16], x[:, 16:32])
    frequencies = torch.tensor([10_000 ** (-2 * i / 32) for i in range(16)])
    angles = torch.arange(len(x))[:, None] * frequencies
    pairs = pairs * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([pairs.real, pairs.imag, x[:, 32:]], 1)


@torch.no_grad()
def test_a_head_has_64_dimensions_whatever_the_width() -> None:
    network = randomised(architecture(24, [2, 4], [4, 1], bias=False))
    x = embedded = torch.randn(9, 24, generator=torch.Generator().manual_seed(3))

    def norm(x: Tensor, layer: torch.nn.Module) -> Tensor:
        return functional.layer_norm(x, (24,), layer.weight, layer.bias)

    mask = torch.full((9, 9), -math.inf).triu(1)
    for block, heads in zip(network.transformer_blocks, (4, 1), strict=True):
        query, key, value = (norm(x, block.norm1) @ block.qkv.weight.T).chunk(3, -1)
        outputs = []
        for q, k, v in zip(*(part.split(64, -1) for part in (query, key, value)), strict=True):
            outputs.append((turned(q) @ turned(k).T / 8 + mask).softmax(-1) @ v)
        assert len(outputs) == heads
        hidden = functional.gelu(norm(x, block.norm2) @ block.fc1.weight.T) @ block.fc2.weight.T
        x = x + torch.cat(outputs, -1) @ block.proj.weight.T + hidden
    wanted = norm(x, network.norm) @ network.embedding.weight.T
    torch.testing.assert_close(network(embedded[None])[0], wanted, rtol=1e-4, atol=1e-4)


def test_params_and_flops_are_those_of_the_built_network() -> None:
    with torch.device("meta"):
        original = neox(GPT2_HW.largest())
    count = sum(p.numel() for p in original.parameters())
    assert GPT2_HW.params(GPT2_HW.largest()) == count == 123_689_472
    drawn = samples(4)
    assert {arch["bias"] for arch in drawn} == {True, False}
    for arch in drawn:
        network = on_meta(arch)
        assert GPT2_HW.params(arch) == sum(p.numel() for p in network.parameters())
        with FlopCounterMode(display=False) as counter:
            network(torch.empty(1, *GPT2_HW.input_shape, dtype=torch.int64, device="meta"))
        assert 2 * GPT2_HW.flops(arch) == counter.get_total_flops()


def test_initial_weights_are_those_of_a_slice_of_the_supernet() -> None:
    arch = architecture(192, [2, 4], [4, 8], bias=True)
    network, other = GPT2_HW.build(arch, seed=5), GPT2_HW.build(arch, seed=6)
    again = GPT2_HW.build(arch, seed=5).state_dict()
    changed = other.state_dict()
    for name, p in network.named_parameters():
        assert torch.equal(p, again[name]), name
        if "norm" in name:
            assert (p == (0 if name.endswith("bias") else 1)).all(), name
        else:
            bound = (3072 if "fc2" in name else 768) ** -0.5
            assert p.abs().max().item() == pytest.approx(bound, rel=0.03), name
            assert p.mean().item() == pytest.approx(0, abs=0.2 * bound), name
            assert not torch.equal(p, changed[name]), name


def test_every_parameter_gets_a_gradient() -> None:
    network = GPT2_HW.build(architecture(24, [2, 3], [4, 8], bias=True))
    network(tokens(1, 8)).logsumexp(-1).sum().backward()
    for name, p in network.named_parameters():
        assert p.grad is not None, name
        assert p.grad.isfinite().all(), name
        assert p.grad.any(), name


def test_the_space_is_the_published_one() -> None:
    assert GPT2_HW.size() == 3 * 2 * (9**10 + 9**11 + 9**12)
    largest = {"embed_dim": 768, "n_layer": 12, "mlp_ratio": [4] * 12, "n_head": [12] * 12}
    assert GPT2_HW.largest() == GPT2_HW.architecture(largest | {"bias": True})
    assert all(GPT2_HW.origins(arch) == tuple(range(arch["n_layer"])) for arch in samples(9))
    data = json.loads(json.dumps(GPT2_HW.architecture(CHOICES).to_json()))
    assert data == {"space": "gpt2-hw", "choices": CHOICES}
    assert GPT2_HW.architecture(data["choices"]) == GPT2_HW.architecture(CHOICES)


def test_features_tell_apart_what_the_fields_choose() -> None:
    arch = architecture(384, [2, 3, 4], [4, 8, 12], bias=True)
    logarithms = [math.log(x) for x in (3, 384, 384, 384, 4, 8, 12, 2, 3, 4)]
    assert GPT2_HW.features(arch) == pytest.approx([*logarithms, 1])
    columns = zip(*(GPT2_HW.features(a) for a in samples(30)), strict=True)
    assert all(len(set(column)) > 1 for column in columns)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bias": 1}, r"^bias must be one of True, False, but got 1$"),
        ({"embed_dim": 256}, r"^embed_dim must be one of 192, 384, 768, but got 256$"),
        ({"n_head": [4] * 12}, r"^n_head must be a list of 10 \(the n_layer\) values, but"),
    ],
)
def test_wrong_choices_are_named(changes: Mapping[str, Any], message: str) -> None:
    with pytest.raises(ArchitectureError, match=message):
        GPT2_HW.architecture({**CHOICES, **changes})


# ---- the surrogate


def published() -> bytes:
    [file] = HW_GPT_BENCH.files
    return read_verified_file(HW_GPT_BENCH, file, None)


def perplexity(state: Mapping[str, Tensor], code: Sequence[float]) -> float:
    """Four layers with ReLU and one without."""
    x: NDArray[np.float64] = np.array(code, dtype=np.float64)
    for i in (1, 2, 3, 4, 5):
        weight, bias = (state[f"fc{i}.{kind}"].numpy() for kind in ("weight", "bias"))
        x = weight @ x + bias
        x = np.maximum(x, 0) if i < 5 else x
    return float(x.item())


@needs_data
def test_surrogate_is_a_small_network_over_the_one_hot_choices() -> None:
    two, three, four = [1, 0, 0], [0, 1, 0], [0, 0, 1]  # and as well 4, 8, 12 heads
    code = [0, 1, 0, 1, 0, 0]  # 384 of 192, 384, 768; 10 layers of 10, 11, 12
    code += two + three + four + two + two + three + three + four + four + two + 6 * [0]
    code += two + three + four + four + four + three + three + two + two + two + 6 * [0]
    code += [0, 1]  # no bias
    content = published()
    state = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
    found = PerplexitySurrogate(content, "s.pt")(GPT2_HW.architecture(CHOICES))
    assert found == pytest.approx(perplexity(state, code), rel=1e-9)


@needs_data
def test_surrogate_answers_for_every_architecture_of_the_space_alone() -> None:
    surrogate = load_hw_gpt_surrogate()
    found = [surrogate(arch) for arch in samples(500)]
    assert (min(found), max(found)) == pytest.approx((22.4, 41.7), abs=0.3)
    with pytest.raises(ArchitectureError, match="space must be gpt2-hw, but got gpt2"):
        surrogate(Architecture("gpt2", CHOICES))
    with pytest.raises(ArchitectureError, match="embed_dim must be one of 192, 384, 768, but got"):
        surrogate(Architecture("gpt2-hw", {**CHOICES, "embed_dim": 1024}))


def scores() -> tuple[list[Architecture], NDArray[np.float64]]:
    """The benchmark's, as every benchmark is made."""
    [file] = HW_GPT_BENCH.files
    selection = BenchmarkSelection("gpt2-hw", "surrogate", ("perplexity",))
    rows = HW_GPT_BENCH.read(selection, [(file, published())])
    benchmark = assemble_benchmark(
        rows, selection, HW_GPT_BENCH.classes, "hw-gpt-bench", "", "rows", {}
    )
    assert benchmark.classes == {"perplexity": 50304}
    return list(benchmark.architectures), benchmark.scores["perplexity"]


@needs_data
def test_benchmark_has_500_architectures_and_counts_perplexity_downwards() -> None:
    archs, perplexities = scores()
    assert len(archs) == len(set(archs)) == 500 == HW_GPT_BENCH.files[0].architectures
    assert scores()[0] == archs
    surrogate = load_hw_gpt_surrogate()
    assert perplexities[:20] == pytest.approx([-surrogate(arch) for arch in archs[:20]])


@needs_data
@pytest.mark.parametrize(("label", "size"), [("equal-40m", 40e6), ("equal-90m", 90e6)])
def test_a_label_of_one_size(label: str, size: float) -> None:
    benchmark = load_benchmark("hw-gpt-bench", label=label)
    built = [GPT2_HW.params(arch) for arch in benchmark.architectures]
    assert len(set(benchmark.architectures)) == 500
    assert 0.98 * size <= min(built) < max(built) <= 1.02 * size
    surrogate, first = load_hw_gpt_surrogate(), benchmark.architectures[:20]
    expected = [-surrogate(arch) for arch in first]
    assert benchmark.scores["perplexity"][:20] == pytest.approx(expected)


def with_narrow_heads(arch: Architecture) -> int:
    """The parameters if the heads shared the embedding's width, as GPT-2's do."""
    width, layers = arch["embed_dim"], arch["n_layer"]
    mlp = sum(2 * ratio * width**2 + arch["bias"] * ratio * width for ratio in arch["mlp_ratio"])
    attention = layers * (4 * width**2 + arch["bias"] * 3 * width)
    return 50304 * width + mlp + attention + layers * (4 + 2 * arch["bias"]) * width + 2 * width


@needs_data
@pytest.mark.parametrize(
    ("count", "overall", "within"),
    [(with_narrow_heads, 0.875, (0.54, 0.63, 0.71)), (GPT2_HW.params, 0.92, (0.74, 0.77, 0.81))],
    ids=["heads share the width", "64 dimensions a head"],
)
def test_what_parameter_counts_say(count: Any, overall: float, within: Sequence[float]) -> None:
    """The published networks' own counts say more than those that the heads don't change."""
    archs, values = scores()
    params = np.array([count(arch) for arch in archs])
    widths = np.array([arch["embed_dim"] for arch in archs])
    assert kendalltau(params, values).statistic == pytest.approx(overall, abs=0.01)
    each = [kendalltau(params[widths == w], values[widths == w]).statistic for w in (192, 384, 768)]
    assert each == pytest.approx(within, abs=0.05)


def stored(content: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def random_state() -> dict[str, Tensor]:
    sizes = [(128, 80), (128, 128), (128, 128), (128, 128), (1, 128)]
    weights = {f"fc{i}.weight": torch.randn(size) for i, size in enumerate(sizes, 1)}
    return weights | {f"fc{i}.bias": torch.randn(rows) for i, (rows, _) in enumerate(sizes, 1)}


class Harmful:
    """A pickle of it would run code."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (print, ("run",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"must be a state that torch\.save wrote, but got: "),
        (stored(random_state())[:-100], r"must be a state that torch\.save wrote, but got: "),
        (
            stored(Harmful()),
            r"must be a state that torch\.save wrote, but got: \w+: Weights only load",
        ),
        (stored([1.0]), r"must map fc1\.weight, .*, fc5\.bias to tensors, but is a list$"),
        (
            stored({k: v for k, v in random_state().items() if k != "fc3.bias"}),
            r"must map fc1\.weight, .*, fc5\.bias to tensors, but has no fc3\.bias$",
        ),
        (
            stored(random_state() | {"fc1.weight": torch.zeros(128, 152)}),
            r"fc1\.weight must have shape \(128, 80\), but has \(128, 152\)$",
        ),
    ],
    ids=["empty", "truncated", "harmful", "list", "missing", "other space"],
)
def test_wrong_content_is_named(
    content: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BenchmarkError, match=f"^perplexity_s\\.pt:? {message}") as caught:
        PerplexitySurrogate(content, "perplexity_s.pt")
    assert "\n" not in str(caught.value)
    assert capsys.readouterr().out == ""


def test_changed_or_absent_file_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AUTOPROX_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(BenchmarkError, match=r"needs perplexity_s\.pt, .*fetch hw-gpt-bench"):
        load_hw_gpt_surrogate()
    path = tmp_path / "hw-gpt-bench" / "perplexity_s.pt"
    path.parent.mkdir()
    path.write_bytes(stored(random_state()))
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    rule = rf"perplexity_s\.pt must have sha256 e843a1af\w+, but has {found}"
    with pytest.raises(BenchmarkError, match=rule):
        load_hw_gpt_surrogate(tmp_path)
