"""Runs whose files were changed by somebody: each is one line, or goes on."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.commands import Command
from helpers.tables import table

from autoprox.configurations.commands import (
    EvolveConfig,
    RankConfig,
    RediscoverConfig,
    SearchConfig,
)
from autoprox.errors import AutoproxError, RunError
from autoprox.runner import resume_run, start

WRONG = (None, True, -1, 0, 1e308, 10**30, "", "x", "a\0b", "../..", [], ["x"], [[]], {}, {"x": 1})
SMALL: dict[str, Any] = {"batch_size": 2}
CONFIGS = {
    "evolve": lambda: EvolveConfig(
        benchmark="mine.json",
        cache="cache",
        population=4,
        iterations=2,
        statistics=("msa.weight",),
        zoo=("none",),
        **SMALL,
    ),
    "rank": lambda: RankConfig(benchmark="mine.json", proxies=("l2_norm", "params"), **SMALL),
    "search": lambda: SearchConfig(space="autoformer-nano", proxy="l2_norm", samples=4, **SMALL),
    "rediscover": lambda: RediscoverConfig(proxy="l2_norm", cache="cache", seconds=2.0),
}


class StopError(Exception):
    """Stops a run, as a kill would."""


def stop_at_work(task: str, done: int, total: int, note: str) -> None:
    if task == "run":
        raise StopError


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.json").write_text(json.dumps(table()))
    return tmp_path


def tampered(value: Any) -> Iterator[Any]:
    """The value with one thing in it, at any depth, replaced by each that is of another type."""
    for wrong in WRONG:
        if type(wrong) is not type(value):
            yield wrong
    if isinstance(value, dict):
        for key in value:
            yield {name: own for name, own in value.items() if name != key}
            yield from ({**value, key: own} for own in tampered(value[key]))
    elif isinstance(value, list) and value:
        yield from ([own, *value[1:]] for own in tampered(value[0]))


def resumed(run: Path) -> str:
    """The error of resuming, if it is refused before the work begins."""
    try:
        resume_run(run, stop_at_work)
    except AutoproxError as error:
        return str(error)
    except StopError:
        return ""
    return "finished"


@pytest.mark.parametrize(
    ("kind", "name"), [*((kind, "config.json") for kind in CONFIGS), ("rank", "environment.json")]
)
def test_a_begun_run(here: Path, kind: str, name: str) -> None:
    with pytest.raises(StopError):
        start(CONFIGS[kind](), stop_at_work)
    [run] = here.glob("runs/*")
    assert resumed(run) == ""
    told = set()
    for other in tampered(json.loads((run / name).read_text())):
        (run / name).write_text(json.dumps(other))
        told.add(resumed(run))
    assert len(told) > 10
    assert "finished" not in told
    assert not [line for line in told if "\n" in line]


@pytest.mark.parametrize(
    ("kind", "name"),
    [("rank", "log.jsonl"), ("search", "candidates.jsonl"), ("search", "log.jsonl")],
)
def test_a_tampered_line(here: Path, kind: str, name: str) -> None:
    path = Path(start(CONFIGS[kind]()).run)
    (path / "summary.json").unlink()
    file = path / name
    first, *others = file.read_text().splitlines()
    told = 0
    for other in tampered(json.loads(first)):
        file.write_text("".join(f"{line}\n" for line in [json.dumps(other), *others]))
        try:
            resume_run(path)
        except AutoproxError as error:
            told += name in str(error) and "\n" not in str(error)
        (path / "summary.json").unlink(missing_ok=True)
    assert told > 10


def test_a_tampered_summary(here: Path, run: Command) -> None:
    path = Path(start(CONFIGS["rank"]()).run)
    summary = path / "summary.json"
    content = json.loads(summary.read_text())
    assert resume_run(path).to_json() == {"run": str(path), **content}
    for other in ({**content, "rows": None}, {**content, "seeds": 2}, {}):
        summary.write_text(json.dumps(other))
        with pytest.raises(RunError, match=r"summary\.json must stay as it was written, but was"):
            resume_run(path)
    told = run("resume", str(path))
    assert (told.code, told.err.count("\n")) == (2, 1)
