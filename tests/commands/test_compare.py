"""Discoveries compared on the networks that none of them has seen."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.commands import Command
from helpers.records import proxy_record
from helpers.tables import table
from scipy.stats import kendalltau

from autoprox.benchmarks import load_benchmark
from autoprox.runs.folder import Run
from autoprox.scoring.bootstrap import split_networks
from autoprox.searchspaces import get_space

COUNT = 60


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "mine.json").write_text(json.dumps(table(COUNT)))
    return tmp_path


def discovered(expression: str, split_seed: int, **changes: Any) -> str:
    """The folder of a run of evolve with a proxy."""
    config = {
        **{"kind": "evolve", "benchmark": "mine.json", "space": "autoformer-nano"},
        **{"datasets": ["wide"], "label": "score", "subset": "main", "ties": "unordered"},
        **{"split_seed": split_seed, "train": 0.5, **changes},
    }
    with Run.create(Path("runs"), f"split{split_seed}", config) as run:
        run.write_proxies([proxy_record(expression=expression)])
        return str(run.path)


def test_proxies_are_compared_on_unseen_networks(run: Command) -> None:
    first, second = discovered("sum(width)", 0), discovered("sum(tokens)", 1)
    found = run("compare", first, second, "params", "--json").json
    benchmark = load_benchmark("mine.json")
    new = sorted(set(split_networks(COUNT, 0, 0.5)[1]) & set(split_networks(COUNT, 1, 0.5)[1]))
    assert found["networks"] == len(new)
    space = get_space("autoformer-nano")
    params = [space.params(benchmark.architectures[n], 10) for n in new]
    truth = benchmark.scores["wide"][new]
    rows = {row["proxy"]: row for row in found["rows"]}
    assert rows["params"]["tau_b"] == pytest.approx(kendalltau(params, truth).statistic)
    lines = (Path(found["run"]) / "log.jsonl").read_text().splitlines()
    values = [json.loads(line)["values"]["wide"] for line in lines]
    widths, tokens = np.array([list(value.values()) for value in values]).T
    expected = kendalltau(widths, tokens).statistic
    assert found["between"][first][second] == pytest.approx(expected)
    assert found["between"][first][first] == pytest.approx(1)
    shown = run("compare", first, second).out
    assert f"On the {len(new)} networks that no run was evolved on" in shown
    assert "…" not in shown


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ([], "two different proxies must be given"),
        (["sum(width)"], "a proxy must be a run of evolve, RUN:N or a published name"),
        (["runs/none"], "a run must be a folder, but runs/none does not exist"),
    ],
)
def test_proxies_that_cannot_be_compared(others: list[str], message: str, run: Command) -> None:
    result = run("compare", discovered("sum(width)", 0), *others)
    assert result.code == 2
    assert message in result.err


def test_runs_must_be_of_one_benchmark_and_leave_networks(run: Command) -> None:
    first = discovered("sum(width)", 0)
    other = run("compare", first, discovered("sum(width)", 1, label="kd"))
    assert "runs must have the same label to be compared" in other.err
    apart = run("compare", first, discovered("sum(width)", 2, datasets=["deep"]))
    assert "a dataset in common" in apart.err
    greedy = run("compare", first, discovered("sum(width)", 3, train=0.9))
    assert "at least 10 networks must be new to all runs" in greedy.err
    assert "a run of `autoprox evolve` is needed" in run("compare", "snip", "dss").err
    several = discovered("sum(width)", 4, spaces=["autoformer-nano", "pit"], datasets=None)
    refused = run("compare", first, several)
    assert refused.code == 2
    assert f"{several} is of autoformer-nano, pit" in refused.err


def test_runs_on_a_sample_are_compared_on_its_unseen_networks(run: Command) -> None:
    first, second = (discovered(t, 0, networks=30) for t in ("sum(width)", "sum(tokens)"))
    found = run("compare", first, second, "--json").json
    sample = load_benchmark("mine.json", networks=30)
    train, new = split_networks(30, 0, 0.5)
    assert found["networks"] == len(new) == 15
    lines = (Path(found["run"]) / "log.jsonl").read_text().splitlines()
    values = [json.loads(line)["values"]["wide"] for line in lines]
    unseen = [sample.architectures[n] for n in new]
    assert sorted(next(iter(value.values())) for value in values) == sorted(
        a["hidden_dim"] * a["depth"] for a in unseen
    )
    assert not {sample.architectures[n] for n in train} & {*unseen}
    refused = run("compare", first, discovered("sum(width)", 1))
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "runs must have the same networks to be compared" in refused.err
