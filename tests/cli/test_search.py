"""`autoprox search` as a user types it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from helpers.commands import Command, called
from helpers.reports import lines_without_commands
from helpers.tables import table

from autoprox.runs.folder import Run
from autoprox.searchspaces import get_space

SPACE = "--space=autoformer-nano"
HEADS = "--proxy=sum(mul(width, heads))"


@pytest.fixture
def run(run: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command `search`, in a folder of its own and 80 columns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("COLUMNS", "80")

    return lambda *arguments: run("search", *arguments)


def comparable(summary: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in summary.items() if k not in ("run", "seconds")}


def test_one_json_document_on_stdout_and_the_rest_on_stderr(run: Command) -> None:
    result = run(SPACE, HEADS, "--samples=20", "--json")
    assert result.code == 0
    assert set(result.json) >= {"run", "best", "top", "evaluations", "seconds", "failed"}
    assert "search 20/20" in result.err


def test_a_search_without_a_proxy_says_which_it_takes(run: Command) -> None:
    assert "proxy  autoprox-1; --proxy takes another\n" in run(SPACE, "--samples=2").err
    assert "proxy  " not in run(SPACE, "--samples=2", "--proxy=snip").err


def test_the_report_fits_80_columns(run: Command) -> None:
    Path("judge.py").write_text("value = lambda architecture: 1e-9 / 3")
    arguments = ["--space=autoformer-b", "--samples=20", "--evaluator=judge:value"]
    result = run(*arguments, "--proxy=add(rank(sum(width)), rank(sum(tokens)))")
    assert result.code == 0, result.err
    assert max(map(len, lines_without_commands(result.out))) <= 80
    assert "Candidates: 20, 10 evaluated, 0 failed" in result.out
    for heading in ("candidate", "params", "flops", "score", "value", "hidden_dim", "Run: runs"):
        assert heading in result.out


def test_own_data_say_space_and_classes(run: Command) -> None:
    Path("mine.json").write_text(json.dumps(table()))
    given = [HEADS, "--samples=5", "--json"]
    own = run("--benchmark=mine.json", "--dataset=deep", *given).json
    best, space = own["best"], get_space("autoformer-nano")
    arch = space.architecture(best["arch"])
    assert best["params"] == space.params(arch, 4) < space.params(arch, 10)
    config = Run.open(Path(own["run"])).read_config()
    assert (config["space"], config["dataset"], config["classes"]) == ("autoformer-nano", "deep", 4)
    first = run("--benchmark=mine.json", *given).json
    assert Run.open(Path(first["run"])).read_config()["classes"] == 10
    stated = run(SPACE, "--classes=4", *given).json
    assert comparable(stated) == comparable(own)


def test_every_candidate_has_its_score(run: Command) -> None:
    found = run(SPACE, "--proxy=rank(sum(width))", "--samples=8", "--top=8", "--json").json
    text = (Path(found["run"]) / "candidates.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    scores = {entry["candidate"]: entry["score"] for entry in found["top"]}
    assert [line["score"] for line in lines] == [scores[number] for number in range(8)]
    assert all(len(line["terms"]) == 1 for line in lines)


def test_a_second_search_has_a_folder_of_its_own(run: Command) -> None:
    first, second = (run(SPACE, HEADS, "--samples=5", "--json").json for _ in range(2))
    assert first["run"] != second["run"]
    assert comparable(first) == comparable(second)


def test_a_finished_search_is_shown_again(run: Command) -> None:
    first = run(SPACE, HEADS, "--samples=5", "--json")
    assert called("resume", first.json["run"], "--json").json == first.json


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([HEADS], "a search needs space, or a benchmark that has one, but got none"),
        ([SPACE, HEADS, "--classes=0"], "classes must be a whole number >= 1, but got 0"),
        ([HEADS, "--benchmark=mine"], "unknown benchmark 'mine'"),
        ([SPACE, HEADS, "--params=1:0"], "`low <= high` must hold for params, but got '1:0'"),
        ([SPACE, HEADS, "--params=:10"], "the nearest params are "),
        ([SPACE, HEADS, "--population=3"], "unknown option 'population' of random"),
        ([SPACE, HEADS, "--strategy=etas"], "etas must have an evaluator"),
        ([SPACE, HEADS, "--evaluator=a:b"], "gives ModuleNotFoundError"),
        ([SPACE, "--proxy=snap"], "unknown name `snap`; nearest: `snip`"),
        ([SPACE, HEADS, "--nonsense"], "No such option: --nonsense"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(
    run: Command, arguments: list[str], message: str
) -> None:
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ")
    assert result.err.count("\n") == 1
    assert message in result.err
    assert not Path("runs").exists()


def test_networks_that_all_fail_are_a_failure(
    run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from autoprox.statistics import collector

    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("no luck")

    monkeypatch.setattr(collector, "collect_statistics", broken)
    result = run(SPACE, "--proxy=snip", "--samples=3")
    assert result.code == 1
    assert "all 3 failed: RuntimeError: no luck" in result.err


def test_an_interrupted_search_says_how_to_go_on(run: Command, tmp_path: Path) -> None:
    # Where the tests run in the background, interrupts are ignored, and so by every child.
    heeding = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heeding}; from autoprox.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "search", SPACE, "--proxy=snip", "--samples=5000"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (records := list(tmp_path.glob("runs/*/candidates.jsonl"))):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"`autoprox resume runs{os.sep}{records[0].parent.name}` continues it" in err
    assert Run.open(records[0].parent, "search").read_summary() is None


def test_the_help_names_every_strategy(run: Command) -> None:
    result = run("--help-all")
    assert result.code == 0
    for word in ("random", "blockwise", "etas", "evolution", "--evaluator", "inherited"):
        assert word in result.out
