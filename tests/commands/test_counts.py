"""Requested counts of evolutions, published proxies and datasets, and those in runs' files."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from deap import base
from helpers.evolutions import only_fold, only_problem, only_quality
from helpers.interruptions import Stopped, stop_at
from helpers.reports import lines_without_commands
from helpers.tables import table
from scipy import stats

from autoprox.commands.evolve import EvolutionCounts, EvolveSummary, EvolveTask
from autoprox.commands.evolve import RequestedAndDone as Done
from autoprox.configurations.commands import EvolveConfig
from autoprox.errors import AutoproxError
from autoprox.evaluation.cached_zoo_scores import ZooScores
from autoprox.evaluation.successive_halving import SuccessiveHalving
from autoprox.evolution import STRATEGIES, EvolutionError, EvolutionStrategy, Individual
from autoprox.evolution import make_toolbox as made_toolbox
from autoprox.language import Tree, parse_expression
from autoprox.report.html.page_rendering import render_page
from autoprox.report.terminal.evolve_report import evolve_report, without_metrics
from autoprox.report.terminal.layout import show
from autoprox.runner import resume_run, start
from autoprox.runs.folder import Run

Options = dict[str, Any]


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Options:
    """A quick evolution on the first of two tables of tiny networks."""
    folder = tmp_path_factory.mktemp("tables")
    first = table(24)
    rows = [
        {**row, "scores": {"wide": row["scores"]["wide"]}} for row in first["architectures"][4:]
    ]
    second = {**first, "name": "other", "datasets": {"wide": {"classes": 10}}}
    second["architectures"] = rows
    for name, own in (("mine", first), ("other", second)):
        (folder / f"{name}.json").write_text(json.dumps(own))
    return {
        "form": "tree",
        "benchmark": str(folder / "mine.json"),
        **{"cache": str(folder / "cache"), "batch_size": 2, "workers": 1, "zoo": ("none",)},
        **{"statistics": ("all.weight",), "population": 6, "iterations": 3, "children": 4},
        **{"max_size": 8, "max_depth": 6},
    }


@pytest.fixture
def several(options: Options) -> Options:
    """The same on both of the tables."""
    tables = [options["benchmark"], str(Path(options["benchmark"]).with_name("other.json"))]
    return {**{n: v for n, v in options.items() if n != "benchmark"}, "spaces": tables}


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[Tree]:
    """A list to which every formula is added that an evolution evaluates."""
    trees: list[Tree] = []

    def counting(*given: Any) -> base.Toolbox:
        toolbox = made_toolbox(*given)
        evaluate = toolbox.evaluate

        def counted(own: Sequence[Tree]) -> list[Individual]:
            trees.extend(own)
            return list(evaluate(own))

        toolbox.evaluate = counted
        return toolbox

    monkeypatch.setattr("autoprox.commands.evolve.make_toolbox", counting)
    return trees


def printed(capsys: pytest.CaptureFixture[str], summary: EvolveSummary) -> str:
    show(*evolve_report(summary))
    return " ".join(capsys.readouterr().out.split())


def log_of(summary: EvolveSummary) -> list[dict[str, Any]]:
    return Run.open(Path(summary.run)).read_log()


def comparable(summary: EvolveSummary) -> EvolveSummary:
    """The summary without the run's name and the time."""
    return summary.model_copy(update={"run": "", "seconds": 0.0})


@pytest.mark.parametrize(
    ("strategy", "budget"),
    [("mixture", 2), ("mixture", 13), ("elitist", 13), ("naive", 400), ("random", 13)],
)
def test_no_more_formulas_are_evaluated_than_the_budget(
    options: Options, evaluated: list[Tree], tmp_path: Path, strategy: str, budget: int
) -> None:
    config = EvolveConfig(**options, evaluations=budget, strategy=strategy, runs=tmp_path)
    summary = start(config)
    fold, log = only_fold(summary), log_of(summary)
    assert fold.evaluations == len(evaluated) == log[-1]["evaluations"] <= budget
    assert fold.counts.evaluations == Done(asked=budget, done=len(evaluated))
    assert fold.counts.iterations == Done(asked=3, done=log[-1]["iteration"])
    assert (fold.ended is None) == (budget == 400) == (log[-1]["iteration"] == 3)
    assert (len(evaluated) == budget) == (budget < 400)


def test_a_budget_that_ends_within_the_first_population_is_reported(
    options: Options, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = start(EvolveConfig(**{**options, "population": 50}, evaluations=20, runs=tmp_path))
    fold = only_fold(summary)
    ended = "20 evaluations: no iteration was completed; the formula is the best of 20 random ones"
    assert fold.ended == ended
    assert 0 < fold.counts.population.done <= 20 - sum(fold.invalid.values())
    assert fold.counts.population.asked == 50
    shown = printed(capsys, summary)
    assert f"{ended}." in shown
    assert "Formulas evaluated: 20 of at most 20, " in shown


def test_a_budget_that_ends_within_an_iteration_is_reported(
    options: Options, evaluated: list[Tree], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = EvolveConfig(**{**options, "iterations": 200}, evaluations=31, runs=tmp_path)
    summary = start(config)
    *before, last = log_of(summary)
    assert [line["iteration"] for line in before] == list(range(1, len(before) + 1))
    complete = last["evaluations"] - before[-1]["evaluations"] == options["children"]
    done = only_fold(summary).counts.iterations.done
    assert done == len(before) + complete == last["iteration"]
    assert len(evaluated) == 31
    sentence = f"31 evaluations: {done} of 200 iterations were"
    assert sentence in printed(capsys, summary)


def test_iterations_may_end_before_the_budget(
    options: Options, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = start(EvolveConfig(**options, evaluations=10**6, runs=tmp_path))
    fold = only_fold(summary)
    assert fold.ended is None
    assert fold.counts.iterations == Done(asked=3, done=3)
    assert f"Formulas evaluated: {fold.evaluations} of at most 1000000, " in printed(
        capsys, summary
    )


def test_a_budget_that_finds_no_valid_formula_is_refused(
    options: Options, evaluated: list[Tree], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def invalid(self: object, trees: Sequence[Tree]) -> list[Individual]:
        return [Individual(tree, reason="constant") for tree in trees]

    monkeypatch.setattr("autoprox.commands.evolve.FitnessEvaluator.evaluate", invalid)
    message = "evaluations must be enough to find a valid formula, but all 1 .*: 1 constant"
    with pytest.raises(EvolutionError, match=message):
        start(EvolveConfig(**options, evaluations=1, runs=tmp_path))
    assert len(evaluated) == 1


@pytest.mark.parametrize(("budget", "occurrence"), [(4, 2), (31, 3)])
def test_a_resumed_evolution_keeps_to_the_budget(
    options: Options, evaluated: list[Tree], tmp_path: Path, budget: int, occurrence: int
) -> None:
    given = {**options, "iterations": 50, "strategy": "elitist", "evaluations": budget}
    whole = start(EvolveConfig(**given, runs=tmp_path / "whole"))
    assert len(evaluated) == budget
    with pytest.raises(Stopped):
        start(EvolveConfig(**given, runs=tmp_path / "cut"), stop_at("evolve", occurrence))
    [cut] = (tmp_path / "cut").iterdir()
    resumed = resume_run(cut)
    assert comparable(resumed) == comparable(whole)
    untimed = [[{**line, "seconds": 0} for line in log_of(own)] for own in (resumed, whole)]
    assert untimed[0] == untimed[1]


@pytest.mark.parametrize(
    ("halving", "islands", "budget"), [(True, 1, 1), (False, 3, 20), (True, 3, 4)]
)
def test_islands_share_a_budget(
    several: Options,
    evaluated: list[Tree],
    tmp_path: Path,
    halving: bool,
    islands: int,
    budget: int,
) -> None:
    config = EvolveConfig(
        **several, islands=islands, evaluations=budget, halving=halving, runs=tmp_path
    )
    fold = only_fold(start(config))
    assert fold.evaluations == len(evaluated) == budget
    assert fold.counts.evaluations == Done(asked=budget, done=budget)
    each = [island.evaluations for island in fold.islands]
    assert len(each) == islands
    assert sum(each) == budget
    assert max(each) - min(each) <= 1
    assert fold.ended is not None
    assert "no iteration was completed" in fold.ended


def test_each_evolution_of_spaces_held_out_has_the_budget(
    several: Options, evaluated: list[Tree], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {**several, "islands": 2, "evaluations": 23, "hold_out": "each"}
    whole = start(EvolveConfig(**given, runs=tmp_path / "whole"))
    assert [fold.evaluations for fold in whole.folds] == [23, 23]
    assert len(evaluated) == 46
    assert printed(capsys, whole).count("Formulas evaluated: 23 of at most 23, ") == 2
    with pytest.raises(Stopped):
        start(EvolveConfig(**given, runs=tmp_path / "cut"), stop_at("evolve", 2))
    [cut] = (tmp_path / "cut").iterdir()
    for occurrence in (4, 3):
        with pytest.raises(Stopped):
            resume_run(cut, stop_at("evolve", occurrence))
    assert comparable(resume_run(cut)) == comparable(whole)


def test_an_island_without_a_valid_formula_is_kept_across_a_resume(
    several: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first formula of all is invalid, and it is the only one of the first island."""
    known = SuccessiveHalving.evaluate
    first: list[Tree] = []

    def evaluate(self: SuccessiveHalving, trees: Sequence[Tree]) -> list[Individual]:
        first.extend(trees[: not first])
        found = known(self, trees)
        return [
            Individual(own.tree, reason="constant") if own.tree == first[0] else own
            for own in found
        ]

    monkeypatch.setattr(SuccessiveHalving, "evaluate", evaluate)
    given = {**several, "islands": 3, "evaluations": 3}
    whole = start(EvolveConfig(**given, runs=tmp_path / "whole"))
    fold = only_fold(whole)
    assert [island.evaluations for island in fold.islands] == [1, 1, 1]
    assert fold.counts.population == Done(asked=6, done=0)
    with pytest.raises(Stopped):
        start(EvolveConfig(**given, runs=tmp_path / "cut"), stop_at("evolve", 3))
    [cut] = (tmp_path / "cut").iterdir()
    assert comparable(resume_run(cut)) == comparable(whole)


@pytest.mark.parametrize(("strategy", "children"), [("mixture", 1), ("naive", 7), ("random", 7)])
def test_an_iteration_has_the_requested_children(
    options: Options, tmp_path: Path, strategy: str, children: int
) -> None:
    given = {**options, "children": children, "strategy": strategy}
    log = log_of(start(EvolveConfig(**given, runs=tmp_path)))
    steps = [own["evaluations"] - one["evaluations"] for one, own in itertools.pairwise(log)]
    assert steps == [children] * 2


def test_a_plug_in_that_evaluates_by_itself_keeps_to_the_budget(
    options: Options, evaluated: list[Tree], tmp_path: Path
) -> None:
    def vary(population: Any, toolbox: base.Toolbox, parameters: Any, rng: Any) -> Any:
        tried = toolbox.evaluate([toolbox.generate(rng) for _ in range(parameters.children)])
        return [(None, own.tree) for own in tried if own.valid]

    with STRATEGIES.trial("greedy", EvolutionStrategy(vary)):
        summary = start(
            EvolveConfig(
                **{**options, "iterations": 50}, evaluations=33, strategy="greedy", runs=tmp_path
            )
        )
    assert only_fold(summary).evaluations == len(evaluated) == 33


ZOO = ("snip", "synflow", "naswot")


def tau_of_untied(scores: np.ndarray, truth: np.ndarray) -> float:
    """Kendall's tau-b by scipy times the root of the share of pairs with different scores."""
    pairs = itertools.combinations(range(len(scores)), 2)
    untied = np.mean([scores[one] != scores[other] for one, other in pairs])
    return float(stats.kendalltau(scores, truth).statistic * untied**0.5)


@pytest.mark.parametrize("zoo", [ZOO[:1], (*ZOO, ZOO[0])])
def test_every_requested_published_proxy_has_metrics(
    options: Options, tmp_path: Path, capsys: pytest.CaptureFixture[str], zoo: tuple[str, ...]
) -> None:
    config = EvolveConfig(**{**options, "zoo": zoo, "iterations": 1}, runs=tmp_path)
    summary = start(config)
    quality, problem = only_quality(summary), only_problem(EvolveTask(config))
    names = list(dict.fromkeys(zoo))
    assert quality.zoo.compared == names
    assert quality.zoo.missing == {}
    scores = problem.zoo_scores().scores
    for name in names:
        for part, networks in problem.parts.items():
            taus = [
                tau_of_untied(scores[name][dataset][networks], truth[networks])
                for dataset, truth in problem.benchmark.scores.items()
            ]
            rows = getattr(quality.baselines[name], part).values()
            assert [row.kendall for row in rows] == pytest.approx(taus)
            mean = getattr(quality.means[name], part)
            assert mean.kendall == pytest.approx(np.mean(taus))
            assert mean.partial_tau is not None
        assert quality.comparison[name].kendall.verdict is not None
    show(*evolve_report(summary))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines_without_commands("\n".join(lines)))) <= 80
    table_lines = lines[lines.index("Published proxies, means over the datasets") :]
    for part in ("test", "train"):
        for name in names:
            row = getattr(quality.means[name], part)
            figures = [f"{row.kendall:.3f}", f"{row.partial_tau:.3f}"]
            assert any(
                line.split()[0:2] == [name, figures[0]] and figures[1] in line
                for line in table_lines
            )
    page = render_page([Path(summary.run)])
    assert "Published proxies, means over the datasets" in page
    assert all(f"wide: {name}" in page for name in names)


def test_networks_without_a_value_of_a_published_proxy_are_reported(
    options: Options, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = only_problem(EvolveTask(EvolveConfig(**{**options, "zoo": ZOO}, runs=tmp_path)))
    scores, refused = problem.zoo_scores()
    lacking = {dataset: own.copy() for dataset, own in scores["snip"].items()}
    lacking["wide"][[0, 3]] = np.nan
    zoo = ZooScores({**scores, "snip": lacking}, refused)
    found = problem.full_resolution({}).ranking_quality(parse_expression("sum(width)"), zoo)
    assert found.zoo.missing == {"snip": 2}
    assert found.means["synflow"].test.kendall is not None
    assert None in (found.means["snip"].test.kendall, found.means["snip"].train.kendall)
    assert without_metrics(found) == ["snip has no value on 2 networks."]


def test_every_named_proxy_is_shown_for_every_space(
    several: Options, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = start(EvolveConfig(**{**several, "zoo": ZOO, "iterations": 1}, runs=tmp_path))
    show(*evolve_report(summary))
    rows = [line.split()[:2] for line in capsys.readouterr().out.splitlines()]
    for own in only_fold(summary).spaces.values():
        for name in ZOO:
            assert [name, f"{own.means[name].test.kendall:.3f}"] in rows


@pytest.mark.parametrize("datasets", [("wide",), ("deep", "wide")])
def test_the_requested_datasets_are_those_of_the_result(
    options: Options, tmp_path: Path, datasets: tuple[str, ...]
) -> None:
    given = {**options, "datasets": datasets, "iterations": 1}
    summary = start(EvolveConfig(**given, runs=tmp_path))
    (source,) = summary.spaces.values()
    assert tuple(only_quality(summary).test) == tuple(source.inputs) == datasets
    with pytest.raises(AutoproxError, match="far"):
        start(EvolveConfig(**{**given, "datasets": (*datasets, "far")}, runs=tmp_path))


def test_a_space_without_a_requested_dataset_is_reported(
    several: Options, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {**several, "datasets": ("wide", "deep"), "iterations": 1}
    summary = start(EvolveConfig(**given, runs=tmp_path))
    lacking = {name: own.lacking for name, own in summary.spaces.items()}
    assert lacking == {"mine": (), "other": ("deep",)}
    shown = printed(capsys, summary)
    assert "other has no scores on deep." in shown
    assert "mine has no scores" not in shown


@pytest.mark.parametrize(("iterations", "population"), [(1, 5), (7, 2)])
def test_iterations_and_population_are_those_requested(
    options: Options, tmp_path: Path, iterations: int, population: int
) -> None:
    given = {**options, "iterations": iterations, "population": population}
    summary = start(EvolveConfig(**given, runs=tmp_path / "whole"))
    log = log_of(summary)
    assert [line["iteration"] for line in log] == list(range(1, iterations + 1))
    assert only_fold(summary).counts == EvolutionCounts(
        iterations=Done(asked=iterations, done=iterations),
        evaluations=Done(asked=None, done=log[-1]["evaluations"]),
        population=Done(asked=population, done=population),
    )
    if iterations > 1:
        with pytest.raises(Stopped):
            start(EvolveConfig(**given, runs=tmp_path / "cut"), stop_at("evolve", 4))
        [cut] = (tmp_path / "cut").iterdir()
        assert comparable(resume_run(cut)) == comparable(summary)
