"""`bench build`: trainings, seeds, bands and datasets against the run's log and the table."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.commands import Command, Result
from helpers.images import save_images
from helpers.shortfalls import counted, is_told
from PIL import Image

from autoprox.searchspaces import get_space
from autoprox.training.recipes import DivergedError, ImageRecipe

SPACE = get_space("autoformer-nano")
BUILD = ("bench", "build", "--space", SPACE.name, "--out", "t.json", "--epochs", "1")
BUILD += ("--workers", "1", "--images", "one.npz")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("one", "two"):
        save_images(tmp_path / f"{name}.npz", count=30)
    return tmp_path


def summary_of(done: Result) -> dict[str, Any]:
    assert done.code == 0, done.err
    summary: dict[str, Any] = done.json
    return summary


def table() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path("t.json").read_text())
    return found


def jobs(run: str) -> list[dict[str, Any]]:
    """The lines of the log, no training twice."""
    lines = [json.loads(line) for line in (Path(run) / "log.jsonl").read_text().splitlines()]
    assert len({line["file"] for line in lines}) == len(lines)
    return lines


@pytest.mark.parametrize(
    ("samples", "seeds", "datasets"),
    [(10, 1, ["one"]), (10, 7, ["one"]), (13, 1, ["one", "two"]), (13, 3, ["one"])],
)
def test_every_architecture_is_trained_on_every_dataset_with_every_seed(
    run: Command, samples: int, seeds: int, datasets: list[str]
) -> None:
    more = [part for name in datasets[1:] for part in ("--images", f"{name}.npz")]
    asked = ("--samples", str(samples), "--seeds", str(seeds), "--epochs", "1")
    summary = summary_of(run(*BUILD, *more, *asked, "--json"))
    lines = jobs(summary["run"])
    assert Counter((line["dataset"], line["seed"]) for line in lines) == {
        (dataset, seed): samples for dataset in datasets for seed in range(seeds)
    }
    assert len({json.dumps(entry["arch"]) for entry in table()["architectures"]}) == samples
    assert np.shape([e["runs"][d] for e in table()["architectures"] for d in datasets]) == (
        samples * len(datasets),
        seeds,
    )
    assert (summary["samples"], summary["architectures"]) == (samples, samples)
    assert (summary["seeds"], summary["shortfalls"]) == (seeds, [])


@pytest.mark.parametrize("epochs", [1, 7])
def test_all_epochs_are_trained(run: Command, monkeypatch: pytest.MonkeyPatch, epochs: int) -> None:
    """Of 24 images that fill a batch, in each as many."""
    seen, prepare = [], ImageRecipe.prepare

    def watched(self: ImageRecipe, data: Any, chosen: Any, generator: Any) -> Any:
        seen.append(len(chosen))
        return prepare(self, data, chosen, generator)

    monkeypatch.setattr(ImageRecipe, "prepare", watched)
    given = ("--samples", "10", "--seeds", "1", "--epochs", str(epochs))
    summary_of(run(*BUILD, *given, "--json"))
    assert seen == 10 * epochs * [24]


def failing(monkeypatch: pytest.MonkeyPatch, at: int, error: BaseException) -> None:
    """Let one training fail."""
    train, begun = ImageRecipe.train, []

    def instead(*args: Any) -> float:
        begun.append(args)
        if len(begun) == at:
            raise error
        return train(*args)

    monkeypatch.setattr(ImageRecipe, "train", instead)


def test_a_failed_training_leaves_fewer_than_asked_for(
    run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, 7, DivergedError("the loss became nan"))
    summary = summary_of(run(*BUILD, "--samples", "13", "--seeds", "2", "--json"))
    assert len(table()["architectures"]) == summary["architectures"] == 12
    assert (summary["samples"], len(summary["failures"])) == (13, 1)
    assert counted(summary) == {"architectures": (13, 12)}
    assert is_told(run("resume", summary["run"]).out, "architectures", 13, 12)


def test_an_interrupted_build_does_all_that_was_asked_for(
    run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        failing(patch, 7, KeyboardInterrupt())
        assert run(*BUILD, "--samples", "13", "--seeds", "2").code == 130
    [path] = Path("runs").iterdir()
    summary = summary_of(run("resume", str(path), "--json"))
    assert len(jobs(str(path))) == 26
    assert len(table()["architectures"]) == summary["samples"] == 13
    assert summary["shortfalls"] == []


@pytest.mark.parametrize(("samples", "bands"), [(10, 1), (10, 10), (13, 7), (13, 13), (17, None)])
def test_bands_have_as_many_architectures(run: Command, samples: int, bands: int | None) -> None:
    """Of the 8 that there are by default, too; no two differ by more than one."""
    asked = () if bands is None else ("--bands", str(bands))
    given = ("--sizes", "12K:192K", "--samples", str(samples), "--seeds", "1")
    summary = summary_of(run(*BUILD, *given, *asked, "--json"))
    count = bands or 8
    edges = 12_000 * 16 ** (np.arange(count + 1) / count)
    archs = [SPACE.architecture(entry["arch"]) for entry in table()["architectures"]]
    params = [SPACE.params(arch, 3) for arch in archs]
    found, _ = np.histogram(params, edges)
    assert found.sum() == len(set(archs)) == samples
    assert found.max() - found.min() <= 1
    assert summary["shortfalls"] == []


def test_more_bands_than_samples_are_refused(run: Command) -> None:
    done = run(*BUILD, "--sizes", "12K:192K", "--samples", "13", "--bands", "14")
    assert (done.code, done.out) == (2, "")
    assert "bands must be at most samples, 13, for each to have one, but got 14" in done.err


def test_all_architectures_of_the_sizes_are_trained_if_more_are_asked_for(run: Command) -> None:
    """Of the smallest networks there are few: a block of the least width, or two."""
    least = SPACE.params(SPACE.smallest(), 3)
    sizes = f"{least}:{least + 1_600}"
    given = ("--sizes", sizes, "--bands", "1", "--samples", "100", "--seeds", "1")
    done = run(*BUILD, *given, "--json")
    assert done.code == 0
    archs = [SPACE.architecture(entry["arch"]) for entry in table()["architectures"]]
    assert 10 <= len(set(archs)) == len(archs) < 100
    assert all(least <= SPACE.params(arch, 3) <= least + 1_600 for arch in archs)
    assert counted(done.json)["samples"] == (100, len(archs))


def test_sizes_with_fewer_architectures_than_a_table_needs_are_refused(run: Command) -> None:
    least = SPACE.params(SPACE.smallest(), 3)
    done = run(*BUILD, "--sizes", f"{least}:{least + 1}", "--bands", "1", "--samples", "10")
    assert (done.code, done.out) == (2, "")
    assert "at least 10 architectures" in done.err


def test_a_dataset_that_is_given_twice_is_refused(run: Command) -> None:
    for again in ("one.npz", "./one.npz"):
        done = run(*BUILD, "--images", again)
        assert (done.code, done.out) == (2, "")
        assert "datasets must be at paths of different names" in done.err


def test_a_dataset_to_mirror_that_is_named_twice_is_mirrored(run: Command) -> None:
    given = ("--samples", "10", "--seeds", "1", "--mirror", "one")
    once = summary_of(run(*BUILD, *given, "--json"))
    scores = [entry["runs"] for entry in table()["architectures"]]
    Path("t.json").unlink()
    for file in Path("t.json.parts").iterdir():
        file.unlink()
    twice = summary_of(run(*BUILD, *given, "--mirror", "one", "--json"))
    assert [entry["runs"] for entry in table()["architectures"]] == scores
    assert twice["datasets"] == once["datasets"]


def test_classes_without_images_are_told(run: Command, folder: Path) -> None:
    with np.load("one.npz") as arrays:
        np.savez("one.npz", images=arrays["images"], labels=5 * arrays["labels"])
    summary = summary_of(run(*BUILD, "--samples", "10", "--seeds", "1", "--json"))
    short = {"classes of one": (11, 3), "held-out classes of one": (11, 3)}
    assert counted(summary) == short
    report = run("resume", summary["run"]).out
    assert all(is_told(report, of, *numbers) for of, numbers in short.items())


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ((3, 1), "must have at least 2 images of class 1, but has 1"),
        ((3, 0), "must have the images of one class, but has none"),
        ((3,), "must have images of at least two classes"),
    ],
)
def test_folders_with_too_few_images_are_refused(
    run: Command, folder: Path, counts: tuple[int, ...], message: str
) -> None:
    for label, count in enumerate(counts):
        own = folder / "photos" / f"class{label}"
        own.mkdir(parents=True)
        for number in range(count):
            Image.new("RGB", (16, 16)).save(own / f"{number}.png")
    done = run(*BUILD, "--images", "photos")
    assert (done.code, done.out) == (2, "")
    assert message in done.err


def test_files_that_are_no_images_are_told(run: Command, folder: Path) -> None:
    """Those in the folders of classes and beside them; hidden ones are nobody's images."""
    for number in range(20):
        file = folder / "photos" / f"class{number % 2}" / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (16, 16), (9 * number, 0, 99)).save(file)
    for name in ("class0/a.gif", "class0/b.avif", "class1/more/c.png", "d.png", "class1/.hidden"):
        file = folder / "photos" / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(b"")
    (folder / "photos" / "read.me").write_text("these are mine")
    given = ("--images", "photos", "--samples", "10", "--seeds", "1")
    summary = summary_of(run(*BUILD, *given, "--json"))
    assert counted(summary) == {"files of photos": (24, 20)}
    assert is_told(run("resume", summary["run"]).out, "files of photos", 24, 20)
