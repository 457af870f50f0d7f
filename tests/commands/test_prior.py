"""Evolutions with the prior knowledge of other tables."""

import json
from pathlib import Path
from typing import Any

import pytest
from helpers.tables import table
from scipy.stats import spearmanr

from autoprox.commands.evolve import EvolveTask
from autoprox.configurations.commands import EvolveConfig
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.errors import AutoproxError, ConfigError
from autoprox.evolution.prior_knowledge import prior_for
from autoprox.language import parse_expression
from autoprox.runner import start
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
