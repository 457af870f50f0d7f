"""Evolutions with the prior knowledge of other tables."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from helpers.commands import Command
from helpers.tables import table
from scipy.stats import spearmanr

from autoprox.commands.evolve import EvolveSummary, EvolveTask
from autoprox.configurations.commands import EvolveConfig
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.errors import AutoproxError, ConfigError
from autoprox.evolution.prior_knowledge import prior_for
from autoprox.language import parse_expression
from autoprox.report.terminal.evolve_report import evolve_report
from autoprox.runner import start
from autoprox.searchspaces import get_space
from autoprox.statistics.matrix_sources import UncachedMatrices

QUICK: dict[str, Any] = {
    **{"batch_size": 1, "workers": 1, "zoo": ("none",), "population": 6, "iterations": 1},
    **{"children": 2, "terms": 2, "stride": 1},
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "mine.json").write_text(json.dumps(table(12)))
    return tmp_path


def test_with_three_labels_the_committee_is_nearly_the_prior() -> None:
    options = {**QUICK, "benchmark": "mine.json", "train": 0.25}
    task = EvolveTask(EvolveConfig(**options))
    (problem,) = task.problems.values()
    assert task.config.prior
    assert len(problem.parts["train"]) == 3
    found = start(EvolveConfig(**options))
    [fold] = found.folds  # type: ignore[attr-defined]
    prior = prior_for("mine", problem.space.name)
    assert found.prior == tuple(map(str, prior.tables))  # type: ignore[attr-defined]
    source = UncachedMatrices(problem.setting(stride=1), problem.networks(), task.pool)
    trees = [prior.tree, parse_expression(fold.committee)]
    one, other = TreeEvaluator(source).evaluate(trees).values[:, 0]
    assert spearmanr(one, other).statistic > 0.9
    assert "predictor" in next(iter(fold.spaces.values())).baselines


def test_the_prior_of_a_built_in_table_is_without_it() -> None:
    task = EvolveTask(EvolveConfig(space="pit-nano", prior=True, **QUICK))
    assert task.prior is not None
    assert "pit-nano" not in {own.space for own in task.prior.tables}
    assert EvolveTask(EvolveConfig(space="pit-nano", **QUICK)).prior is None  # labels enough


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"train": 0.2}, "at least 3 networks must be for training, but are 2 of .*autoprox-1"),
        ({"prior": True, "form": "tree"}, "--prior needs --form power-law and a single space"),
        ({"prior": True, "statistics": ("msa.weight",)}, "--prior reads more than formulas may"),
    ],
)
def test_what_is_refused(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EvolveTask(EvolveConfig(**{**QUICK, "benchmark": "mine.json", **changed}))


def written(name: str, count: int, **change: Any) -> None:
    rows = table(count)
    for row in rows["architectures"] if change.get("flat") else ():
        row["scores"] = dict.fromkeys(row["scores"], 1.0)
    Path(name).write_text(json.dumps(rows))


@pytest.mark.parametrize("command", ["evolve", "curve"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--benchmark two.json", "must be at least 10 to correlate over, but are 2"),
        ("--benchmark flat.json", "must have at least two distinct scores"),
        ("--benchmark text.json", "must be complete JSON"),
        ("--benchmark nowhere.json", "there is no such file"),
        ("--benchmark mine.json --space pit-nano", "must be the space that was asked for"),
        ("--benchmark mine.json --batch-size 0", "batch_size must be a whole number >= 1"),
        ("--benchmark mine.json --zoo snop", "unknown proxy 'snop'"),
    ],
)
def test_wrong_tables_and_options_take_one_line_and_change_nothing(
    command: str, arguments: str, message: str, run: Command, folder: Path
) -> None:
    written("two.json", 2)
    written("flat.json", 12, flat=True)
    Path("text.json").write_text("no JSON")
    before = {own.name: own.read_bytes() for own in folder.glob("*.json")}
    told = run(command, *arguments.split())
    assert (told.code, told.err.count("\n")) == (2, 1)
    assert message in told.err
    assert not (folder / "runs").exists()
    assert {own.name: own.read_bytes() for own in folder.glob("*.json")} == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--train 0.2", "at least 3 networks must be for training, but are 2"),
        ("--prior --form tree", "--prior needs --form power-law and a single space"),
        ("--prior --no-structure", "--prior reads more than formulas may read: --structure"),
        ("--prior --statistics msa.weight", "--prior reads more than formulas may read"),
    ],
)
def test_wrong_options_of_a_prior_take_one_line(
    arguments: str, message: str, run: Command, folder: Path
) -> None:
    told = run("evolve", "--benchmark", "mine.json", *arguments.split())
    assert (told.code, told.err.count("\n")) == (2, 1)
    assert message in told.err
    assert not (folder / "runs").exists()


def test_a_table_of_a_space_that_the_prior_does_not_know_is_taken_and_said(
    run: Command, folder: Path
) -> None:
    rows = table(12)
    space, rng = get_space("swin-nano"), Random(0)
    for row in rows["architectures"]:
        row["arch"] = space.sample(rng).to_json()["choices"]
    Path("swins.json").write_text(json.dumps({**rows, "space": "swin-nano"}))
    told = run("evolve", "--benchmark", "swins.json", "--prior", "--dry-run")
    assert told.code == 0, told.err
    found = start(EvolveConfig(**{**QUICK, "benchmark": "mine.json", "train": 0.25}))
    assert isinstance(found, EvolveSummary)
    named = {"swin-nano": found.spaces["autoformer-nano"].model_copy(update={"space": "swin-nano"})}
    parts = evolve_report(found.model_copy(update={"spaces": named}))
    assert "none of them is of swin-nano" in " ".join(" ".join(map(str, parts)).split())
    parts = evolve_report(found)
    assert "none of them is of" not in " ".join(" ".join(map(str, parts)).split())


def test_equal_labels_are_refused() -> None:
    rows = table(12)
    for row in rows["architectures"]:
        row["scores"] = dict.fromkeys(row["scores"], 1.0)
    Path("flat.json").write_text(json.dumps(rows))
    with pytest.raises(AutoproxError, match="at least two distinct scores"):
        EvolveTask(EvolveConfig(**{**QUICK, "benchmark": "flat.json"}))


def test_terms_of_a_prior_that_are_too_large_to_vary_are_kept() -> None:
    small = {**QUICK, "iterations": 3, "max_size": 3, "max_depth": 2}
    found = start(EvolveConfig(**small, benchmark="mine.json", train=0.25))
    assert found.folds[0].counts.iterations.done == 3
