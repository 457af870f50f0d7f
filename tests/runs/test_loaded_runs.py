"""Runs as objects."""

import json
import sys
from pathlib import Path

import pytest
from helpers.pages import NANO, RANK, spaces_run

import autoprox
from autoprox.errors import AutoproxError, RunError
from autoprox.export import latex
from autoprox.language import parse_expression
from autoprox.loaded_runs import EvolveResult, RankResult, SearchResult, load_run
from autoprox.runs.folder import Run


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> SearchResult:
    """A finished search."""
    return autoprox.search(
        space="autoformer-nano",
        proxy="sum(width)",
        samples=12,
        runs=tmp_path_factory.mktemp("runs"),
        progress=False,
    )


def test_a_run_that_was_made_is_the_one_that_is_loaded(search: SearchResult) -> None:
    run = load_run(str(search.path))
    assert isinstance(run, SearchResult)
    assert (run.kind, run.config["space"], run.finished) == ("search", "autoformer-nano", True)
    assert run.to_dict() == search.to_dict()
    stored = json.loads((search.path / "summary.json").read_text())
    assert run.to_dict() == {**stored, "run": str(search.path)}
    assert run.environment["python"].startswith("3.")
    assert run.rows("log") == run.log
    assert run.rows("candidates") == run.candidates
    assert len(run.candidates) == 12
    assert run.best == run.top[0]
    assert [row["score"] for row in run.rows()] == [row["score"] for row in run.top]
    assert set(run.rows()[0]) >= {"hidden_dim", "depth", "params", "score"}


def test_a_resumed_run_that_has_ended_is_read(search: SearchResult) -> None:
    assert autoprox.resume(search.path, progress=False).to_dict() == search.to_dict()


def test_a_run_in_a_notebook() -> None:
    shown = load_run(NANO)._repr_html_()
    assert "<th>kind</th><td>evolve</td>" in shown
    run = load_run(NANO)
    assert run._repr_latex_() == f"${latex(parse_expression(run.summary.expression))}$"
    assert load_run(RANK)._repr_latex_() is None


def test_an_overview_is_escaped(tmp_path: Path) -> None:
    with Run.create(tmp_path, "begun", {"kind": "search", "space": "<pit>"}) as begun:
        run = load_run(begun.path)
    assert "&lt;pit&gt;" in run._repr_html_()
    assert (run.finished, run.overview().ended) == (False, False)
    with pytest.raises(RunError, match="a run of search, has no table, or none yet"):
        run.rows()


@pytest.mark.parametrize("change", [{"seed": "x"}, {"benchmark": ["a"]}, {"space": 3}])
def test_an_overview_of_a_changed_configuration_is_refused(
    tmp_path: Path, change: dict[str, object]
) -> None:
    with Run.create(tmp_path, "begun", {"kind": "rank", **change}) as begun:
        run = load_run(begun.path)
    with pytest.raises(RunError, match="must hold what this version writes") as refused:
        run.overview()
    assert "\n" not in str(refused.value)


def test_a_run_lacks_what_another_has(
    search: SearchResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AutoproxError, match=r"unknown part of a run 'lgo' \(did you mean log\?\)"):
        search.rows("lgo")
    with pytest.raises(AutoproxError, match="has no evaluations"):
        search.rows("evaluations")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(AutoproxError, match=r"a data frame needs pandas.*pip install pandas"):
        search.to_frame()


def test_a_discovery_has_a_row_for_each_part_dataset_and_baseline() -> None:
    run = load_run(NANO)
    assert isinstance(run, EvolveResult)
    summary = json.loads((NANO / "summary.json").read_text())
    [quality] = summary["folds"][0]["spaces"].values()
    assert {dataset: own.kendall for dataset, own in run.test.items()} == {
        dataset: own["kendall"] for dataset, own in quality["test"].items()
    }
    assert run.train["cifar10"].partial_tau == quality["train"]["cifar10"]["partial_tau"]
    taus = {(row["part"], row["dataset"], row["scored_by"]): row["kendall"] for row in run.rows()}
    assert len(taus) == 2 * len(run.test) * (1 + len(quality["baselines"]))
    snip = quality["baselines"]["params"]["train"]["cifar10"]["kendall"]
    assert taus["train", "cifar10", "params"] == snip
    assert (run.log, run.environment) == ([], {})  # which committed runs don't keep


def test_a_held_out_space_has_no_training_part(tmp_path: Path) -> None:
    run = load_run(spaces_run(tmp_path / "run"))
    assert isinstance(run, EvolveResult)
    assert set(run.test) == {
        *(f"two/{dataset}" for dataset in load_run(NANO).test),
        *("one/cifar100", "one/flowers", "one/chaoyang"),
    }
    assert run.train == {}


def test_a_ranking_has_a_row_for_each_proxy_and_dataset() -> None:
    run = load_run(RANK)
    assert isinstance(run, RankResult)
    assert run.rows() == [row.model_dump() for row in run.summary.rows]
    assert {(row["proxy"], row["dataset"]) for row in run.rows()} >= {("snip", "flowers")}
