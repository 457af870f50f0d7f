"""Evolutions of power laws end to end: killed, resumed, reported, and put to use."""

import base64
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.commands import Command
from helpers.evolutions import only_fold, only_problem, only_quality
from helpers.interruptions import Stopped, stop_at
from helpers.tables import table
from scipy import stats

from autoprox.commands.evolve import EvolveSummary, EvolveTask
from autoprox.configurations.commands import EvolveConfig
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.errors import ConfigError, RunError
from autoprox.evaluation.full_resolution_choice import FullResolutionNetworks
from autoprox.evaluation.power_law_evaluator import PowerLawEvaluator
from autoprox.evolution.power_law import factors_of
from autoprox.files.atomic_writes import to_json, write_json
from autoprox.language import Tree, parse_expression
from autoprox.report.html.page_rendering import render_page
from autoprox.report.terminal.evolve_report import evolve_report
from autoprox.report.terminal.layout import show
from autoprox.runner import resume_run, start
from autoprox.runs.folder import Run, digest_of
from autoprox.scoring.bootstrap import split_networks

Options = dict[str, Any]
NETWORKS = 50
RESULT = ("run", "seconds")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two tables, which disagree."""
    folder = tmp_path_factory.mktemp("tables")
    first = table(NETWORKS)
    second = {**first, "name": "other", "datasets": {"wide": {"classes": 10}}}
    second["architectures"] = [
        {**row, "scores": {"wide": -row["scores"]["wide"]}} for row in first["architectures"][4:]
    ]
    for name, own in (("mine", first), ("other", second)):
        (folder / f"{name}.json").write_text(json.dumps(own))
    return folder


@pytest.fixture(scope="module")
def options(folder: Path) -> Options:
    """A quick evolution on one table, whose cache the tests share."""
    return {
        **{"benchmark": str(folder / "mine.json"), "cache": str(folder / "cache")},
        **{"batch_size": 2, "workers": 1, "zoo": ("none",), "statistics": ("msa.weight",)},
        **{"population": 30, "iterations": 3, "children": 8, "terms": 3, "stride": 1},
    }


@pytest.fixture(scope="module")
def several(options: Options, folder: Path) -> Options:
    """The same on both tables."""
    tables = [str(folder / "mine.json"), str(folder / "other.json")]
    return {**{n: v for n, v in options.items() if n != "benchmark"}, "spaces": tables}


@pytest.fixture(scope="module")
def finished(options: Options, folder: Path) -> EvolveSummary:
    return start(EvolveConfig(**options, runs=folder / "runs"))


def results(summary: EvolveSummary) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    """The summary, the log and the committee, without times and the run's name."""
    run = Run.open(Path(summary.run))
    log = [{k: v for k, v in line.items() if k != "seconds"} for line in run.read_log()]
    committee = json.loads((run.path / "hall_of_fame" / "committee.json").read_text())
    kept = {k: v for k, v in summary.to_json().items() if k not in RESULT}
    return kept, log, committee["expression"]


def test_a_run_is_complete(finished: EvolveSummary) -> None:
    fold = only_fold(finished)
    _, log, committee = results(finished)
    factors = factors_of(parse_expression(finished.expression))
    assert factors is not None
    assert 1 <= len(factors) <= 3
    assert [line["iteration"] for line in log] == [1, 2, 3]
    assert fold.evaluations == log[-1]["evaluations"] == 30 + 3 * 8
    best = [line["best"] for line in log]
    assert best == sorted(best)  # the best power law is never lost
    assert fold.counts.population.done == fold.counts.population.asked == 30
    assert fold.committee == committee
    members = factors_of(parse_expression(committee))
    assert members is not None
    assert 3 < len(members) <= 2 * 3
    assert {term for term, _ in factors} <= {term for term, _ in members}
    assert [own.chosen for own in fold.front].count(True) == 1


def test_factors_have_the_spread_of_their_terms(finished: EvolveSummary, options: Options) -> None:
    """The standard deviation of the logarithms around each dataset's mean, at full resolution."""
    fold = only_fold(finished)
    problem = only_problem(EvolveTask(EvolveConfig(**options)))
    terms = [parse_expression(own.expression) for own in fold.factors]
    source = problem.collect(
        EvolveTask(EvolveConfig(**options)).needs(), problem.parts["train"], 2**28
    )
    values = np.log(np.abs(TreeEvaluator(source).evaluate(terms).values))
    for own, logs in zip(fold.factors, values, strict=True):
        centred = logs - logs.mean(axis=-1, keepdims=True)
        assert own.spread == pytest.approx((centred**2).mean() ** 0.5, rel=1e-4)
        assert own.share == pytest.approx(own.exponent * own.spread)
    expected = factors_of(parse_expression(finished.expression))
    assert {(own.expression, own.exponent) for own in fold.factors} == {
        (str(term), exponent) for term, exponent in expected or []
    }
    shares = [abs(own.share or 0.0) for own in fold.factors]
    assert shares == sorted(shares, reverse=True)


def test_what_is_printed_is_what_is_scored(
    finished: EvolveSummary, options: Options, capsys: pytest.CaptureFixture[str]
) -> None:
    """Powers of the terms, multiplied by numpy, have the reported taus with the true scores."""
    problem = only_problem(EvolveTask(EvolveConfig(**options)))
    show(*evolve_report(finished))
    printed = capsys.readouterr().out
    [text] = [line for line in printed.splitlines() if line == finished.expression]
    factors = factors_of(parse_expression(text)) or []
    test = problem.parts["test"]
    source = problem.collect(EvolveTask(EvolveConfig(**options)).needs(), test, 2**28)
    values = TreeEvaluator(source).evaluate([term for term, _ in factors]).values
    exponents = np.array([exponent for _, exponent in factors])[:, None, None]
    scores = np.prod(np.abs(values) ** exponents, axis=0)
    for own, (name, truth) in zip(scores, problem.benchmark.scores.items(), strict=True):
        row = only_quality(finished).test[name]
        assert row.tau_b == pytest.approx(stats.kendalltau(own, truth[test]).statistic, abs=1e-6)
    assert "The factors of the power law" in printed
    assert [line for line in printed.splitlines() if line.split()[:1] == ["committee"]]
    page = render_page([Run.open(Path(finished.run)).path])
    assert "The factors of the power law" in page
    assert "committee" in page


def test_the_progress_counts_networks_at_full_resolution(options: Options, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []

    def progress(task: str, done: int, total: int, note: str) -> None:
        if task == "measure":
            told.append((done, total))

    start(EvolveConfig(**options, runs=tmp_path), progress)
    first = told.index((0, NETWORKS))
    counted = [(done, NETWORKS) for done in range(NETWORKS + 1)]
    assert told[first : first + len(counted)] == counted
    assert (told[0], told[-1]) == ((0, 1), (1, 1))


def test_terms_need_a_value_on_the_test_networks_too(options: Options, tmp_path: Path) -> None:
    whole = json.loads(Path(options["benchmark"]).read_text())
    rows = whole["architectures"]
    mixed = [own for own in rows if len(set(own["arch"]["num_heads"])) > 1]
    alike = next(own for own in rows if len(set(own["arch"]["num_heads"])) == 1)
    _, test = split_networks(len(mixed) + 1, 0, EvolveConfig(**options).train)
    mixed.insert(int(test[0]), alike)
    path = tmp_path / "one.json"
    path.write_text(json.dumps({**whole, "architectures": mixed}))
    full = only_problem(
        EvolveTask(EvolveConfig(**{**options, "benchmark": str(path)}))
    ).full_resolution({})
    terms = list(map(parse_expression, ("sum(heads)", "var(heads)")))
    assert full.usable_everywhere(terms).tolist() == [True, False]
    networks = full.training_networks(terms).scores(terms)
    assert (networks.values[1] > 0).all()


@pytest.mark.parametrize("why", ["without a value", "alike"])
def test_terms_that_are_lost_at_full_resolution_are_not_used(
    why: str,
    finished: EvolveSummary,
    options: Options,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = parse_expression(only_fold(finished).committee or "")
    gone = {term for term, _ in (factors_of(lost) or [])[:1]}
    usable, logs = FullResolutionNetworks.usable_everywhere, PowerLawEvaluator.logs

    def without_one(self: FullResolutionNetworks, terms: Sequence[Tree]) -> Any:
        return usable(self, terms) & [term not in gone for term in terms]

    def with_one_alike(self: PowerLawEvaluator, terms: Sequence[Tree]) -> Any:
        rounded = logs(self, terms)  # what is alike but for rounding would get a huge exponent
        return np.where([[term in gone] for term in terms], 30 + 1e-14 * rounded, rounded)

    if why == "alike":
        monkeypatch.setattr(PowerLawEvaluator, "logs", with_one_alike)
    else:
        monkeypatch.setattr(FullResolutionNetworks, "usable_everywhere", without_one)
    found = only_fold(start(EvolveConfig(**options, runs=tmp_path)))
    for expression in (found.expression, found.committee or ""):
        factors = dict(factors_of(parse_expression(expression)) or [])
        assert factors
        assert not gone & set(factors)


def test_without_usable_terms_at_full_resolution_a_formula_of_the_front_is_chosen(
    options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        FullResolutionNetworks, "usable_everywhere", lambda self, terms: np.zeros(len(terms), bool)
    )
    found = only_fold(start(EvolveConfig(**options, runs=tmp_path)))
    [chosen] = [own for own in found.front if own.chosen]
    assert (found.expression, found.committee) == (chosen.expression, None)
    assert {own.spread for own in found.factors} == {None}


def test_a_killed_run_ends_with_the_same_result(
    finished: EvolveSummary, options: Options, tmp_path: Path
) -> None:
    with pytest.raises(Stopped):
        start(EvolveConfig(**options, runs=tmp_path), stop_at("collect", 5))
    [run] = tmp_path.iterdir()
    for task, occurrence in (("evolve", 1), ("evolve", 2), ("evolve", 3), ("measure", 2)):
        with pytest.raises(Stopped):
            resume_run(run, stop_at(task, occurrence))
    assert results(resume_run(run, workers=2)) == results(finished)


def test_a_killed_run_on_several_spaces_ends_with_the_same_result(
    several: Options, tmp_path: Path
) -> None:
    config = {**several, "hold_out": "each", "islands": 2, "iterations": 2, "terms": 2}
    whole = start(EvolveConfig(**config, runs=tmp_path / "whole"))
    assert [len(fold.islands) for fold in whole.folds] == [2, 2]
    assert [fold.evaluations for fold in whole.folds] == [2 * (30 + 2 * 8)] * 2
    with pytest.raises(Stopped):
        start(EvolveConfig(**config, runs=tmp_path / "cut"), stop_at("evolve", 3))
    [cut] = (tmp_path / "cut").iterdir()
    for occurrence in (3, 6):
        with pytest.raises(Stopped):
            resume_run(cut, stop_at("evolve", occurrence))
    assert results(resume_run(cut)) == results(whole)


@pytest.fixture(scope="module")
def cut(options: Options, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was stopped after its first iteration."""
    folder = tmp_path_factory.mktemp("cut")
    with pytest.raises(Stopped):
        start(EvolveConfig(**options, runs=folder), stop_at("evolve", 2))
    [run] = folder.iterdir()
    return run


ZIP_BOMB = base64.b64encode(zlib.compress(bytes(2**26), 9)).decode()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"logs": "no base64"}, "logs must be zlib and base64"),
        ({"logs": ZIP_BOMB}, "logs must be of"),
        ({"logs": ""}, "logs must be of"),
        ({"terms": []}, "logs must be of 0 terms"),
        ({"terms": ["sum(nothing)"]}, "logs must be of 1 terms|unknown"),
        (None, "power laws need an archive"),
    ],
)
def test_a_forged_archive_is_refused_in_one_line(
    cut: Path, changed: dict[str, Any] | None, message: str, run: Command
) -> None:
    path = cut / "checkpoint.json"
    before = path.read_bytes()
    state = json.loads(before)["state"]
    [island] = state["islands"]
    island["archive"] = None if changed is None else {**island["archive"], **changed}
    write_json(path, {"sha256": digest_of(to_json(state)), "state": state})
    try:
        with pytest.raises(RunError, match=message):
            resume_run(cut)
        found = run("resume", str(cut), "--quiet")
        assert (found.code, found.out, found.err.count("\n")) == (2, "", 1)
    finally:
        path.write_bytes(before)


@pytest.mark.parametrize(("budget", "iterations"), [(12, 0), (33, 0), (40, 1)])
def test_a_budget_ends_the_evolution(
    options: Options, tmp_path: Path, budget: int, iterations: int
) -> None:
    summary = start(EvolveConfig(**options, evaluations=budget, runs=tmp_path))
    fold = only_fold(summary)
    assert fold.evaluations == budget
    assert fold.counts.population.done == min(budget, 30)
    assert fold.counts.iterations.done == iterations
    assert fold.ended is not None
    assert fold.ended.startswith(f"{budget} evaluations: ")


@pytest.mark.parametrize(
    "changed",
    [
        {"objective": "size-adjusted"},
        {"objective": "both"},
        {"terms": 1},
        {"dataset_weights": (1.0, 0.0)},
        {"strategy": "random"},
        {"representation": "two-inputs", "max_size": 11},
    ],
    ids=str,
)
def test_options_of_an_evolution(options: Options, tmp_path: Path, changed: Options) -> None:
    summary = start(EvolveConfig(**{**options, **changed}, runs=tmp_path))
    fold = only_fold(summary)
    factors = factors_of(parse_expression(summary.expression)) or []
    assert 1 <= len(factors) <= changed.get("terms", 3)
    for own in fold.front:
        size = own.partial_tau if summary.objective == "size-adjusted" else own.jcm
        assert np.isfinite(size)
    if changed.get("dataset_weights"):
        assert all(own.jcm == pytest.approx((own.taus or {})["wide"]) for own in fold.front)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"halving": True}, "--halving compares whole formulas: it needs --form tree"),
        ({"tolerance": 0.0}, "--tolerance compares whole formulas: it needs --form tree"),
        ({"strategy": "elitist"}, "--strategy elitist compares whole formulas: it needs"),
        ({"terms": 30, "max_size": 40}, "30 terms of these sizes may have 1289 and 12: lower"),
        ({"max_depth": 100, "max_size": 120, "terms": 8}, "may have 983 and 104: lower"),
        ({"form": "powerlaw"}, "unknown form 'powerlaw'"),
    ],
    ids=str,
)
def test_wrong_choices_are_errors_of_one_line(
    options: Options, changed: Options, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        EvolveTask(EvolveConfig(**{**options, **changed}))
    assert "\n" not in str(error.value)


def test_the_defaults_of_the_forms_differ() -> None:
    law, tree = EvolveConfig(), EvolveConfig(form="tree")
    assert (law.form, law.population, law.max_size, law.structure) == ("power-law", 1500, 7, True)
    assert (tree.population, tree.max_size, tree.structure) == (20, 40, False)
    assert EvolveConfig(population=9).population == 9


def test_a_committee_goes_wherever_a_proxy_goes(
    finished: EvolveSummary, folder: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "xdg"))
    committee, expression = f"{finished.run}:committee", only_fold(finished).committee
    assert run("show", committee, "--json").json["expression"] == expression
    assert run("export", "proxy", committee, "--format", "text").out.strip() == expression
    small = ("--batch-size", "2", "--json", "--quiet")
    ranked = run("rank", "--benchmark", "mine.json", "--proxies", committee, *small)
    assert ranked.code == 0, ranked.err
    assert {row["proxy"] for row in ranked.json["rows"]} == {committee}
    compared = run("compare", finished.run, committee, *small)
    assert compared.code == 0, compared.err
    search = ("search", "--space", "autoformer-nano", "--proxy", committee, *small)
    found = run(*search, "--samples", "3")
    assert found.code == 0, found.err
    assert found.json["evaluations"] == 3
    blockwise = ("--strategy", "blockwise", "--population", "4", "--steps", "2")
    found = run(*search, *blockwise, "--mutants", "2", "--crossovers", "2")
    assert found.code == 0, found.err
