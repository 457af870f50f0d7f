"""Evolutions end to end on a tiny table: repeated, interrupted, and reported."""

import itertools
import json
import random
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.commands import Command
from helpers.evolutions import only_fold, only_problem, only_quality
from helpers.networks import SPACE
from scipy import stats
from torch.nn import functional

from autoprox.commands.evolve import EvolveSummary, EvolveTask
from autoprox.configurations.commands import EvolveConfig
from autoprox.errors import AutoproxError, MeasurementError
from autoprox.evaluation.cached_zoo_scores import ZooScores
from autoprox.evaluation.full_resolution_choice import choose_at_full_resolution
from autoprox.evaluation.space_problem import SpaceProblem
from autoprox.evolution import EvolutionError, Individual
from autoprox.language import STATISTICS, Tree, parse_expression
from autoprox.progress import Note, silent
from autoprox.runner import resume_run, start
from autoprox.runs.folder import Run
from autoprox.runs.proxy_file import read_proxy
from autoprox.scoring.evaluation_set import DatasetMetrics
from autoprox.searchspaces import SPACES, Architecture, TransformerNetwork
from autoprox.statistics.untrained_networks import SpaceNetwork

NETWORKS = 20
SNIP = parse_expression("sum(sum(abs(mul(all.weight, all.grad))))")


def architectures() -> list[Architecture]:
    """The smallest networks of the nano space, in random order."""
    found = {}
    rng = random.Random(4)
    while len(found) < NETWORKS:
        depth = rng.choice([1, 2])
        choices = {
            "hidden_dim": rng.choice([16, 24]),
            "depth": depth,
            "mlp_ratio": [rng.choice([1.0, 2.0]) for _ in range(depth)],
            "num_heads": [rng.choice([1, 2, 3]) for _ in range(depth)],
        }
        found[SPACE.architecture(choices)] = None
    return list(found)


ARCHS = architectures()
RNG = np.random.default_rng(0)
TRUTH = {
    "few": np.round(RNG.normal(80, 5, NETWORKS), 1),
    "many": np.round(RNG.normal(40, 5, NETWORKS)),  # with ties
}


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A benchmark in a file."""
    path = tmp_path_factory.mktemp("table") / "tiny.json"
    rows = [
        {"arch": arch.to_json()["choices"], "scores": {d: float(v[i]) for d, v in TRUTH.items()}}
        for i, arch in enumerate(ARCHS)
    ]
    content = {
        "format": 1,
        "name": "tiny",
        "space": SPACE.name,
        "datasets": {"few": {"classes": 4}, "many": {"classes": 10}},
        "architectures": rows,
    }
    path.write_text(json.dumps(content))
    return path


@pytest.fixture(scope="module")
def options(table: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """An evolution of a few seconds, whose cache the tests share."""
    return {
        "form": "tree",
        "benchmark": str(table),
        "batch_size": 2,
        "stride": 2,
        "workers": 1,
        "device": "cpu",
        "statistics": ("all.weight", "all.grad", "mlp.act", "ntk.msa.grad"),
        "population": 6,
        "iterations": 5,
        "children": 4,
        "max_size": 12,
        "max_depth": 6,
        "cache": str(tmp_path_factory.mktemp("cache")),
        "zoo": ("snip", "naswot"),
    }


Results = tuple[dict[str, Any], list[Any], list[Any]]


def results(summary: EvolveSummary) -> Results:
    """The summary, log and proxies of a run, without the times and the run's name."""
    run = Run.open(Path(summary.run))
    document = summary.to_json()
    assert {**run.read_summary(), "run": summary.run} == document
    kept = {name: v for name, v in document.items() if name not in ("run", "seconds")}
    log = [{n: v for n, v in line.items() if n != "seconds"} for line in run.read_log()]
    folder = run.path / "hall_of_fame"
    count = sum(path.stem.isdecimal() for path in folder.iterdir())
    proxies = [read_proxy(folder / f"{rank}.json") for rank in range(1, count + 1)]
    assert {proxy.found.run for proxy in proxies} == {run.name}
    return kept, log, [proxy.model_dump(exclude={"found": {"run"}}) for proxy in proxies]


@pytest.fixture(scope="module")
def finished(options: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> EvolveSummary:
    return start(EvolveConfig(**options, runs=tmp_path_factory.mktemp("runs")))


@pytest.fixture(scope="module")
def uninterrupted(finished: EvolveSummary) -> Results:
    return results(finished)


def test_a_run_is_complete(finished: EvolveSummary, uninterrupted: Results) -> None:
    _, log, proxies = uninterrupted
    fold, quality = only_fold(finished), only_quality(finished)
    assert [line["iteration"] for line in log] == [1, 2, 3, 4, 5]
    assert {(line["held_out"], line["island"]) for line in log} == {(None, 0)}
    assert log[-1]["evaluations"] == fold.evaluations
    assert log[-1]["invalid"] == sum(fold.invalid.values())
    assert fold.stopped == 0  # without successive halving
    assert proxies[0]["expression"] == finished.expression == fold.expression == quality.expression
    assert len({proxy["hash"] for proxy in proxies}) == len(proxies)
    assert quality.failed_networks == {}
    assert list(fold.spaces) == list(finished.spaces) == list(fold.trained) == [SPACE.name]
    inputs = {"few": "gaussian noise", "many": "gaussian noise"}
    assert finished.spaces[SPACE.name].inputs == inputs
    for part in ("train", "test"):
        taus = {dataset: row.kendall for dataset, row in getattr(quality, part).items()}
        assert proxies[0]["taus"][part] == taus
        assert set(taus) == set(TRUTH)


def test_a_seed_gives_the_same_result(
    uninterrupted: Results, options: dict[str, Any], tmp_path: Path
) -> None:
    assert results(start(EvolveConfig(**options, runs=tmp_path))) == uninterrupted
    other = results(start(EvolveConfig(**{**options, "seed": 1, "iterations": 1}, runs=tmp_path)))
    assert other[1][0] != uninterrupted[1][0]


def test_resources_do_not_change_the_result(
    uninterrupted: Results, options: dict[str, Any], tmp_path: Path
) -> None:
    changed = {"workers": 2, "memory": 1, "cache": str(tmp_path / "elsewhere")}
    found = results(start(EvolveConfig(**{**options, **changed}, runs=tmp_path / "runs")))
    assert found == uninterrupted


class Stopped(Exception):  # noqa: N818
    """The exception that interrupts a run."""


def stop_at(task: str, done: int) -> Callable[[str, int, int, str], None]:
    def progress(now: str, count: int, total: int, note: str) -> None:
        if (now, count) == (task, done):
            raise Stopped

    return progress


def test_a_run_that_is_interrupted_again_and_again_ends_with_the_same_result(
    uninterrupted: Results, options: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(Stopped):
        start(EvolveConfig(**options, runs=tmp_path), stop_at("collect", 5))
    (run,) = tmp_path.iterdir()
    for task, done in (("evolve", 0), ("evolve", 1), ("evolve", 5), ("measure", 1)):
        with pytest.raises(Stopped):
            resume_run(run, stop_at(task, done))
        assert not (run / "summary.json").exists()
    assert results(resume_run(run)) == uninterrupted


def test_the_progress_and_the_log_have_the_same_figures(
    options: dict[str, Any], tmp_path: Path
) -> None:
    notes: list[Note] = []

    def progress(task: str, done: int, total: int, note: str) -> None:
        if task == "evolve":
            assert isinstance(note, Note)
            notes.append(note)

    summary = start(EvolveConfig(**options, runs=tmp_path), progress)
    log = Run.open(Path(summary.run)).read_log()
    begun, *others = notes
    assert (begun, begun.value, begun.tried, begun.invalid) == ("", None, 0, 0)
    assert [(n.value, n.formula) for n in others] == [
        (own["best"], own["expression"]) for own in log
    ]
    assert [(n.tried, n.invalid) for n in others] == [(o["evaluations"], o["invalid"]) for o in log]
    assert others[-1] == f"best {log[-1]['best']:.4f}  {log[-1]['expression']}"


@pytest.mark.parametrize("iteration", [1, 3])
def test_lines_after_the_last_checkpoint_are_written_again(
    uninterrupted: Results,
    options: dict[str, Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    iteration: int,
) -> None:
    checkpoint = Run.checkpoint

    def killed(self: Run, state: dict[str, Any]) -> None:
        if [island["iteration"] for island in state["islands"]] == [iteration]:
            raise Stopped
        checkpoint(self, state)

    with monkeypatch.context() as patch:
        patch.setattr(Run, "checkpoint", killed)
        with pytest.raises(Stopped):
            start(EvolveConfig(**options, runs=tmp_path))
    (run,) = tmp_path.iterdir()
    assert len(Run.open(run).read_log()) == iteration
    assert results(resume_run(run)) == uninterrupted


def test_a_finished_run_may_be_resumed(finished: EvolveSummary, uninterrupted: Results) -> None:
    assert resume_run(Path(finished.run)) == finished
    assert results(finished) == uninterrupted


def problem_of(options: dict[str, Any]) -> SpaceProblem:
    """The problem that the space of an evolution poses."""
    return only_problem(EvolveTask(EvolveConfig(**options)))


def snip(problem: SpaceProblem, dataset: str, arch: Architecture) -> float:
    """|weight * gradient| of every linear layer of the blocks, by plain PyTorch."""
    batch, seed = problem.batches[dataset], SpaceNetwork(SPACE, arch, problem.config.seed).seed
    network = SPACE.build(arch, batch.classes, seed)
    functional.cross_entropy(network(batch.inputs), batch.labels).backward()
    linear = (layer for block in network.blocks for layer in block.modules())
    weights = [layer.weight for layer in linear if isinstance(layer, torch.nn.Linear)]
    return sum(float((w.detach() * w.grad).abs().double().sum()) for w in weights)


def tau_of_untied(scores: np.ndarray, truth: np.ndarray) -> float:
    """Kendall's tau-b times the root of the share of pairs with different scores."""
    pairs = itertools.combinations(range(len(scores)), 2)
    untied = np.mean([scores[one] != scores[other] for one, other in pairs])
    return float(stats.kendalltau(scores, truth).statistic * untied**0.5)


def assert_row(row: DatasetMetrics, scores: np.ndarray, truth: np.ndarray) -> None:
    expected = {
        "kendall": tau_of_untied(scores, truth),
        "spearman": stats.spearmanr(scores, truth).statistic,
        "pearson": stats.pearsonr(scores, truth).statistic,
    }
    found = {name: getattr(row, name) for name in expected}
    assert found == pytest.approx(expected, abs=1e-6)
    low, high = row.interval
    assert -1 <= low < row.kendall < high <= 1


def test_the_ranking_quality_agrees_with_scipy(options: dict[str, Any]) -> None:
    problem = problem_of(options)
    found = problem.full_resolution({}).ranking_quality(SNIP, problem.zoo_scores())
    parts = problem.parts
    assert sorted([*parts["train"], *parts["test"]]) == list(range(NETWORKS))
    assert len(parts["train"]) == 12
    assert found.expression == str(SNIP)
    for dataset, truth in TRUTH.items():
        scores = np.array([snip(problem, dataset, arch) for arch in ARCHS])
        classes = {"few": 4, "many": 10}[dataset]
        networks = [SPACE.build(arch, classes) for arch in ARCHS]
        params = np.array([sum(p.numel() for p in net.parameters()) for net in networks])
        for part, chosen in parts.items():
            assert_row(getattr(found, part)[dataset], scores[chosen], truth[chosen])
            counted = getattr(found.baselines["params"], part)[dataset]
            assert_row(counted, params[chosen].astype(float), truth[chosen])
    assert found.baselines.keys() >= {"params", "flops", "ridge"}


def test_another_formula_is_chosen_if_full_resolution_is_worse(options: dict[str, Any]) -> None:
    problem = problem_of({**options, "tolerance": 0.0})
    networks = problem.full_resolution({})
    texts = ("sum(one)", "sum(width)", "sum(heads)", "sum(sum(mlp.act))")
    trees = [parse_expression(text) for text in texts]
    front = [Individual(tree, jcm=0.1 * i) for i, tree in enumerate(trees)]

    def fitness(tree: Tree) -> float:
        means = networks.ranking_quality(tree, ZooScores({}, {})).means["proxy"]
        return float(means.train.kendall or 0)

    def chosen(expected: float, front: Sequence[Individual] = ()) -> Tree:
        found = Individual(SNIP, jcm=expected)
        return choose_at_full_resolution([networks], problem.config, found, front, silent)

    for expected in (fitness(SNIP), fitness(SNIP) + 0.004):
        assert chosen(expected, front) == SNIP
    assert chosen(fitness(SNIP) + 0.006, front) == max(trees, key=fitness)
    assert chosen(2.0) == SNIP


def test_evolution_never_reads_the_test_part(
    finished: EvolveSummary,
    uninterrupted: Results,
    options: dict[str, Any],
    table: Path,
    tmp_path: Path,
) -> None:
    """With other scores of the test networks everything but their own metrics is the same."""
    content = json.loads(table.read_text())
    for index in problem_of(options).parts["test"]:
        content["architectures"][index]["scores"] = {"few": float(index), "many": -float(index)}
    changed = tmp_path / "tiny.json"
    changed.write_text(json.dumps(content))
    summary = start(EvolveConfig(**{**options, "benchmark": str(changed)}, runs=tmp_path / "runs"))
    _, log, proxies = results(summary)
    assert log == uninterrupted[1]
    own, before = only_quality(summary), only_quality(finished)
    assert own.train == before.train
    assert own.baselines["ridge"].train == before.baselines["ridge"].train
    assert own.baselines["ridge"].test != before.baselines["ridge"].test
    assert own.test != before.test
    assert [p["expression"] for p in proxies] == [p["expression"] for p in uninterrupted[2]]


def test_only_the_statistics_of_the_grammar_are_measured(options: dict[str, Any]) -> None:
    names = {str(statistic) for statistic in EvolveTask(EvolveConfig(**options)).needs()}
    assert names == {
        *("msa.weight", "mlp.weight", "msa.grad", "mlp.grad", "mlp.act", "ntk.msa.grad")
    }
    everything = EvolveTask(EvolveConfig(**{**options, "statistics": None})).needs()
    forwards = {"ones.msa.weight", "ones.mlp.weight"}  # |weight|
    forwards |= {"ntk.msa.weight", "ntk.mlp.weight", "ntk.mlp.act"}  # as of the data probe
    assert {str(statistic) for statistic in everything} == {
        name for name, statistic in STATISTICS.items() if statistic.domain != "all"
    } - forwards


class FailingSpace(type(SPACE)):  # type: ignore[misc]
    """The nano space, some of whose networks fail."""

    def __init__(self, failing: list[Architecture]) -> None:
        super().__init__(SPACE.name, SPACE.description, SPACE.fields)
        self.failing = failing

    def network(self, arch: Architecture, classes: int = 1000) -> TransformerNetwork:
        if arch in self.failing:
            raise ValueError("too large")
        return super().network(arch, classes)


@pytest.mark.parametrize("part", ["train", "test"])
def test_a_network_that_fails_is_reported_and_left_out(
    options: dict[str, Any], tmp_path: Path, part: str
) -> None:
    problem = problem_of(options)
    network = int(problem.parts[part][2])
    with SPACES.trial(SPACE.name, FailingSpace([ARCHS[network]])):
        summary = start(EvolveConfig(**{**options, "iterations": 1}, runs=tmp_path))
    quality = only_quality(summary)
    assert quality.failed_networks == {str(network): "ValueError: too large"}
    left = [n for n in problem.parts[part] if n != network]
    for dataset, truth in TRUTH.items():
        params = np.array([SPACE.params(ARCHS[n], problem.batches[dataset].classes) for n in left])
        row = getattr(quality.baselines["params"], part)[dataset]
        assert row.kendall == pytest.approx(tau_of_untied(params, truth[left]))


def test_too_many_failures_stop_the_run(options: dict[str, Any], tmp_path: Path) -> None:
    chosen = problem_of(options).parts["train"][:2]
    space = FailingSpace([ARCHS[n] for n in chosen])
    with (
        SPACES.trial(SPACE.name, space),
        pytest.raises(MeasurementError, match="but 2 of 12 did: ValueError: too large"),
    ):
        start(EvolveConfig(**options, runs=tmp_path))


def test_a_training_part_whose_scores_are_all_the_same_is_an_error(
    options: dict[str, Any], table: Path, tmp_path: Path
) -> None:
    content = json.loads(table.read_text())
    for index in problem_of(options).parts["train"]:
        content["architectures"][index]["scores"]["many"] = 40.0
    flat = tmp_path / "tiny.json"
    flat.write_text(json.dumps(content))
    with pytest.raises(AutoproxError, match="many"):
        start(EvolveConfig(**{**options, "benchmark": str(flat)}, runs=tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("train", [2, 3])
def test_too_few_training_networks_are_named(
    options: dict[str, Any], tmp_path: Path, train: int
) -> None:
    """All formulas on n networks together have at most n (n - 1) + 1 taus."""
    changed = {"datasets": ("few",), "train": train / NETWORKS, "population": 8}
    with pytest.raises(EvolutionError) as error:
        start(EvolveConfig(**{**options, **changed}, runs=tmp_path))
    said = str(error.value)
    known = re.search(r"but (\d+) valid trees have only (\d+): the training networks", said)
    assert known is not None
    assert int(known[1]) >= 8
    assert int(known[2]) <= train * (train - 1) + 1 < 8
    assert said.endswith("choose a larger --train, or a benchmark of more networks")


@pytest.mark.parametrize("place", ["/proc/nothing", "/sys/kernel"])
def test_a_cache_that_cannot_be_written_is_named(
    run: Command, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    if not Path(place).parent.exists() or sys.platform != "linux":
        pytest.skip("folders of Linux")
    monkeypatch.chdir(tmp_path)
    given = ("evolve", "--benchmark", str(table), "--quiet")
    rule = f"the cache must be a folder in which files can be made, but of {place}/"
    result = run(*given, "--cache", place)
    assert (result.code, result.err.count("\n")) == (1, 1)
    assert rule in result.err
    assert result.err.endswith("; choose another --cache\n")
    assert not Path("runs").exists()
