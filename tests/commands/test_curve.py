"""The curve over the number of labels, against its own log, scipy and plain fits."""

import json
from pathlib import Path

import numpy as np
import pytest
from helpers.commands import Command
from helpers.tables import table
from scipy.stats import kendalltau

from autoprox.benchmarks import load_benchmark
from autoprox.evaluation.label_curves import METHODS, PARAMS, RIDGE, WITH_PRIOR
from autoprox.scoring.baselines import regression_features, ridge_predictions
from autoprox.searchspaces import get_space

COUNT = 30
SMALL = (
    *(
        "curve",
        "--benchmark=mine.json",
        "--population=12",
        "--draws=3",
        "--labels=8,0",
        "--zoo=snip",
    ),
    *("--batch-size=1", "--workers=1"),
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "mine.json").write_text(json.dumps(table(COUNT)))
    return tmp_path


def test_the_rows_are_means_over_draws_of_taus_on_the_other_networks(run: Command) -> None:
    found = run(*SMALL, "--json").json
    rows = {(row["method"], row["labels"]): row for row in found["rows"]}
    assert set(rows) == {*((m, 8) for m in METHODS), (PARAMS, 0), (WITH_PRIOR, 0)}
    benchmark = load_benchmark("mine.json")
    space = get_space(benchmark.space)
    params = {
        dataset: np.array([space.params(arch, count) for arch in benchmark.architectures])
        for dataset, count in benchmark.classes.items()
    }
    features = regression_features("ridge", space, benchmark.architectures)
    taus: dict[str, list[float]] = {PARAMS: [], RIDGE: []}
    for draw in range(3):
        order = np.random.default_rng([0, draw]).permutation(COUNT)
        labels, rest = np.sort(order[:8]), np.sort(order[8:])
        each: dict[str, list[float]] = {PARAMS: [], RIDGE: []}
        for dataset, truth in benchmark.scores.items():
            predicted = ridge_predictions(features[labels], truth[labels], features)
            for name, scores in ((PARAMS, params[dataset]), (RIDGE, predicted)):
                each[name].append(plain_tau(scores[rest], truth[rest]))
        for name, own in each.items():
            taus[name].append(float(np.mean(own)))
    for name, own in taus.items():
        assert len(own) == 3
        assert rows[name, 8]["tau"] == pytest.approx(np.mean(own))
        assert rows[name, 8]["interval"] == pytest.approx(np.percentile(own, (2.5, 97.5)))
    whole = [plain_tau(params[own], truth) for own, truth in benchmark.scores.items()]
    assert rows[PARAMS, 0]["tau"] == pytest.approx(np.mean(whole))
    lines = [
        json.loads(line) for line in (Path(found["run"]) / "log.jsonl").read_text().splitlines()
    ]
    differences = [line["taus"]["8"][WITH_PRIOR] - line["taus"]["8"][RIDGE] for line in lines]
    assert rows[RIDGE, 8]["behind"] == pytest.approx(np.mean(differences))
    figure = (Path(found["run"]) / "curve.svg").read_text()
    assert all(f">{method}</text>" in figure for method in METHODS)


def plain_tau(scores: np.ndarray, truth: np.ndarray) -> float:
    """Tau-b of scipy, with ties of scores counted as unordered."""
    untied = np.mean([a != b for i, a in enumerate(scores) for b in scores[:i]])
    return float(kendalltau(scores, truth).statistic * np.sqrt(untied))


def test_a_stopped_curve_goes_on_with_the_draws_that_are_left(run: Command) -> None:
    whole = run(*SMALL, "--json").json
    path = Path(whole["run"])
    lines = (path / "log.jsonl").read_text().splitlines(keepends=True)
    (path / "log.jsonl").write_text(lines[0])
    (path / "summary.json").unlink()
    again = run("resume", str(path), "--json").json
    assert again["rows"] == whole["rows"]
    assert (path / "log.jsonl").read_text().splitlines(keepends=True) == lines


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ("2,8", "labels must be 0 or at least 3, in whole numbers, but got 2"),
        ("4.5", "labels must be 0 or at least 3, in whole numbers, but got 4.5"),
        ("25", "labels must leave 10 of the 30 networks for the test, but are 25"),
        ("x", "labels must be numbers separated by commas, but got 'x'"),
    ],
)
def test_numbers_of_labels_that_are_refused(
    run: Command, folder: Path, labels: str, message: str
) -> None:
    result = run("curve", "--benchmark=mine.json", f"--labels={labels}")
    assert result.code == 2
    assert message in " ".join(result.err.split())
    assert not (folder / "runs").exists()
