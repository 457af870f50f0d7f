"""The predictor of an evolution: stored with the run, and used again to rank and to search."""

import json
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.commands import Command
from helpers.evolutions import only_fold, only_problem, only_quality
from helpers.interruptions import Stopped, stop_at
from helpers.tables import table
from scipy.stats import multivariate_normal, norm, rankdata

from autoprox.commands.evolve import EvolveSummary, EvolveTask
from autoprox.commands.rank import RankTask
from autoprox.configurations.commands import EvolveConfig, RankConfig
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.errors import AutoproxError, ConfigError
from autoprox.language import parse_expression
from autoprox.report.html.page_rendering import render_page
from autoprox.runner import resume_run, start
from autoprox.runs.folder import Run
from autoprox.scoring.baselines import regression_features
from autoprox.scoring.correlations import Floats
from autoprox.scoring.evaluation_set import EvaluationSet
from autoprox.searchspaces import get_space
from autoprox.statistics.matrix_sources import UncachedMatrices
from autoprox.zoo.proxy_loading import resolve_proxy

Options = dict[str, Any]
SMALL = ("--batch-size", "2", "--json", "--quiet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("predictors")
    (folder / "mine.json").write_text(json.dumps(table(40)))
    other = {**table(40), "name": "other"}
    (folder / "other.json").write_text(
        json.dumps({**other, "architectures": other["architectures"][4:]})
    )
    return folder


@pytest.fixture(scope="module")
def options(folder: Path) -> Options:
    return {
        **{"benchmark": str(folder / "mine.json"), "cache": str(folder / "cache")},
        **{"batch_size": 2, "workers": 1, "zoo": ("none",), "prior": False},
        **{"statistics": ("msa.weight",), "population": 20, "iterations": 2, "children": 4},
        **{"terms": 2, "stride": 1, "runs": folder / "runs"},
    }


@pytest.fixture(scope="module")
def finished(options: Options) -> EvolveSummary:
    return start(EvolveConfig(**options))


def ranking(finished: EvolveSummary, options: Options) -> tuple[RankTask, dict[str, Any]]:
    """Rank the test networks of a run by its predictor, and return the predictions too."""
    quality, name = only_quality(finished), f"{finished.run}:predictor"
    config = RankConfig(
        benchmark=options["benchmark"], proxies=(name,), batch_size=2, workers=1, seed=0
    )
    task = RankTask(config)
    task.restrict(quality.networks["test"].network)
    run = Run.create(options["runs"], "ranking", {"kind": "rank"})
    lines = task.measured(run, lambda *_: None)
    run.close()
    scores = {d: task.scores(lines, name, d)[0] for d in task.benchmark.datasets}
    return task, scores


def test_rank_predicts_what_evolve_reported(finished: EvolveSummary, options: Options) -> None:
    quality = only_quality(finished)
    task, scores = ranking(finished, options)
    networks = EvaluationSet(task.benchmark, range(len(task.benchmark.architectures)), 0)
    reported = quality.baselines["predictor"].test
    found = networks.table(scores)
    assert found.keys() == reported.keys()
    for dataset, row in found.items():
        assert row.model_dump() == reported[dataset].model_dump()


def naive_process(x: Floats, z: Floats, y: Floats, known: int) -> Floats:
    """Predict by inverses: the prior mean z / 2, averaged over hyperparameters by likelihood."""
    means, likelihoods = [], []
    distances = ((x[:, None] - x[None]) ** 2).sum(axis=2) / x.shape[1]
    for length, linear, variance, noise in product(
        (0.5, 1.0, 2.0), (0.0, 0.5), (0.25, 1.0), (0.1, 0.3, 1.0)
    ):
        kernel = (
            1
            + 0.25 * np.outer(z, z)
            + variance
            * ((1 - linear) * np.exp(-distances / (2 * length**2)) + linear * x @ x.T / x.shape[1])
        )
        inner = kernel[:known, :known] + noise * np.eye(known)
        residual = y - z[:known] / 2
        means.append(z / 2 + kernel[:, :known] @ np.linalg.inv(inner) @ residual)
        likelihoods.append(multivariate_normal(cov=inner).logpdf(residual))
    weights = np.exp(np.array(likelihoods) - max(likelihoods))
    return np.asarray(weights @ np.array(means) / weights.sum())


def test_predictions_are_those_of_a_process_whose_mean_is_the_committee(
    finished: EvolveSummary, options: Options
) -> None:
    _, scores = ranking(finished, options)
    problem = only_problem(EvolveTask(EvolveConfig(**options)))
    archs, train = problem.benchmark.architectures, problem.parts["train"]
    source = UncachedMatrices(problem.setting(stride=1), problem.networks())
    tree = parse_expression(str(only_fold(finished).committee))
    values = TreeEvaluator(source).evaluate([tree]).values[0]
    order = np.concatenate([train, problem.parts["test"]])
    for (dataset, truth), own in zip(problem.benchmark.scores.items(), values, strict=True):
        x = regression_features("gaussian-process", problem.space, archs)
        x = x[:, np.ptp(x[train], axis=0) > 0]
        x = (x - x[train].mean(axis=0)) / x[train].std(axis=0)
        z = np.log(np.abs(own))
        z = (z - z[train].mean()) / z[train].std()
        y = norm.ppf((rankdata(truth[train]) - 0.5) / len(train))
        expected = naive_process(x[order], z[order], y, len(train))[len(train) :]
        np.testing.assert_allclose(scores[dataset], expected, rtol=1e-5, atol=1e-6)


def test_it_goes_wherever_networks_of_its_space_are_ranked(
    finished: EvolveSummary, folder: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "xdg"))
    name = f"{finished.run}:predictor"
    ranked = run("rank", "--benchmark", "mine.json", "--proxies", name, *SMALL)
    assert ranked.code == 0, ranked.err
    assert {row["proxy"] for row in ranked.json["rows"]} == {name}
    assert ranked.json["evolved_on"][name]["networks"] == len(
        only_quality(finished).networks["train"].network
    )
    compared = run("compare", finished.run, name, *SMALL)
    assert compared.code == 0, compared.err
    search = ("search", "--space", "autoformer-nano", "--proxy", name, "--samples", "4", *SMALL)
    found = run(*search, "--dataset", "wide", "--classes", "10")
    assert found.code == 0, found.err
    predictor: Any = resolve_proxy(name).proxy
    lines = Run.open(Path(found.json["run"])).read_lines("candidates")
    space = only_problem(EvolveTask(EvolveConfig(benchmark="mine.json", zoo=("none",)))).space
    archs = [space.architecture(line["arch"]) for line in lines]
    expected = predictor.predict(archs, "wide", np.array([line["terms"][0] for line in lines]))
    np.testing.assert_allclose([line["score"] for line in lines], expected)
    best = found.json["best"]
    assert best["score"] == pytest.approx(max(expected))
    assert render_page([Path(found.json["run"])])
    assert run(*search, "--weights", "inherited").code == 0


def test_a_dataset_without_labels_has_the_mean_of_the_others(finished: EvolveSummary) -> None:
    predictor: Any = resolve_proxy(f"{finished.run}:predictor").proxy
    space = get_space("autoformer-nano")
    archs = [space.architecture(own["arch"]) for own in table(6)["architectures"]]
    scores = np.array([0.0, 1.0, -2.0, np.nan, 3.0, 1e-9])
    each = [predictor.predict(archs, own, scores) for own in ("wide", "deep")]
    assert np.isfinite(each).all()
    np.testing.assert_allclose(predictor.predict(archs, "photos", scores), np.mean(each, axis=0))


def test_a_resumed_run_has_the_same_predictor(
    finished: EvolveSummary, options: Options, folder: Path
) -> None:
    root = folder / "stopped"
    with pytest.raises(Stopped):
        start(EvolveConfig(**{**options, "runs": root}), stop_at("measure", 1))
    [path] = root.iterdir()
    assert not (path / "hall_of_fame" / "predictor.json").exists()
    resume_run(path)

    def content(run: Path) -> Any:
        found = json.loads((run / "hall_of_fame" / "predictor.json").read_text())
        found["found"].pop("run")
        return found

    assert content(path) == content(Path(finished.run))


@pytest.mark.parametrize("command", ["rank", "search", "show", "score", "export"])
def test_what_is_refused_takes_one_line(
    command: str,
    finished: EvolveSummary,
    folder: Path,
    run: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    name = f"{finished.run}:predictor"
    rule = "ranks the architectures of a space: `rank`, `search` and `compare` take it"
    arguments, message = {
        "rank": (
            ("--benchmark", "nano-bench", "--space", "pit-nano", "--proxies", name),
            "of pit-nano",
        ),
        "search": (("--space", "pit-nano", "--proxy", name), "of pit-nano"),
        "show": ((name,), rule),
        "score": (("--model", "timm:vit_tiny_patch16_224", "--proxy", name), rule),
        "export": (("proxy", name), rule),
    }[command]
    found = run(command, *arguments)
    assert found.code == 2
    assert message in found.err
    assert len(found.err.strip().splitlines()) == 1


def test_runs_of_several_spaces_and_of_before_have_none(options: Options, folder: Path) -> None:
    tables = [str(folder / "mine.json"), str(folder / "other.json")]
    several = {n: v for n, v in options.items() if n not in ("benchmark", "prior")}
    found = start(EvolveConfig(**several, spaces=tables))
    with pytest.raises(AutoproxError, match=r"on one space, since version 0\.3, but .* has none"):
        resolve_proxy(f"{found.run}:predictor")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 2}, "version must be at most 1"),
        ({"expression": "add(1"}, "expression"),
        ({"datasets": {}}, "datasets"),
        ({"datasets": {"wide": {"truth": [1.0], "logs": [2.0]}}}, "for each of .* networks"),
        ({"architectures": [{"depth": 1}] * 24}, "missing from the choices|for each of"),
    ],
)
def test_a_changed_file_is_an_error(
    change: Options, message: str, finished: EvolveSummary, tmp_path: Path
) -> None:
    path = tmp_path / "run"
    shutil.copytree(finished.run, path)
    file = path / "hall_of_fame" / "predictor.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(AutoproxError, match=message):
        resolve_proxy(f"{path}:predictor")


def test_a_predictor_needs_labels(options: Options) -> None:
    with pytest.raises(ConfigError, match="at least 3 networks must be for training, but are 2"):
        EvolveTask(EvolveConfig(**{**options, "train": 0.05}))
