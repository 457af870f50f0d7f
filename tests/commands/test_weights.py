"""The option --weights of the five commands that measure untrained networks."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.commands import Command
from helpers.records import proxy_record
from helpers.tables import table

from autoprox.errors import ConfigError
from autoprox.runner import resume_run
from autoprox.runs.folder import Run
from autoprox.runs.proxy_file import read_proxy
from autoprox.searchspaces import architecture_from_json, get_space
from autoprox.searchspaces.shared_draws import shared_network

COUNT = 60
SPACE = get_space("autoformer-nano")
WEIGHT = "sum(sum(abs(msa.weight)))"  # which needs no pass
SNIP = "sum(sum(abs(mul(all.weight, all.grad))))"
SMALL = (
    *("--population", "4", "--iterations", "2", "--children", "2", "--zoo", "snip"),
    *("--statistics", "msa.weight,msa.grad", "--batch-size", "1", "--workers", "1"),
)
LAYERS = ("--msa", "blocks.*.attn.*", "--mlp", "blocks.*.mlp.*")
DIFFER = "was evolved with shared weights; here they are"
MODEL = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attn = nn.MultiheadAttention(width, 2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, x):
        x = x + self.attn(x, x, x, need_weights=False)[0]
        return x + self.mlp(x)

class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.head = nn.Linear(width, 3)

    def forward(self, x):
        return self.head(self.blocks(x).mean(1))

def narrow():
    return Model(8), torch.ones(2, 5, 8), torch.tensor([0, 1])
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "mine.json").write_text(json.dumps(table(COUNT)))
    (tmp_path / "shared_mine.py").write_text(MODEL)
    return tmp_path


def discovered(weights: str, split_seed: int = 0) -> str:
    """The folder of a run of evolve with a proxy."""
    record = proxy_record(expression=WEIGHT)
    record = type(record)(
        **{**vars(record), "found": record.found.model_copy(update={"weights": weights})}
    )
    config: dict[str, Any] = {
        **{"kind": "evolve", "benchmark": "mine.json", "space": SPACE.name, "weights": weights},
        **{"datasets": ["wide"], "label": "score", "subset": "main", "ties": "unordered"},
        **{"split_seed": split_seed, "train": 0.5},
    }
    with Run.create(Path("runs"), f"{weights}{split_seed}", config) as run:
        run.write_proxies([record])
        return str(run.path)


def commands() -> dict[str, list[str]]:
    """A small call of each command."""
    runs = discovered("shared"), discovered("shared", 1)
    return {
        "rank": ["--benchmark", "mine.json", "--proxies", runs[0], "--batch-size", "1"],
        "evolve": ["--benchmark", "mine.json", *SMALL],
        "compare": [*runs, "--batch-size", "1"],
        "search": ["--space", SPACE.name, "--proxy", runs[0], "--samples", "12"],
        "score": ["--proxy", runs[0], "--model", "shared_mine:narrow", *LAYERS],
    }


@pytest.mark.parametrize("name", ["rank", "evolve", "compare", "search", "score"])
def test_a_wrong_value_is_an_error_of_one_line(name: str, run: Command, folder: Path) -> None:
    arguments = commands()[name]
    before = sorted(folder.rglob("*"))
    result = run(name, *arguments, "--weights", "own")
    assert (result.code, result.out) == (2, "")
    assert "error: unknown weights 'own'; choose from fresh, shared" in result.err
    assert result.err.count("\n") == 1
    assert sorted(p for p in folder.rglob("*") if p.suffix != ".pyc") == before


@pytest.mark.parametrize("name", ["rank", "compare", "search", "score"])
def test_weights_other_than_those_of_the_evolution_are_named(name: str, run: Command) -> None:
    arguments = commands()[name]
    fresh, shared = (run(name, *arguments, "--weights", own) for own in ("fresh", "shared"))
    assert (fresh.code, shared.code) == (0, 0)
    assert DIFFER in " ".join(fresh.out.split())
    assert "evolved with" not in " ".join(shared.out.split())
    documents = [
        run(name, *arguments, "--weights", own, "--json").json for own in ("fresh", "shared")
    ]
    assert [own["weights"] for own in documents] == ["fresh", "shared"]


def test_a_ranking_measures_slices_of_shared_draws(run: Command) -> None:
    """Independently: the sum of absolute weights of networks that are built one by one."""
    arguments = ("rank", "--benchmark", "mine.json", "--proxies", WEIGHT, "--json", "--seed", "3")
    found = [
        run(*arguments, "--weights", "shared", "--workers", workers).json for workers in ("1", "3")
    ]
    logs = [(Path(own["run"]) / "log.jsonl").read_text().splitlines() for own in found]
    values = [[json.loads(line)["values"] for line in log] for log in logs]
    assert values[0] == values[1]
    for row, value in zip(table(COUNT)["architectures"], values[0], strict=True):
        arch = SPACE.architecture(row["arch"])
        layers = shared_network(SPACE, arch, classes=10, seed=3).layers()
        total = sum(float(own.weight.detach().abs().sum()) for kind, own in layers if kind == "msa")
        assert value["wide"][WEIGHT] == pytest.approx(total, rel=1e-5)
    page = (Path(found[0]["run"]) / "report.html").read_text()
    assert "shared weights" in page


def test_a_search_measures_slices_of_shared_draws(run: Command) -> None:
    found = run(
        *("search", "--space", SPACE.name, "--proxy", WEIGHT, "--samples", "8", "--seed", "2"),
        *("--weights", "shared", "--json"),
    ).json
    lines = (Path(found["run"]) / "candidates.jsonl").read_text().splitlines()
    for line in map(json.loads, lines):
        arch = architecture_from_json({"space": SPACE.name, "choices": line["arch"]})
        layers = shared_network(SPACE, arch, classes=10, seed=2).layers()
        total = sum(float(own.weight.detach().abs().sum()) for kind, own in layers if kind == "msa")
        assert line["terms"] == [pytest.approx(total, rel=1e-5)]


def test_a_search_still_knows_what_its_proxy_was_evolved_with(run: Command) -> None:
    """When it is resumed, although the proxy's run is gone."""
    proxy = Path(discovered("shared"))
    arguments = ("--space", SPACE.name, "--proxy", str(proxy), "--samples", "4", "--json")
    found = Path(run("search", *arguments).json["run"])
    for file in ("summary.json", "report.html"):
        (found / file).unlink()
    proxy.rename("elsewhere")
    result = run("resume", str(found))
    assert result.code == 0
    assert DIFFER in " ".join(result.out.split())


def test_an_evolution_records_its_weights(run: Command, folder: Path) -> None:
    """Neither its statistics nor its scores of the zoo are taken from the other's cache."""
    arguments = ("evolve", "--benchmark", "mine.json", *SMALL)
    fresh, again, shared = (
        run(*arguments, "--weights", own, "--json").json for own in ("fresh", "fresh", "shared")
    )
    for found, weights in ((fresh, "fresh"), (shared, "shared")):
        path = Path(found["run"])
        assert found["weights"] == weights
        assert json.loads((path / "config.json").read_text())["weights"] == weights
        assert read_proxy(path / "hall_of_fame" / "1.json").found.weights == weights
    taus = [
        found["folds"][0]["spaces"][SPACE.name]["means"]["snip"]["train"]["kendall"]
        for found in (fresh, again, shared)
    ]
    assert taus[0] == taus[1] != taus[2]
    assert "weights shared" in " ".join(run("show", shared["run"]).out.split())
    with pytest.raises(ConfigError, match="a resumed run keeps its own configuration"):
        resume_run(Path(fresh["run"]), weights="shared")


def test_a_model_scores_by_its_own_draws_or_by_shared_ones(run: Command) -> None:
    model = ("score", "--proxy", SNIP, "--model")
    scores = {}
    for weights in ("fresh", "shared"):
        arguments = (*model, "shared_mine:narrow", *LAYERS, "--weights", weights, "--json")
        scores[weights] = [run(*arguments).json["models"][0]["score"] for _ in range(2)]
    assert scores["fresh"][0] == scores["fresh"][1] != scores["shared"][0] == scores["shared"][1]
    name = "timm:vit_tiny_patch16_224"
    refused = run(*model, name, "--pretrained", "--weights", "shared")
    assert refused.code == 2
    assert "pretrained weights aren't drawn" in refused.err
