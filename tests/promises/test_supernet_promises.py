"""`supernet train` and `eval`: epochs, subnets, images and samples against what was really done."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.commands import Command
from helpers.images import save_images
from helpers.shortfalls import counted, is_told
from safetensors import safe_open
from torch import Tensor, nn

from autoprox import runner
from autoprox.benchmarks import load_benchmark
from autoprox.configurations.supernets import SupernetEvalConfig, SupernetTrainConfig
from autoprox.oneshot.supernet import inherited_accuracy
from autoprox.oneshot.supernet.training import SupernetRecipe, SupernetTraining
from autoprox.searchspaces import Architecture, get_space

SPACE = get_space("autoformer-nano")
SMALL = [{"hidden_dim": 16, "depth": 1, "mlp_ratio": [r], "num_heads": [h]}
         for r in (0.5, 1.0, 2.0, 4.0) for h in (1, 2, 3, 4)][:13]  # fmt: skip


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where commands run, with 96 images, of which 19 are held out, and of the same in order."""
    monkeypatch.chdir(tmp_path)
    save_images(tmp_path / "small.npz")
    with np.load(tmp_path / "small.npz") as arrays:
        order = np.argsort(arrays["labels"], kind="stable")
        np.savez(tmp_path / "ordered.npz", **{name: arrays[name][order] for name in arrays})
    return tmp_path


@pytest.fixture
def trained(run: Command) -> Callable[..., dict[str, Any]]:
    def train(*options: str) -> dict[str, Any]:
        given = ("--space", SPACE.name, "--images", "small.npz", "--epochs", "1")
        done = run("supernet", "train", *given, *options, "--json")
        assert done.code == 0, done.err
        summary: dict[str, Any] = done.json
        return summary

    return train


Train = Callable[..., dict[str, Any]]


def steps_of(weights: str) -> tuple[int, int]:
    """The epochs and steps after which weights were written."""
    with safe_open(weights, "pt") as file:
        header = file.metadata()
    return int(header["epoch"]), int(header["steps"])


@pytest.mark.parametrize("epochs", [1, 7])
@pytest.mark.parametrize(
    ("batch", "repeats"), [("13", "1"), ("32", "1"), ("32", "4"), ("77", "7"), ("14", "7")]
)
def test_epochs_are_of_as_many_images_as_are_told(
    trained: Train, monkeypatch: pytest.MonkeyPatch, epochs: int, batch: str, repeats: str
) -> None:
    seen, prepare = [list[int]()], SupernetRecipe.prepare

    def watched(self: SupernetRecipe, data: Any, chosen: Tensor, rng: torch.Generator) -> Any:
        seen[-1] += chosen.tolist()
        return prepare(self, data, chosen, rng)

    monkeypatch.setattr(SupernetRecipe, "prepare", watched)
    options = ("--batch-size", batch, "--repeats", repeats, "--epochs", str(epochs))
    summary = trained(*options)
    assert len((Path(summary["run"]) / "log.jsonl").read_text().splitlines()) == epochs
    assert steps_of(summary["weights"]) == (epochs, summary["steps"])
    assert summary["epochs"] == epochs
    assert len(seen[0]) == summary["steps"] * int(batch)
    first = seen[0][: len(seen[0]) // epochs]
    assert len(set(first)) == summary["images_per_epoch"] <= summary["images"] == 78


def test_an_interrupted_training_does_all_epochs(trained: Train, tmp_path: Path) -> None:
    def stop(task: str, done: int, total: int, note: str) -> None:
        if (task, done) == ("train", 3):
            raise KeyboardInterrupt

    config = SupernetTrainConfig(space=SPACE.name, images="small.npz", epochs=7, batch_size=32)
    with pytest.raises(KeyboardInterrupt):
        runner.start(config, stop)
    [run] = (tmp_path / "runs").iterdir()
    summary = runner.resume_run(run).to_json()
    assert len((run / "log.jsonl").read_text().splitlines()) == summary["epochs"] == 7
    assert steps_of(summary["weights"]) == (7, summary["steps"]) == (7, 14)


def test_repeats_fill_batches_or_are_refused(run: Command) -> None:
    given = ("--space", SPACE.name, "--images", "small.npz", "--batch-size", "32")
    for repeats in ("3", "33"):
        done = run("supernet", "train", *given, "--repeats", repeats)
        assert (done.code, done.out) == (2, "")
        rule = f"batch_size must be a multiple of repeats, but got 32 and {repeats}"
        assert rule in done.err


@pytest.mark.parametrize("count", [1, 7, 13])
def test_subnets_of_a_file_are_counted_and_so_are_those_drawn(
    trained: Train, run: Command, monkeypatch: pytest.MonkeyPatch, folder: Path, count: int
) -> None:
    """Every subnet is twice in the file, in other words the second time."""
    drawn, make = set[Architecture](), SupernetTraining._make_subnet

    def watched(self: SupernetTraining, arch: Architecture) -> Any:
        drawn.add(arch)
        return make(self, arch)

    monkeypatch.setattr(SupernetTraining, "_make_subnet", watched)
    entries = [{"arch": own} for own in SMALL[:count]]
    again = [{"arch": dict(reversed(own.items())), "score": 1} for own in SMALL[:count]]
    (folder / "list.json").write_text(json.dumps([*entries, *again]))
    given = ("--sampler", "preferred", "--subnets", "list.json", "--batch-size", "16")
    summary = trained(*given)
    assert [row["arch"] for row in summary["subnets"]] == SMALL[:count]
    short = {"subnets": (2 * count, count)}
    if len(drawn) < count:
        short["different subnets"] = (count, len(drawn))
    assert counted(summary) == short
    assert summary["steps"] == 4
    report = run("resume", summary["run"]).out
    assert all(is_told(report, of, *numbers) for of, numbers in short.items())


def test_a_sampler_that_needs_no_file_tells_nothing(trained: Train) -> None:
    assert trained("--sampler", "sandwich", "--batch-size", "32")["shortfalls"] == []


def test_classes_without_images_are_told(trained: Train, run: Command, folder: Path) -> None:
    save_images(folder / "gaps.npz")
    with np.load(folder / "gaps.npz") as arrays:
        np.savez(folder / "gaps.npz", images=arrays["images"], labels=5 * arrays["labels"])
    summary = trained("--images", "gaps.npz", "--batch-size", "32")
    short = {"classes of gaps": (11, 3), "held-out classes of gaps": (11, 3)}
    assert counted(summary) == short
    assert is_told(run("resume", summary["run"]).out, "classes of gaps", 11, 3)


@pytest.fixture
def supernet(trained: Train) -> str:
    return str(trained("--batch-size", "32", "--images", "ordered.npz")["run"])


@pytest.mark.parametrize("samples", [10, 13])
def test_as_many_subnets_are_evaluated_as_are_asked_for(
    supernet: str, run: Command, samples: int
) -> None:
    config = SupernetEvalConfig(supernet=supernet, samples=samples, workers=1)

    def stop(task: str, done: int, total: int, note: str) -> None:
        if (task, done) == ("evaluate", 7):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        runner.start(config, stop)
    path = max(Path("runs").iterdir(), key=lambda own: "eval" in own.name)
    for _ in range(2):  # gone on with, and then read
        summary = run("resume", str(path), "--json").json
        lines = [json.loads(line) for line in (path / "accuracies.jsonl").read_text().splitlines()]
        assert sorted(line["subnet"] for line in lines) == list(range(samples))
        assert len(set(load_benchmark(Path(summary["file"])).architectures)) == samples
        assert (summary["architectures"], summary["shortfalls"]) == (samples, [])


@pytest.mark.parametrize("limit", [1, 7, 13, 19, 1000])
def test_the_limit_leaves_images_of_all_classes(
    supernet: str, run: Command, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """Although the images are in the order of their classes, of which 6, 6 and 6 are held out."""
    seen, accuracy = [], inherited_accuracy.accuracy

    def watched(network: nn.Module, images: Tensor, labels: Tensor) -> float:
        seen.append(labels.tolist())
        return accuracy(network, images, labels)

    monkeypatch.setattr(inherited_accuracy, "accuracy", watched)
    given = ("--samples", "10", "--workers", "1", "--limit", str(limit))
    summary = run("supernet", "eval", supernet, *given, "--json").json
    assert len(seen) == 10
    of_class = np.bincount(seen[0], minlength=3)
    assert of_class.sum() == summary["held_out"] == min(limit, 18)
    assert of_class.max() - of_class.min() <= 1
    short = {}
    if limit > 18:
        short["limit"] = (limit, 18)
    if limit < 3:
        short["held-out classes of ordered"] = (3, limit)
    assert counted(summary) == short
    report = run("resume", summary["run"]).out
    assert all(is_told(report, of, *numbers) for of, numbers in short.items())
