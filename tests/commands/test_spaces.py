"""One formula for several spaces: held out, halved, interrupted, and bad input."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.tables import table
from scipy import stats

from autoprox.commands.evolve import Evolve
from autoprox.commands.spaces import EvolveSpaces
from autoprox.configurations.commands import EvolveConfig
from autoprox.engine.evaluator import Engine, SourceNetworks, evaluate_sources
from autoprox.errors import AutoproxError, ConfigError, RunError
from autoprox.evaluation.successive_halving import STOPPED, SuccessiveHalving, blocks
from autoprox.evolution import Individual
from autoprox.language import Tree, make_tree, parse
from autoprox.loaded_runs import EvolveResult
from autoprox.report.terminal.layout import show
from autoprox.report.terminal.many import held_out_parts, held_out_row, many_report
from autoprox.runner import resume, start
from autoprox.runs.folder import Run
from autoprox.zoo.proxy_loading import resolve_proxy

Options = dict[str, Any]
NETWORKS = 24


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> Options:
    """Two tables that disagree, and what is quick."""
    folder = tmp_path_factory.mktemp("tables")
    first = table(NETWORKS)
    second = {**first, "name": "other", "datasets": {"wide": {"classes": 10}}}
    second["architectures"] = [
        {**row, "scores": {"wide": -row["scores"]["wide"]}} for row in first["architectures"][4:]
    ]
    for name, own in (("mine", first), ("other", second)):
        (folder / f"{name}.json").write_text(json.dumps(own))
    return {
        "spaces": [str(folder / "mine.json"), str(folder / "other.json")],
        **{"cache": str(folder / "cache"), "batch_size": 2, "workers": 1, "zoo": ("snip",)},
        **{"statistics": ("all.weight",), "population": 4, "iterations": 3, "children": 4},
        **{"max_size": 8, "max_depth": 6},
    }


def found(summary: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The summary and the log, without times and the run's name."""
    run = Run.open(Path(summary["run"]))
    log = [{n: v for n, v in line.items() if n != "seconds"} for line in run.read_log()]
    return {n: v for n, v in summary.items() if n not in ("run", "seconds")}, log


@pytest.fixture(scope="module")
def uninterrupted(
    options: Options, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    runs = tmp_path_factory.mktemp("runs")
    return found(start(EvolveConfig(**options, hold_out="each", islands=2, runs=runs)))


def test_each_space_is_held_out_once(
    uninterrupted: tuple[dict[str, Any], list[dict[str, Any]]],
) -> None:
    summary, log = uninterrupted
    assert [(fold["held_out"], fold["trained"]) for fold in summary["folds"]] == [
        ("mine", ["other"]),
        ("other", ["mine"]),
    ]
    assert [(line["held_out"], line["island"]) for line in log] == [
        (name, island) for name in ("mine", "other") for island in (0, 1) for _ in range(3)
    ]
    sizes = {"mine": NETWORKS, "other": NETWORKS - 4}
    for fold in summary["folds"]:
        [(name, own)] = fold["spaces"].items()
        assert name == fold["held_out"]
        assert own["size"]["test"]["networks"] == sizes[name]
        row = held_out_row(fold)
        assert row["difference"] == pytest.approx(row["tau"] - row["params"])


@pytest.mark.parametrize("partial_tau", [0.25, None])
def test_what_was_held_out_is_a_table_of_80_columns(
    partial_tau: float | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the scores follow size without exception, so that nothing is left given it."""
    proxy = {
        **{"kendall": 0.5, "partial_tau": partial_tau},
        "partial_tau_interval": [-0.25, -0.125] if partial_tau else [None, None],
    }
    names = ("autoformer-nano", "autoformer-supernet-ti")
    folds = [
        {
            "held_out": name,
            "spaces": {
                name: {
                    "means": {"proxy": {"test": proxy}, "params": {"test": {"kendall": 0.75}}},
                    "comparison": {
                        "params": {"kendall": {"difference": -0.25, "interval": [-0.5, -0.125]}}
                    },
                }
            },
        }
        for name in names
    ]
    show(*held_out_parts(folds))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert not any("…" in line for line in lines)
    shown = "0.250" if partial_tau else "-"
    assert lines[-1].split() == ["mean", "0.500", "-0.250", "-", shown, "-"]
    assert [line.split()[0] for line in lines[-3:-1]] == list(names)


class Stopped(Exception):  # noqa: N818
    """What ends a run in the middle."""


def stop_at(task: str, occurrence: int) -> Callable[[str, int, int, str], None]:
    seen = []

    def progress(now: str, count: int, total: int, note: str) -> None:
        seen.append(now.split()[0])  # evolve 1/2 without other
        if seen.count(task) == occurrence:
            raise Stopped

    return progress


@pytest.mark.parametrize(
    ("task", "occurrence"),
    [("collect", 3), ("evolve", 3), ("evolve", 6), ("measure", 2), ("evolve", 11)],
)
def test_an_interrupted_run_goes_on_to_the_same_result(
    uninterrupted: Any, options: Options, tmp_path: Path, task: str, occurrence: int
) -> None:
    config = EvolveConfig(**options, hold_out="each", islands=2, runs=tmp_path)
    with pytest.raises(Stopped):
        start(config, stop_at(task, occurrence))
    [run] = tmp_path.iterdir()
    assert found(resume(run, workers=2)) == uninterrupted


def test_one_space_is_held_out_and_all_are_reported(
    options: Options, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = start(EvolveConfig(**options, hold_out="other", runs=tmp_path))
    [fold] = summary["folds"]
    assert (fold["held_out"], fold["trained"]) == ("other", ["mine"])
    assert list(fold["spaces"]) == ["mine", "other"]
    assert resume(Path(summary["run"])) == summary
    result = EvolveResult(summary)
    own = fold["spaces"]["other"]
    assert set(result.train) == {"mine/wide", "mine/deep"}
    assert set(result.test) == {"mine/wide", "mine/deep", "other/wide"}
    assert result.test["other/wide"] == own["test"]["wide"]
    [row] = [
        {name: row[name] for name in own["test"]["wide"]}
        for row in result.rows()
        if (row["part"], row["dataset"], row["scored_by"]) == ("test", "other/wide", "flops")
    ]
    assert row == own["baselines"]["flops"]["test"]["wide"]
    assert resolve_proxy(summary["run"]).found["datasets"] == ["mine/wide", "mine/deep"]  # type: ignore[index]
    show(*many_report(summary))
    *lines, _, _ = capsys.readouterr().out.splitlines()  # the last name the run's folder
    assert max(map(len, lines)) <= 80
    assert any("held out: other" in line for line in lines)


def test_a_checkpoint_of_other_folds_is_refused(options: Options, tmp_path: Path) -> None:
    path = Path(start(EvolveConfig(**options, hold_out="other", runs=tmp_path))["run"])
    (path / "summary.json").unlink()
    [fold] = Run.open(path).read_checkpoint()["folds"]  # type: ignore[index]
    for folds, told in (
        ([{**fold, "trained": ["other"]}], r"\['other'\] aren't the spaces of the fold"),
        ([fold, fold], "there are 1 folds"),
    ):
        with Run.resume(path) as run:
            run.checkpoint({"folds": folds, "islands": [], "lines": 0, "seconds": 0.0})
        with pytest.raises(RunError, match=told):
            resume(path)


def test_the_joint_metric_is_over_all_pairs(options: Options) -> None:
    """Kendall's tau-b by scipy, within each space, on the training networks."""
    task = EvolveSpaces(EvolveConfig(**options, halving=False, ties="tau-b"))
    [fold] = task.folds
    sources = {name: [field.collect()] for name, field in task.fields.items()}
    [trial] = task.trials(fold, sources)
    tree = parse("sum(sum(abs(all.weight)))")
    [individual] = trial.individuals([tree])
    taus = []
    for field in task.fields.values():
        own = Evolve(field.config)
        networks = own.parts["train"]
        scores = Engine(own.collect()).evaluate([tree]).values[0]
        truth = own.benchmark.scores.values()
        pairs = zip(scores, truth, strict=True)
        taus += [stats.kendalltau(x, y[networks]).statistic for x, y in pairs]
    assert len(taus) == 3
    assert individual.taus == pytest.approx(taus)
    assert individual.jcm == pytest.approx(np.mean(taus))


def test_blocks_rank_together(options: Options) -> None:
    field = next(iter(EvolveSpaces(EvolveConfig(**options)).fields.values()))
    train = field.parts["train"]
    parts = blocks(train, "mine")
    assert sorted(np.concatenate(parts)) == sorted(train)
    terms = [parse("sum(sum(abs(all.weight)))"), parse("mean(std(all.weight))")]
    ranked = make_tree("add", *(make_tree("rank", term) for term in terms))
    several = [field.collect(part=part) for part in parts]
    split = evaluate_sources(
        [SourceNetworks(Engine(own), own.alive) for own in several], [ranked, *terms]
    )
    whole = Engine(field.collect(part=np.concatenate(parts))).evaluate([ranked, *terms])
    np.testing.assert_allclose(split.values, whole.values, rtol=1e-12)
    np.testing.assert_array_equal(split.reasons, whole.reasons)


class Known:
    """A trial whose fitness is known beforehand."""

    def __init__(self, fitness: dict[Tree, float]) -> None:
        self.fitness, self.tried = fitness, list[Tree]()

    def individuals(self, trees: list[Tree]) -> list[Individual]:
        self.tried += trees
        return [
            Individual(tree, (self.fitness[tree],), self.fitness[tree])
            if tree in self.fitness
            else Individual(tree, reason="constant")
            for tree in trees
        ]


def test_the_better_half_goes_on() -> None:
    texts = ("sum(one)", "sum(width)", "sum(heads)", "sum(tokens)", "mean(width)", "max(width)")
    a, b, c, d, e, f = map(parse, texts)
    few = Known({a: 0.1, b: 0.5, c: 0.4, d: 0.3, e: 0.2})
    half, every = Known({b: 0.1, c: 0.3, d: 0.2}), Known({c: 0.6, d: 0.7})
    found = SuccessiveHalving([few, half, every]).individuals([a, b, c, d, e, f])  # type: ignore[list-item]
    assert half.tried == [b, c, d]
    assert every.tried == [c, d]
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
        ({"weights": (1, 2)}, "one finite number >= 0 a dataset"),
        ({"weights": (1, 1, 0), "hold_out": "mine"}, "one finite number >= 0 a dataset"),
        ({"islands": 3, "evaluations": 2}, "at least one for each of 3 islands, but are 2"),
        ({"train": 0.3}, "needs 12 training networks of each space, but mine has 7"),
        ({"spaces": None, "hold_out": "each"}, "hold_out needs spaces, but got each without"),
        ({"spaces": None, "islands": 2}, "islands needs spaces, but got 2 without them"),
        ({"spaces": None, "halving": False}, "halving needs spaces, but got False without them"),
    ],
)
def test_bad_input_is_told(
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
            EvolveSpaces(EvolveConfig(**only, hold_out=held_out))
