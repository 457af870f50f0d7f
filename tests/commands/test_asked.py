"""Requested counts, lists and budgets are those in the run's files."""

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.commands import Command
from helpers.furnished import furnish
from helpers.records import proxy_record

from autoprox.configurations.commands import RankConfig
from autoprox.errors import MeasurementError
from autoprox.runner import start
from autoprox.runs.folder import Run
from autoprox.statistics.matrix_cache import DAY

NETWORKS = 30  # of the table
RANK = ("rank", "--benchmark", "my-vits.json", "--batch-size", "1", "--quiet", "--json")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    furnish(tmp_path)
    return tmp_path


def log_of(found: dict[str, Any]) -> list[dict[str, Any]]:
    lines = Path(found["run"], "log.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def stopped_after(task: str, count: int) -> Callable[[str, int, int, str], None]:
    """A progress that stops a run."""

    def stop(name: str, done: int, total: int, note: str) -> None:
        if (name, done) == (task, count):
            raise MeasurementError("stopped")

    return stop


@pytest.mark.parametrize("seeds", [1, 3])
@pytest.mark.parametrize("stopped", [None, 7, NETWORKS])
def test_every_network_is_ranked_with_every_seed(
    run: Command, seeds: int, stopped: int | None
) -> None:
    if stopped is None:
        found = run(*RANK, "--proxies", "sum(width)", "--seeds", str(seeds), "--seed", "5").json
    else:
        given = {"benchmark": "my-vits.json", "batch_size": 1, "proxies": ("sum(width)",)}
        config = RankConfig(**given, seeds=seeds, seed=5)
        with pytest.raises(MeasurementError, match="stopped"):
            start(config, stopped_after("measure", stopped))
        [left] = Path("runs").iterdir()
        found = run("resume", str(left), "--quiet", "--json").json
    done = Counter((line["seed"], line["network"]) for line in log_of(found))
    assert done == Counter((5 + s, n) for s in range(seeds) for n in range(NETWORKS))
    assert (found["seeds"], found["networks"]) == (seeds, NETWORKS)


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("snip", ["snip"]),
        ("snip,params,dss", ["snip", "params", "dss"]),
        ("snip,params,snip", ["snip", "params"]),
        ("sum(width),sum(tokens),sum(width)", ["sum(width)", "sum(tokens)"]),
    ],
)
def test_every_proxy_is_ranked_once(run: Command, asked: str, expected: list[str]) -> None:
    """A proxy that is named twice has one row."""
    found = run(*RANK, "--proxies", asked).json
    assert Counter(row["proxy"] for row in found["rows"]) == Counter(expected)
    config = json.loads(Path(found["run"], "config.json").read_text())
    assert config["proxies"] == expected
    shown = run("resume", found["run"]).out
    assert all(name in shown for name in expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--datasets", "photos,photos"), "each dataset must be named once, at least one, but got"),
        (("--datasets", "photos,others"), "has no dataset 'others'"),
        (("--proxies", "snip,nothing_there"), "unknown proxy 'nothing_there'"),
        (("--seeds", "0"), "seeds"),
        (("--subset", "some"), "some"),
    ],
)
def test_unknown_names_are_an_error(run: Command, options: tuple[str, ...], message: str) -> None:
    result = run(*RANK, *options)
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert message in result.err
    assert not Path("runs").exists()


def discovered(name: str, expressions: list[str], train: float = 0.5) -> str:
    """A run of evolve with proxies."""
    config = {
        **{"kind": "evolve", "benchmark": "my-vits.json", "space": "autoformer-nano"},
        **{"datasets": ["photos"], "label": "score", "subset": "main", "ties": "unordered"},
        **{"split_seed": 0, "train": train, "seed": 0},
    }
    with Run.create(Path("runs"), name, config) as run:
        run.write_proxies([proxy_record(expression=text) for text in expressions])
        return str(run.path)


@pytest.mark.parametrize("seeds", [1, 3])
def test_proxies_are_compared_with_every_seed(run: Command, seeds: int) -> None:
    own = discovered("own", ["sum(width)"])
    given = ("--seeds", str(seeds), "--batch-size", "1", "--quiet", "--json")
    found = run("compare", own, "params", own, "params", *given).json
    assert len(log_of(found)) == seeds * found["networks"] == seeds * NETWORKS / 2
    assert list(found["between"]) == [own, "params"]


@pytest.mark.parametrize("others", [0, 1, 3])
def test_every_model_is_scored(run: Command, others: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is named several times has as many rows."""
    monkeypatch.delitem(sys.modules, "mine", raising=False)  # another test's
    compared = ("--compare", "mine:model") * others
    found = run("score", "--proxy", "snip", "--model", "mine:model", *compared, "--json").json
    assert len(found["models"]) == 1 + others
    assert run("score", "--proxy", "snip", "--model", "mine:model", *compared).out.count(
        "mine:model"
    ) == len(found["models"])


@pytest.mark.parametrize(("length", "code"), [(2, 0), (37, 0), (512, 0), (513, 2)])
def test_sequences_are_as_long_as_asked(run: Command, length: int, code: int) -> None:
    """Longer sequences than the model's context are an error of one line."""
    given = ("--batch-size", "1", "--length", str(length), "--json")
    result = run("score", "--proxy", "sum(tokens)", "--model", "transformers:bert", *given)
    assert result.code == code
    if code == 0:
        assert result.json["models"][0]["score"] == 12 * length
    else:
        assert result.err.count("\n") == 1
        assert str(length) in result.err


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("seconds", [0.01, 3.0])
def test_a_rediscovery_ends_after_its_seconds(run: Command, cache: str, seconds: float) -> None:
    """It ends after the round in which they are over."""
    target = "sum(sum(abs(mul(mul(mlp.weight, mlp.grad), mul(mlp.weight, mlp.weight)))))"
    limits = ("--seconds", str(seconds), "--cache", cache)
    result = run("rediscover", target, *limits, "--quiet", "--json")
    found, log = result.json, log_of(result.json)
    assert len(log) == found["rounds"]
    assert found["success"] or found["seconds"] >= seconds
    assert [line["seconds"] < seconds for line in log[:-1]] == [True] * (len(log[:-1]))


def cached(folder: Path, count: int) -> list[Path]:
    """Files of 1,000 bytes in a cache, each a day older than the one before."""
    files = []
    for number in range(count):
        file = folder / "statistics" / "ab" / f"{number:062x}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(bytes(1000))
        used = time.time() - (number + 0.5) * DAY
        os.utime(file, (used, used))
        files.append(file)
    return files


@pytest.mark.parametrize(
    ("option", "value", "left"),
    [
        ("--older-than", "1", 1),
        ("--older-than", "3", 3),
        ("--older-than", "100", 5),
        ("--beyond", "1K", 1),
        ("--beyond", "2.5K", 2),
        ("--beyond", "1G", 5),
        ("--beyond", "0", 0),
    ],
)
def test_the_cache_keeps_the_requested_files(
    run: Command, tmp_path: Path, option: str, value: str, left: int
) -> None:
    folder = tmp_path / "kept"
    files = cached(folder, 5)
    found = run("cache", "--cache", str(folder), "--clear", option, value, "--json").json
    assert [file.exists() for file in files] == [number < left for number in range(5)]
    assert found["removed"] == 1000 * (5 - left)
    assert found["parts"]["statistics"] >= 1000 * left


@pytest.mark.parametrize("count", [1, 3])
def test_all_runs_and_formulas_are_shown(run: Command, count: int) -> None:
    """A run that is named twice is shown twice."""
    expressions = [f"sum({own})" for own in ("width", "tokens", "heads")[:count]]
    runs = [discovered(f"run{number}", expressions) for number in range(count)]
    assert len(run("runs", "--json").json) == count
    assert len(run("show", runs[0], "--all", "--json").json) == count
    assert run("show", f"{runs[0]}:{count}", "--json").code == 0
    beyond = run("show", f"{runs[0]}:{count + 1}", "--json")
    assert (beyond.code, beyond.err.count("\n")) == (2, 1)
    assert f"has the formulas 1 to {count}, but got {runs[0]}:{count + 1}" in beyond.err
    named = [*runs, runs[0]]
    assert [row["name"] for row in run("show", *named, "--json").json] == named
