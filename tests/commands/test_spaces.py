"""One formula for several spaces: hold-out, successive halving, islands, and bad input."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.evolutions import only_fold
from helpers.interruptions import Stopped, stop_at
from helpers.reports import lines_without_commands
from helpers.tables import table
from scipy import stats

from autoprox.commands.evolve import EvolutionFold, EvolveSummary, EvolveTask
from autoprox.configurations.commands import EvolveConfig
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.errors import AutoproxError, ConfigError, RunError
from autoprox.evaluation.full_resolution_choice import RankingQuality
from autoprox.evaluation.successive_halving import STOPPED, SuccessiveHalving
from autoprox.evolution import Individual
from autoprox.language import Tree, make_tree, parse_expression
from autoprox.loaded_runs import EvolveResult, load_run
from autoprox.report.terminal.evolve_report import evolve_report, held_out_parts, held_out_row
from autoprox.report.terminal.layout import show
from autoprox.runner import resume_run, start
from autoprox.runs.folder import Run
from autoprox.zoo.proxy_loading import resolve_proxy

Options = dict[str, Any]
NETWORKS = 24
MEMORY = 2**28


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Options:
    """A quick evolution on two tables that disagree."""
    folder = tmp_path_factory.mktemp("tables")
    first = table(NETWORKS)
    second = {**first, "name": "other", "datasets": {"wide": {"classes": 10}}}
    second["architectures"] = [
        {**row, "scores": {"wide": -row["scores"]["wide"]}} for row in first["architectures"][4:]
    ]
    for name, own in (("mine", first), ("other", second)):
        (folder / f"{name}.json").write_text(json.dumps(own))
    return {
        "form": "tree",
        "spaces": [str(folder / "mine.json"), str(folder / "other.json")],
        **{"cache": str(folder / "cache"), "batch_size": 2, "workers": 1, "zoo": ("snip",)},
        **{"statistics": ("all.weight",), "population": 4, "iterations": 3, "children": 4},
        **{"max_size": 8, "max_depth": 6},
    }


Results = tuple[EvolveSummary, list[dict[str, Any]]]


def results(summary: EvolveSummary) -> Results:
    """The summary and the log, without times and the run's name."""
    log = Run.open(Path(summary.run)).read_log()
    untimed = [{n: v for n, v in line.items() if n != "seconds"} for line in log]
    return summary.model_copy(update={"run": "", "seconds": 0.0}), untimed


@pytest.fixture(scope="module")
def uninterrupted(options: Options, tmp_path_factory: pytest.TempPathFactory) -> Results:
    runs = tmp_path_factory.mktemp("runs")
    return results(start(EvolveConfig(**options, hold_out="each", islands=2, runs=runs)))


def test_each_space_is_held_out_once(uninterrupted: Results) -> None:
    summary, log = uninterrupted
    assert [(fold.held_out, fold.trained) for fold in summary.folds] == [
        ("mine", ("other",)),
        ("other", ("mine",)),
    ]
    assert [(line["held_out"], line["island"]) for line in log] == [
        (name, island) for name in ("mine", "other") for island in (0, 1) for _ in range(3)
    ]
    sizes = {"mine": NETWORKS, "other": NETWORKS - 4}
    for fold in summary.folds:
        [(name, own)] = fold.spaces.items()
        assert name == fold.held_out
        assert own.size["test"].networks == sizes[name]
        row = held_out_row(fold)
        assert row.difference == pytest.approx(row.tau - row.params)


@pytest.mark.parametrize("partial_tau", [0.25, None])
def test_the_table_of_held_out_spaces_has_80_columns(
    uninterrupted: Results, partial_tau: float | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a partial tau if the scores follow size exactly."""
    bounds = (-0.25, -0.125) if partial_tau else (None, None)
    proxy = {"kendall": 0.5, "partial_tau": partial_tau, "partial_tau_interval": bounds}
    difference = {"difference": -0.25, "interval": (-0.5, -0.125)}
    names = ("autoformer-nano", "autoformer-supernet-ti")

    def fold_of(name: str) -> EvolutionFold:
        fold = uninterrupted[0].folds[0]
        document = fold.spaces["mine"].model_dump()
        document["means"]["proxy"]["test"] |= proxy
        document["means"]["params"]["test"]["kendall"] = 0.75
        document["comparison"]["params"]["kendall"] |= difference
        quality = RankingQuality.model_validate(document)
        return fold.model_copy(update={"held_out": name, "spaces": {name: quality}})

    show(*held_out_parts([fold_of(name) for name in names]))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    shown = "0.250" if partial_tau else "-"
    assert lines[-1].split() == ["mean", "0.500", "-0.250", "-", shown, "-"]
    assert [line.split()[0] for line in lines[-3:-1]] == list(names)


def test_a_run_that_is_interrupted_again_and_again_ends_with_the_same_result(
    uninterrupted: Results, options: Options, tmp_path: Path
) -> None:
    config = EvolveConfig(**options, hold_out="each", islands=2, runs=tmp_path)
    with pytest.raises(Stopped):
        start(config, stop_at("collect", 3))
    [run] = tmp_path.iterdir()
    # In the first island, in the second one, at the end of the first fold, and in the second fold.
    for task, occurrence in (("evolve", 3), ("evolve", 4), ("measure", 2), ("evolve", 5)):
        with pytest.raises(Stopped):
            resume_run(run, stop_at(task, occurrence))
    assert results(resume_run(run, workers=2)) == uninterrupted


def test_one_space_is_held_out_and_all_are_reported(
    options: Options, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = start(EvolveConfig(**options, hold_out="other", runs=tmp_path))
    fold = only_fold(summary)
    assert (fold.held_out, fold.trained) == ("other", ("mine",))
    assert list(fold.spaces) == ["mine", "other"]
    assert resume_run(Path(summary.run)) == summary
    result = load_run(summary.run)
    assert isinstance(result, EvolveResult)
    own = fold.spaces["other"]
    assert set(result.train) == {"mine/wide", "mine/deep"}
    assert set(result.test) == {"mine/wide", "mine/deep", "other/wide"}
    assert result.test["other/wide"] == own.test["wide"]
    flops = own.baselines["flops"].test["wide"].model_dump()
    [row] = [
        {name: row[name] for name in flops}
        for row in result.rows()
        if (row["part"], row["dataset"], row["scored_by"]) == ("test", "other/wide", "flops")
    ]
    assert row == flops
    assert resolve_proxy(summary.run).found.datasets == ["mine/wide", "mine/deep"]
    show(*evolve_report(summary))
    lines = lines_without_commands(capsys.readouterr().out)
    assert max(map(len, lines)) <= 80
    assert any("held out: other" in line for line in lines)


def test_a_checkpoint_of_other_folds_is_refused(options: Options, tmp_path: Path) -> None:
    path = Path(start(EvolveConfig(**options, hold_out="other", runs=tmp_path)).run)
    (path / "summary.json").unlink()
    [fold] = Run.open(path).read_checkpoint()["folds"]  # type: ignore[index]
    for folds, message in (
        ([{**fold, "trained": ["other"]}], "other aren't the spaces of the fold"),
        ([fold, fold], "there are 1 folds"),
    ):
        with Run.resume(path) as run:
            run.checkpoint({"folds": folds, "islands": [], "lines": 0, "seconds": 0.0})
        with pytest.raises(RunError, match=message):
            resume_run(path)


def test_the_joint_metric_is_over_all_pairs(options: Options) -> None:
    """Kendall's tau-b by scipy, within each space, on the training networks."""
    task = EvolveTask(EvolveConfig(**options, halving=False, ties="tau-b"))
    [plan] = task.folds
    sources = {
        name: [problem.collect(task.needs(), problem.parts["train"], MEMORY)]
        for name, problem in task.problems.items()
    }
    [evaluator] = task.evaluators(plan, sources)
    tree = parse_expression("sum(sum(abs(all.weight)))")
    [individual] = evaluator.evaluate([tree])
    taus = []
    for name, problem in task.problems.items():
        networks = problem.parts["train"]
        scores = TreeEvaluator(sources[name][0]).evaluate([tree]).values[0]
        truth = problem.benchmark.scores.values()
        pairs = zip(scores, truth, strict=True)
        taus += [stats.kendalltau(x, y[networks]).statistic for x, y in pairs]
    assert len(taus) == 3
    assert individual.taus == pytest.approx(taus)
    assert individual.jcm == pytest.approx(np.mean(taus))


def test_networks_of_several_sources_are_ranked_together(options: Options) -> None:
    task = EvolveTask(EvolveConfig(**options))
    problem = task.problems["mine"]
    parts, train = task.parts["mine"], problem.parts["train"]
    assert sorted(np.concatenate(parts)) == sorted(train)
    assert [len(part) for part in parts] == [4, 3, 7]  # of 14: a quarter, another, and a half
    terms = [
        parse_expression("sum(sum(abs(all.weight)))"),
        parse_expression("mean(std(all.weight))"),
    ]
    trees = [make_tree("add", *(make_tree("rank", term) for term in terms)), *terms]
    sources = [(TreeEvaluator(problem.collect(task.needs(), own, MEMORY)), own) for own in parts]
    split = problem.measured_networks(sources)
    together = TreeEvaluator(problem.collect(task.needs(), np.concatenate(parts), MEMORY)).evaluate(
        trees
    )
    np.testing.assert_allclose(split.scores(trees).values, together.values, rtol=1e-12)
    np.testing.assert_array_equal(split.scores(trees).reasons, together.reasons)
    assert split.evaluation_set.networks == np.concatenate(parts).tolist()


class KnownFitness:
    """An evaluator whose fitness is known beforehand."""

    def __init__(self, fitness: dict[Tree, float]) -> None:
        self.fitness, self.evaluated = fitness, list[Tree]()

    def evaluate(self, trees: list[Tree]) -> list[Individual]:
        self.evaluated += trees
        return [
            Individual(tree, (self.fitness[tree],), self.fitness[tree])
            if tree in self.fitness
            else Individual(tree, reason="constant")
            for tree in trees
        ]


def test_the_better_half_goes_on() -> None:
    texts = ("sum(one)", "sum(width)", "sum(heads)", "sum(tokens)", "mean(width)", "max(width)")
    a, b, c, d, e, f = map(parse_expression, texts)
    quarter = KnownFitness({a: 0.1, b: 0.5, c: 0.4, d: 0.3, e: 0.2})
    half = KnownFitness({b: 0.1, c: 0.3, d: 0.2})
    every = KnownFitness({c: 0.6, d: 0.7})
    found = SuccessiveHalving([quarter, half, every]).evaluate([a, b, c, d, e, f])
    assert half.evaluated == [b, c, d]
    assert every.evaluated == [c, d]
    assert [i.tree for i in found] == [a, b, c, d, e, f]
    assert [i.reason for i in found] == [STOPPED, STOPPED, "", "", STOPPED, "constant"]
    assert [i.jcm for i in found if i.valid] == [0.6, 0.7]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"spaces": ()}, "each space must be named once, at least one, but got none"),
        ({"spaces": ("pit", "pit")}, "each space must be named once, at least one, but got pit"),
        ({"spaces": ("pti",)}, "unknown search space 'pti'"),
        ({"space": "pit"}, "either --space or --spaces must be given, but got pit too"),
        ({"datasets": ("wide", "far")}, "no chosen space has a dataset 'far'; choose from wide"),
        ({"datasets": ("deep",)}, "has none of the datasets deep: it has wide"),
        ({"hold_out": "pit"}, "the hold-out must be one of the spaces, but is 'pit'; choose"),
        ({"dataset_weights": (1, 2)}, "one finite number >= 0 a dataset"),
        ({"dataset_weights": (1, 1, 0), "hold_out": "mine"}, "one finite number >= 0 a dataset"),
        ({"islands": 3, "evaluations": 2}, "at least one for each of 3 islands, but are 2"),
        ({"train": 0.3}, "needs 12 training networks of each space, but mine has 7"),
        ({"spaces": None, "hold_out": "each"}, "each can't be held out, for there is no other spa"),
    ],
)
def test_bad_input_is_refused(
    options: Options, tmp_path: Path, changed: Options, message: str
) -> None:
    with pytest.raises(AutoproxError, match=message) as error:
        start(EvolveConfig(**{**options, **changed}, runs=tmp_path / "runs"))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "runs").exists()


def test_the_only_space_is_not_held_out(options: Options) -> None:
    only = {**options, "spaces": options["spaces"][:1]}
    for held_out in ("mine", "each"):
        with pytest.raises(ConfigError, match=f"{held_out} can't be held out, for there is no ot"):
            EvolveTask(EvolveConfig(**only, hold_out=held_out))


def test_one_space_may_have_islands_and_successive_halving(
    options: Options, tmp_path: Path
) -> None:
    """It is the same evolution, whether the space is given by --benchmark or --spaces."""
    own = {n: v for n, v in options.items() if n != "spaces"}
    given = {"halving": True, "islands": 2, "iterations": 2, "children": 6}
    table_file = options["spaces"][0]
    alone = EvolveConfig(**{**own, **given}, benchmark=table_file, runs=tmp_path / "alone")
    summary, log = results(start(alone))
    named = EvolveConfig(**{**own, **given}, spaces=[table_file], runs=tmp_path / "named")
    other, other_log = results(start(named))
    fold, other_fold = only_fold(summary), only_fold(other)
    assert fold.stopped > 0
    assert sum(island.evaluations for island in fold.islands) == fold.evaluations
    assert [(line["held_out"], line["island"]) for line in log] == [
        (None, island) for island in (0, 1) for _ in range(2)
    ]
    assert log == other_log
    assert list(fold.spaces.values()) == list(other_fold.spaces.values())
    assert (fold.islands, fold.stopped) == (other_fold.islands, other_fold.stopped)
    assert [list(i.taus.values()) for i in fold.front] == [
        list(i.taus.values()) for i in other_fold.front
    ]
    with pytest.raises(Stopped):
        start(alone.model_copy(update={"runs": tmp_path / "cut"}), stop_at("evolve", 5))
    [run] = (tmp_path / "cut").iterdir()
    assert results(resume_run(run)) == (summary, log)


@pytest.mark.parametrize(
    ("changed", "halving"),
    [
        ({}, True),
        ({"halving": False}, False),
        ({"spaces": None, "benchmark": "mine"}, False),
        ({"spaces": None, "benchmark": "mine", "halving": True}, True),
    ],
)
def test_halving_is_the_default_for_several_spaces(
    options: Options, changed: Options, halving: bool
) -> None:
    if "benchmark" in changed:
        changed = {**changed, "benchmark": options["spaces"][0]}
    task = EvolveTask(EvolveConfig(**{**options, **changed}))
    assert task.config.halving is halving
    assert {len(parts) for parts in task.parts.values()} == {3 if halving else 1}
