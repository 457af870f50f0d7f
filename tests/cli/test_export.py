"""`autoprox export` and `autoprox score` as a user types them."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.commands import Command
from helpers.records import proxy_record, record
from helpers.sources import loaded

import autoprox
from autoprox.benchmarks import load_benchmark
from autoprox.language import parse_expression
from autoprox.runs.folder import Run
from autoprox.runs.proxy_file import write_proxy
from autoprox.searchspaces import architecture_from_json, get_space
from autoprox.zoo.expression_proxies import parse_with_zoo_names

ARCH = {"hidden_dim": 16, "depth": 1, "mlp_ratio": [2.0], "num_heads": [2]}
NANO = {"space": "autoformer-nano", "choices": ARCH}
MODEL = """
import torch
from torch import nn

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        layer = nn.TransformerEncoderLayer(width, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        return self.head(self.encoder(x).mean(1))

def made(width):
    return Model(width), torch.randn(2, 5, width), torch.tensor([0, 2])

def small(): return made(8)
def large(): return made(16)
def plain(): return nn.Sequential(nn.Flatten(), nn.Linear(3 * 224 * 224, 2))
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    Path("mine.py").write_text(MODEL)
    Path("arch.json").write_text(json.dumps(NANO))
    Path("choices.json").write_text(json.dumps(ARCH))


def test_a_proxy_is_printed_or_written(run: Command) -> None:
    printed = run("export", "proxy", "snip", "--format", "python")
    assert printed.code == 0
    assert printed.out.startswith('"""A zero-cost proxy, written by autoprox:')
    assert run("export", "proxy", "snip", "--out", "snip.py").out == "Written to snip.py\n"
    assert Path("snip.py").read_text() == printed.out
    assert run("export", "proxy", "snip", "--format", "torch").out == printed.out
    assert run("export", "proxy", "snip", "--format", "latex").out.startswith(r"\sum_{l}")
    assert "Abs(" in run("export", "proxy", "snip", "--format", "sympy").out


def test_a_proxy_as_json_is_its_tree(run: Command) -> None:
    found = run("export", "proxy", "dss++", "--format", "json").json

    def text(node: object) -> str:
        if isinstance(node, str):
            return node
        assert isinstance(node, dict)
        return f"{node['operation']}({', '.join(map(text, node['arguments']))})"

    assert (
        parse_expression(text(found["tree"]))
        == parse_expression(found["expression"])
        == parse_with_zoo_names("dss++")
    )
    whole = run("export", "proxy", "snip", "--format", "latex", "--json").json
    assert set(whole) == {"proxy", "format", "out", "text"}


@pytest.mark.parametrize(
    "source", ["arch.json", json.dumps(NANO), "choices.json", "run", "run/top.json"]
)
def test_an_architecture_comes_from_a_run_a_file_or_json(run: Command, source: str) -> None:
    space = ["--space", "autoformer-nano"]
    if source.startswith("run"):
        searched = run("search", *space, "--proxy=sum(width)", "--samples=3", "--json").json
        Path(searched["run"]).rename("run")
    given = space if source in ("choices.json", "run/top.json") else []
    found = run("export", "arch", source, *given, "--format", "json").json
    expected = searched["best"]["arch"] if source.startswith("run") else ARCH
    assert architecture_from_json(found) == architecture_from_json(
        {"space": "autoformer-nano", "choices": expected}
    )


def test_the_best_of_a_searched_search_space_may_be_outside_the_first(
    run: Command, tmp_path: Path
) -> None:
    names = {"embed_dim": 40, "depth": 1, "window": [2], "qkv_dim": [40], "mlp_ratio": [2.5]}
    choices = {f"{name}_{stage}": own for stage in (1, 2, 3, 4) for name, own in names.items()}
    options = {name: own if isinstance(own, list) else [own] for name, own in choices.items()}
    with Run.create(tmp_path, "s3", {"kind": "s3", "space": "swin-nano"}) as made:
        best = {"arch": {"space": "swin-nano", "choices": choices}}
        rounds = [{"options": {}}, {"options": options}]
        made.write_summary({"best": best, "classes": 3, "rounds": rounds})
    found = run("export", "arch", str(made.path), "--format", "json").json
    assert found == best["arch"]
    written = run(
        "export", "arch", str(made.path), "--format", "timm", "--out", "net", "--json"
    ).json
    assert written["files"] == ["architecture.json", "network.py", "train.py"]


@pytest.fixture
def searched(run: Command) -> dict[str, Any]:
    """A search among networks of ten classes, the run in `run`."""
    options = ("--space=autoformer-nano", "--proxy=sum(width)", "--samples=3", "--classes=7")
    found = run("search", *options, "--json").json
    Path(found["run"]).rename("run")
    return found


def head_of(folder: Path) -> int:
    """The outputs of an exported network, of one image."""
    return int(loaded(folder / "network.py").build()(torch.zeros(1, 3, 16, 16)).shape[1])


@pytest.mark.parametrize("source", ["run", "run/top.json"])
@pytest.mark.parametrize("target", ["torch", "timm", "json"])
def test_an_exported_network_has_the_classes_of_its_search(
    run: Command, searched: dict[str, Any], source: str, target: str
) -> None:
    space = () if source == "run" else ("--space", "autoformer-nano")
    arguments = ("export", "arch", source, *space, "--format", target, "--json")
    found = run(*arguments, "--out", "net").json
    assert (found["params"], found["classes"]) == (searched["best"]["params"], 7)
    asked = run(*arguments, "--out", "other", "--classes", "4").json
    assert asked["params"] == found["params"] - 3 * (searched["best"]["arch"]["hidden_dim"] + 1)
    if target != "json":
        assert [head_of(Path(own)) for own in ("net", "other")] == [7, 4]
        assert "CLASSES = 7\n" in Path("net/train.py").read_text()


def test_an_exported_network_has_the_classes_of_the_benchmark(run: Command) -> None:
    options = ("--benchmark=nano-bench", "--proxy=sum(width)", "--samples=2", "--json")
    found = run("search", *options).json
    exported = run(
        "export", "arch", found["run"], "--format", "json", "--out", "a.json", "--json"
    ).json
    assert exported["params"] == found["best"]["params"]
    assert exported["classes"] == load_benchmark("nano-bench").classes["cifar10"]


@pytest.mark.parametrize("source", ["run", "run:2", "run/top.json", "all.json", "one.json"])
def test_every_format_of_an_architecture_is_read(
    run: Command, searched: dict[str, Any], source: str
) -> None:
    """A run, its Nth best, its file, an array of {space, choices}, and an entry of the best."""
    space = "autoformer-nano"
    top = [own["arch"] for own in searched["top"]]
    Path("all.json").write_text(json.dumps([{"space": space, "choices": own} for own in top]))
    Path("one.json").write_text(json.dumps({"arch": {"space": space, "choices": top[0]}}))
    found = run("export", "arch", source, "--format", "json").json
    assert found == {"space": space, "choices": top[source == "run:2"]}
    network = autoprox.build(
        source if source.startswith("run") else json.loads(Path(source).read_text())
    )
    assert sum(p.numel() for p in network.parameters()) == get_space(space).params(
        architecture_from_json(found), 7 if source.startswith("run") else 10
    )
    assert "architectures 1 to 3, but got run:4" in run("export", "arch", "run:4").err


def test_a_file_away_from_its_run_needs_the_classes(run: Command, searched: dict[str, Any]) -> None:
    Path("run/top.json").rename("away.json")
    arguments = ("export", "arch", "away.json", "--space", "autoformer-nano", "--format", "json")
    refused = run(*arguments)
    assert refused.code == 2
    params = searched["best"]["params"]
    assert refused.err.startswith(
        f"error: --classes must be given for a network of {params} parameters, but got none, and "
    )
    done = run(*arguments, "--classes", "7", "--out", "a.json", "--json")
    assert done.json["params"] == params


def test_an_architecture_is_written_once(run: Command) -> None:
    arguments = ("export", "arch", "arch.json", "--out", "net", "--classes", "5")
    done = run(*arguments, "--json")
    assert done.json["files"] == ["architecture.json", "network.py", "train.py"]
    assert done.json["params"] == 1072 + 2224 + 32 + 85  # embeddings, block, norm and head
    again = run(*arguments)
    assert again.code == 2
    assert again.err == "error: --out must be a new or an empty folder, but net is there\n"
    named = run("export", "arch", "arch.json")
    assert named.out.startswith("Written to autoformer-nano-")


def test_models_are_scored_and_compared(run: Command) -> None:
    found = run("score", "--proxy=dss++", "--model=mine:small", "--compare=mine:large", "--json")
    small, large = found.json["models"]
    assert {small["score"], large["score"]} == {2.0, 4.0}
    assert small["layers"]["encoder.layers.0.self_attn.in_proj"] == "msa"
    assert small["family"] == "torch"
    assert len(small["terms"]) == 2
    known = {"evolved_with", "found_on"}
    assert set(found.json) == {"proxy", "ranks", "models", "shortfalls", "weights", *known}
    assert {found.json[name] for name in known} == {None}


def test_a_proxy_of_a_space_says_so_of_models(run: Command) -> None:
    write_proxy(Path("own.json"), proxy_record(found={**record()["found"], "space": "pit-nano"}))
    found = run("score", "--proxy=own.json", "--model=mine:small")
    assert "The proxy was found on another space, pit-nano.\n" in found.out


def test_the_report_fits_80_columns(run: Command) -> None:
    found = run("score", "--proxy=dss++", "--model=mine:small", "--layers")
    assert found.code == 0
    assert max(map(len, found.out.splitlines())) <= 80
    assert "ranks models among each other, so that one alone has no score" in found.out
    assert "msa  encoder.layers.*.self_attn.in_proj  (2)" in found.out
    named = run("score", "--proxy=snip", "--model=mine:small", "--msa=*.out_proj", "--mlp=linear*")
    assert named.out.splitlines()[2].split()[2:4] == ["2", "4"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("export arch absent.json", "absent.json must be a JSON file, but there is no such file"),
        ("export arch choices.json", "an architecture's choices need a space, but got none"),
        ("export arch arch.json --format keras", "unknown format of an architecture 'keras'"),
        ("export arch arch.json --space pit", "space must be pit, but got autoformer-nano"),
        ("export arch {} --space pit", "base_dim is missing from the choices"),
        ("export arch . --space pit", "a run must hold config.json"),
        ("export proxy snip --format python2", "unknown format 'python2' (did you mean python?)"),
        ("export proxy naswot", "an expression is needed, but naswot is a function"),
        ("export proxy width", "a proxy in Python is a Network, got Layers[block]"),
        ("export", "choose from arch, proxy"),
        ("score --proxy snip --model vit", "a model must be timm:NAME, transformers:NAME or"),
        ("score --proxy snip --model mine:none", "a model must be a function given as MODULE:FUN"),
        ("score --proxy snip --model mine:plain", "name them by --mlp PATTERN and --msa PATTERN"),
        ("score --proxy snip --model mine:small --images x", "mine:small takes its own inputs"),
        ("score --proxy snip --model mine:small --pretrained", "pretrained is for timm and trans"),
        ("score --proxy naswot --model mine:small", "an expression is needed, but naswot is a fu"),
        ("score --model mine:small", "Missing option '--proxy'"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(run: Command, arguments: str, message: str) -> None:
    result = run(*arguments.split())
    assert result.code == 2, result.err
    assert result.out == ""
    assert result.err.count("\n") == 1
    assert message in result.err
