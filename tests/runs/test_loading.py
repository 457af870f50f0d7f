"""Runs as objects."""

import json
import sys
from pathlib import Path

import pytest
from helpers.records import SNIP

from autoprox.errors import AutoproxError
from autoprox.export import latex
from autoprox.language import parse
from autoprox.runs import load
from autoprox.runs.folder import Run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A finished search."""
    with Run.create(tmp_path, "found", {"kind": "search", "space": "<pit>"}) as run:
        run.log({"step": 1})
        (run.path / "candidates.jsonl").write_text('{"params": 3}\n{"params": 4}\n')
        run.write_summary({"top": [{"candidate": 0}], "expression": SNIP})
        return run.path


def test_what_a_folder_says(path: Path) -> None:
    run = load(str(path))
    assert (run.kind, run.config["space"]) == ("search", "<pit>")
    assert run.summary == json.loads((path / "summary.json").read_text())
    assert run.environment["python"].startswith("3.")
    assert run.records() == [{"step": 1}]
    assert [line["params"] for line in run.records("candidates")] == [3, 4]
    assert run.records("table") == [{"candidate": 0}]


def test_in_a_notebook(path: Path) -> None:
    run = load(path)
    shown = run._repr_html_()
    assert "<th>kind</th><td>search</td>" in shown
    assert "&lt;pit&gt;" in shown
    assert run._repr_latex_() == f"${latex(parse(SNIP))}$"


def test_what_a_run_has_not(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = load(path)
    with pytest.raises(AutoproxError, match=r"unknown part of a run 'lgo' \(did you mean log\?\)"):
        run.records("lgo")
    with pytest.raises(AutoproxError, match="has no evaluations"):
        run.records("evaluations")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(AutoproxError, match="pip install pandas"):
        run.to_pandas()
