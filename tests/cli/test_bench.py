"""`autoprox bench build` as a user types it, and the benchmark that needs no fetching."""

import errno
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autoprox import cli
from autoprox.benchmarks import load_benchmark
from autoprox.configurations.commands import BuildConfig
from autoprox.report.terminal.layout import number
from autoprox.runs.folder import locked
from autoprox.scoring.true_score_reliability import true_score_reliability
from autoprox.searchspaces import get_space
from autoprox.training import benchmark_training as building
from autoprox.training.recipes import DivergedError, ImageRecipe, TextRecipe

Run = Callable[..., tuple[int, str, str]]


def save(path: Path, seed: int) -> None:
    """Three classes of different brightness, and noise."""
    rng = np.random.default_rng(seed)
    labels = np.arange(90) % 3
    images = rng.integers(0, 200, (90, 8, 8, 3)) + 12 * labels[:, None, None, None]
    np.savez(path, images=images.astype(np.uint8), labels=labels)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands run, with images of two datasets."""
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "one.npz", 1)
    save(tmp_path / "two.npz", 2)
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exit_:
            cli.main(arguments)
        out, err = capsys.readouterr()
        return int(exit_.value.code or 0), out, err

    return command


@pytest.fixture
def build(run: Run) -> Run:
    """A build that takes a second; what is given replaces its options."""
    small = ["--space=autoformer-nano", "--images=one.npz", "--out=t.json", "--workers=1"]
    small += ["--samples=10", "--seeds=1", "--epochs=1"]
    return lambda *arguments: run("bench", "build", *small, *arguments)


def failing(monkeypatch: pytest.MonkeyPatch, at: int, error: BaseException) -> list[Any]:
    """Let one training fail; returns the list of those that were begun."""
    train, begun = ImageRecipe.train, []

    def instead(*args: Any) -> float:
        begun.append(args)
        if len(begun) == at:
            raise error
        return train(*args)

    monkeypatch.setattr(ImageRecipe, "train", instead)
    return begun


def test_build(build: Run, run: Run, folder: Path) -> None:
    code, out, err = build("--images=two.npz", "--seeds=2", "--mirror=two", "--json")
    assert code == 0
    assert err.splitlines()[-1].startswith("train 40/40")
    details, table = json.loads(out), json.loads((folder / "t.json").read_text())
    assert (details["file"], details["architectures"], details["failures"]) == ("t.json", 10, [])
    assert table["training"]["recipe"]["mirror"] == ["two"]
    for dataset, scores in load_benchmark(folder / "t.json").scores.items():
        found = details["datasets"][dataset]
        bounds = [found[name] for name in ("lowest", "median", "highest")]
        assert bounds == pytest.approx([scores.min(), np.median(scores), scores.max()])
        assert found["noise_ceiling"] == table["training"]["noise_ceiling"][dataset]


def test_a_build_says_how_far_its_scores_can_be_trusted(
    build: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autoprox.scoring.true_score_reliability.MIN_NEAR_SIZE_PAIRS", 1)
    code, out, _ = build("--seeds=2", "--sizes=20K:22K")
    assert code == 0
    table, space = json.loads((folder / "t.json").read_text()), get_space("autoformer-nano")
    architectures = [space.architecture(entry["arch"]) for entry in table["architectures"]]
    params = np.array([space.params(arch, 3) for arch in architectures], dtype=np.float64)
    runs = np.array([entry["runs"]["one"] for entry in table["architectures"]])
    found = table["training"]["reliability"]["one"]
    assert found is not None
    assert found == true_score_reliability(runs, params)
    assert re.search(rf"one .* {number(found).replace('.', '[.]')} *$", out, re.M), out


def test_the_default_epochs_are_those_of_the_recipes() -> None:
    config = BuildConfig(space="autoformer-nano", out="t.json")
    assert config.epochs == ImageRecipe().epochs == TextRecipe().epochs


def test_failed_training(build: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, 2, DivergedError("the loss became nan"))
    code, out, _ = build("--samples=11")
    assert code == 0
    assert "10 architectures of autoformer-nano, seeds: 1; " in out
    assert "trainings failed: 1\nleft out: one, seed 0: DivergedError: the loss became nan" in out
    assert "\nTable: t.json\n" in out
    assert "\nNext:\nautoprox evolve --benchmark t.json\n" in out


def test_too_many_failed_trainings(build: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, 2, RuntimeError("bad shape"))
    code, out, err = build()
    assert (code, out) == (1, "")
    assert err.splitlines()[-1].startswith("error: at least 10 architectures must be trained")


@pytest.mark.parametrize("again", ["resume", "start"])
def test_interrupted_and_again(
    build: Run, run: Run, monkeypatch: pytest.MonkeyPatch, folder: Path, again: str
) -> None:
    with monkeypatch.context() as patch:
        failing(patch, 4, KeyboardInterrupt())
        code, out, err = build()
    assert (code, out) == (130, "")
    [interrupted] = folder.glob("runs/*")
    place = interrupted.relative_to(folder)
    assert err.splitlines()[-1] == f"interrupted; `autoprox resume {place}` continues it"
    assert not (folder / "t.json").exists()
    begun = failing(monkeypatch, 0, KeyboardInterrupt())
    if again == "resume":
        assert run("resume", str(place))[0] == 0
        assert len((interrupted / "log.jsonl").read_text().splitlines()) == 10
    else:
        assert build()[0] == 0
    assert len(begun) == 7


def test_full_disk(build: Run, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    def full(path: Path, value: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(building, "write_json", full)
    code, out, err = build()
    assert (code, out) == (1, "")
    place = next(folder.glob("runs/*")).relative_to(folder)
    assert err.splitlines()[-1] == (
        "error: No space left on device: t.json.parts/settings.json; "
        f"`autoprox resume {place}` continues it"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--images=three.npz"],
            "three.npz must be a file or folder of images, but does not exist",
        ),
        (["--space=autoformer-nan"], "unknown search space 'autoformer-nan' (did you mean autof"),
        (
            ["--samples=9"],
            "samples must be a whole number >= 10, but got 9",
        ),
        (["--samples=ten"], "Invalid value for '--samples'"),
        (["--epochs=0"], "epochs must be a whole number >= 1, but got 0"),
        (["--mirror=on"], "unknown dataset 'on' to mirror (did you mean one?); choose from one"),
        (["--teacher=nothing"], "the teacher must be a function given as MODULE:FUNCTION, but"),
        *(
            (
                [f"--out={out}"],
                "the table must be written to a new file, or to one of this very build",
            )
            for out in (".", "one.npz", "/dev/null")
        ),
        (
            ["--sizes=5M:9M"],
            "an architecture of autoformer-nano must be within the limits, but",
        ),
        (["--sizes=20K:"], "sizes must be LOW:HIGH with 0 < LOW < HIGH, for example 12K:48K, but"),
        (["--sizes=2:1"], "`low <= high` must hold for sizes"),
        (["--bands=3"], "bands must be given with sizes, but got 3 alone"),
        (["--sizes=20K:90K", "--bands=0"], "bands must be a whole number >= 1, but got 0"),
    ],
)
def test_wrong_use(build: Run, arguments: list[str], message: str, folder: Path) -> None:
    code, out, err = build(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1
    assert {path.name for path in folder.iterdir()} == {"one.npz", "two.npz"}


def test_sizes_in_bands(build: Run, folder: Path) -> None:
    """Five of each half, whose edge is the geometric mean."""
    assert build("--sizes=20K:80K", "--bands=2")[0] == 0
    space = get_space("autoformer-nano")
    rows = json.loads((folder / "t.json").read_text())["architectures"]
    archs = [space.architecture(row["arch"]) for row in rows]
    sizes = sorted(sum(p.numel() for p in space.build(arch, 3).parameters()) for arch in archs)
    assert 20_000 <= sizes[0] < sizes[4] < 40_000 <= sizes[5] < sizes[-1] <= 80_000


def test_a_table_has_one_builder(build: Run, folder: Path) -> None:
    parts = folder / "my-table.json.parts"
    parts.mkdir()
    left = [folder / ".my-table.json.1-2.part", parts / ".settings.json.1-2.part"]
    others = folder / ".other-table.json.1-2.part"
    for path in (*left, others):
        path.write_text("{")
    with locked(parts):
        code, _, err = build("--out=my-table.json")
    assert code == 2
    assert f"a table has one writer, but another process is writing {parts.name}" in err
    assert build("--out=my-table.json")[0] == 0
    assert not any(path.exists() for path in left)
    assert others.exists()


def test_nothing_to_fetch(run: Run) -> None:
    code, out, _ = run("bench", "fetch", "nano-bench")
    assert (code, out) == (0, "nano-bench comes with autoprox: nothing needs to be fetched\n")
    assert run("bench", "fetch", "nano-bench", "--json")[1] == "[]\n"
    assert "embedded" in run("bench", "list")[1].splitlines()[2]
    info = run("bench", "info", "nano-bench")[1]
    assert re.search(r"pit-nano: cifar10 0\.\d{3}, fashion-mnist 0\.\d{3}\n", info)
