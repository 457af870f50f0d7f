"""Tables built by training: what is in them, going on after a stop, failures and bad input."""

import errno
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.building import build_table
from scipy.stats import kendalltau

from autoprox.benchmarks import load_benchmark
from autoprox.errors import AutoproxError, MeasurementError
from autoprox.searchspaces import get_space
from autoprox.training import benchmark_training as building
from autoprox.training.benchmark_training import TrainingJob
from autoprox.training.recipes import DivergedError, ImageRecipe, accuracy

SPACE = "autoformer-nano"
RECIPE = ImageRecipe(epochs=1, batch_size=32)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """As in every training; sums in another order have other last digits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def save(path: Path, seed: int) -> Path:
    """Two classes that differ a little in brightness, too little to be told apart surely."""
    rng = np.random.default_rng(seed)
    labels = np.arange(120) % 2
    images = rng.integers(0, 200, (120, 8, 8, 3)) + 12 * labels[:, None, None, None]
    np.savez(path, images=images.astype(np.uint8), labels=labels)
    return path


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("images")
    return [save(folder / "one.npz", 1), save(folder / "two.npz", 2)]


@pytest.fixture(scope="module")
def built(images: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("built") / "my table.json"
    build_table(SPACE, images, out, samples=12, seeds=3, recipe=RECIPE)
    return out


class Progress:
    """Keeps what a build says."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, int, int, str]] = []

    def __call__(self, task: str, done: int, total: int, note: str) -> None:
        self.calls.append((task, done, total, note))


def without_times(table: dict[str, Any]) -> dict[str, Any]:
    training = {k: v for k, v in table["training"].items() if k != "core_hours"}
    return {**table, "training": training}


def test_the_table_is_a_benchmark(built: Path, images: list[Path]) -> None:
    benchmark = load_benchmark(built)
    table = json.loads(built.read_text())
    assert (benchmark.name, benchmark.space) == ("my-table", SPACE)
    assert benchmark.classes == {"one": 2, "two": 2}
    assert len(set(benchmark.architectures)) == 12
    for dataset, scores in benchmark.scores.items():
        runs = [entry["runs"][dataset] for entry in table["architectures"]]
        assert np.shape(runs) == (12, 3)
        assert scores == pytest.approx(np.mean(runs, axis=1), abs=1e-4)


def test_the_table_says_how_it_was_measured(built: Path) -> None:
    table = json.loads(built.read_text())
    training = table["training"]
    assert training["recipe"]["epochs"] == 1
    assert training["datasets"]["one"]["images"] == 96
    assert training["datasets"]["one"]["held_out"] == 24
    assert training["versions"]["torch"] == torch.__version__
    assert (training["seeds"], training["failures"]) == (3, [])
    assert training["core_hours"] >= 0
    for dataset, ceiling in training["noise_ceiling"].items():
        first, second, third = np.array([e["runs"][dataset] for e in table["architectures"]]).T
        pairs = [(first, second), (first, third), (second, third)]
        assert ceiling == pytest.approx(np.mean([kendalltau(*pair).statistic for pair in pairs]))


def test_results_are_those_of_their_training(built: Path, images: list[Path]) -> None:
    """One result again, by hand, in the order in which the loop's parts are used."""
    parts = sorted((built.parent / f"{built.name}.parts").glob("1-two-*.json"))
    assert len(parts) == 12
    result = json.loads(parts[0].read_text())
    space = get_space(SPACE)
    architecture = space.architecture(result["arch"])
    data = RECIPE.load(images[1], space)
    job = TrainingJob(architecture, "two", images[1], data.digest, 1)
    network = space.build(architecture, 2, job.stream)
    RECIPE.train(network, data, job.stream)
    held_out = accuracy(network, data.held_out_images, data.held_out_labels)
    assert held_out == result["accuracy"]


def test_seeds_and_datasets_differ(images: list[Path]) -> None:
    architecture = get_space(SPACE).sample(random.Random(0))
    jobs = [
        TrainingJob(architecture, name, path, "", seed)
        for name, path in zip(("one", "two"), images, strict=True)
        for seed in (0, 1)
    ]
    assert len({job.stream for job in jobs}) == len({job.file for job in jobs}) == 4


def test_more_samples_and_seeds_are_only_added(
    built: Path, images: list[Path], tmp_path: Path
) -> None:
    out, progress = tmp_path / "my table.json", Progress()
    build_table(SPACE, images, out, samples=10, seeds=1, recipe=RECIPE)
    build_table(SPACE, images, out, samples=12, seeds=3, recipe=RECIPE, progress=progress)
    assert [call[:3] for call in progress.calls] == [("train", done, 72) for done in range(20, 73)]
    assert without_times(json.loads(out.read_text())) == without_times(
        json.loads(built.read_text())
    )


def results(out: Path, pattern: str) -> dict[str, Any]:
    """The losses and accuracies of a build, by the names of their files."""
    parts = out.with_name(f"{out.name}.parts").glob(pattern)
    contents = {path.name: json.loads(path.read_text()) for path in parts}
    return {name: (content["loss"], content["accuracy"]) for name, content in contents.items()}


def test_workers_change_nothing(built: Path, images: list[Path], tmp_path: Path) -> None:
    out = tmp_path / "t.json"
    build_table(SPACE, images, out, samples=12, seeds=1, recipe=RECIPE, workers=2)
    assert len(results(out, "0-*.json")) == 24
    assert results(out, "0-*.json") == results(built, "0-*.json")


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A disk with room for the settings and seven results."""
    write, written = building.write_json, []

    def limited(path: Path, value: Any) -> None:
        if len(written) == 8:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(path, value)
        written.append(path)

    with monkeypatch.context() as patch:
        patch.setattr(building, "write_json", limited)
        yield


def test_on_a_full_disk_what_was_measured_is_kept(
    images: list[Path], tmp_path: Path, full_disk: None
) -> None:
    out = tmp_path / "table.json"
    with pytest.raises(OSError, match=r"No space left on device"):
        build_table(SPACE, images, out, samples=10, seeds=1, recipe=RECIPE)
    assert not out.exists()
    assert len(list((tmp_path / "table.json.parts").iterdir())) == 8
    progress = Progress()
    with pytest.raises(OSError, match=r"No space left on device"):
        build_table(SPACE, images, out, samples=10, seeds=1, recipe=RECIPE, progress=progress)
    assert progress.calls == [("train", 7, 20, "")]


def test_a_failed_training_is_recorded(
    images: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, calls = ImageRecipe.train, []

    def failing(*args: Any) -> float:
        calls.append(args)
        if len(calls) == 3:
            raise RuntimeError("bad shape\nat some place")
        return train(*args)

    monkeypatch.setattr(ImageRecipe, "train", failing)
    out, progress = tmp_path / "table.json", Progress()
    table = build_table(SPACE, images, out, samples=11, seeds=1, recipe=RECIPE, progress=progress)
    assert progress.calls[3] == ("train", 3, 22, "one: RuntimeError: bad shape")
    assert len(table["architectures"]) == 10
    (failure,) = table["training"]["failures"]
    assert (failure["dataset"], failure["seed"]) == ("one", 0)
    assert failure["arch"] not in [entry["arch"] for entry in table["architectures"]]
    assert failure["failure"] == "RuntimeError: bad shape"


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("CUDA out of memory. Tried")])
def test_too_little_memory_is_no_failure(
    images: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def failing(*args: Any) -> float:
        raise error

    out, options = tmp_path / "table.json", {"samples": 10, "seeds": 1, "recipe": RECIPE}
    with monkeypatch.context() as patch:
        patch.setattr(ImageRecipe, "train", failing)
        with pytest.raises(MemoryError):
            build_table(SPACE, images, out, **options)
    parts = out.with_name("table.json.parts")
    assert [path.name for path in parts.iterdir()] == ["settings.json"]
    expected = build_table(SPACE, images, tmp_path / "other" / "table.json", **options)
    assert build_table(SPACE, images, out, **options)["architectures"] == expected["architectures"]
    part = next(path for path in parts.iterdir() if path.name != "settings.json")
    old = {**json.loads(part.read_text()), "failure": "RuntimeError: not enough memory"}
    part.write_text(json.dumps(old))
    again = build_table(SPACE, images, out, **options)
    assert again["training"]["failures"] == []


def test_too_many_failures_are_no_table(
    images: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*args: Any) -> float:
        raise DivergedError("the loss became nan")

    monkeypatch.setattr(ImageRecipe, "train", failing)
    out = tmp_path / "t.json"
    rule = r"at least 10 .* but 0 of 10 were: DivergedError: the loss became nan$"
    with pytest.raises(MeasurementError, match=rule):
        build_table(SPACE, images, out, samples=10, seeds=1, recipe=RECIPE)
    assert not out.exists()


def test_with_one_seed_the_noise_is_unknown(images: list[Path], tmp_path: Path) -> None:
    table = build_table(SPACE, images, tmp_path / "t.json", samples=10, seeds=1, recipe=RECIPE)
    assert table["training"]["noise_ceiling"] == {"one": None, "two": None}


def test_other_settings_are_not_mixed(built: Path, images: list[Path], tmp_path: Path) -> None:
    recipe = ImageRecipe(epochs=2, batch_size=32)
    message = r"parts has results of recipe .*\"epochs\": 1.* must not be mixed with .*: 2"
    with pytest.raises(AutoproxError, match=message):
        build_table(SPACE, images, built, samples=12, recipe=recipe)
    other = [save(tmp_path / path.name, seed=9) for path in images]
    with pytest.raises(AutoproxError, match=r"parts has results of datasets "):
        build_table(SPACE, other, built, samples=12, recipe=RECIPE)


TEACHERS = """
import torch

def bright(dataset, classes):
    return lambda images: torch.eye(classes)[(images.mean((1, 2, 3)) > 0).long()]

def narrow(dataset, classes):
    return lambda images: torch.zeros(len(images), 1)

def broken(dataset, classes):
    raise ValueError("no weights\\nfor you")
"""


@pytest.fixture
def teachers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "my_teachers.py").write_text(TEACHERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("my_teachers", None)


def test_a_teacher_of_the_current_folder_changes_the_training(
    built: Path, images: list[Path], tmp_path: Path, teachers: None
) -> None:
    recipe = ImageRecipe(epochs=1, batch_size=32, teacher="my_teachers:bright")
    out = tmp_path / "t.json"
    table = build_table(SPACE, images, out, samples=10, seeds=1, recipe=recipe)
    assert table["training"]["recipe"]["teacher"] == "my_teachers:bright"
    taught, plain = results(out, "0-*.json"), results(built, "0-*.json")
    assert len(taught) == 20
    assert all(taught[name] != plain[name] for name in taught)


@pytest.mark.parametrize(
    ("teacher", "message"),
    [
        ("absent_module:f", r"absent_module:f' gives ModuleNotFoundError: No module named 'absent"),
        ("my_teachers", r"my_teachers' gives AttributeError: "),
        ("my_teachers:bride", r"my_teachers:bride' gives AttributeError: .*bride"),
        ("my_teachers:broken", r"my_teachers:broken' gives ValueError: no weights$"),
        ("my_teachers:narrow", r"one image of one must be \[1, 2\], but .*:narrow are \[1, 1\]$"),
        ("", r"must be a function given as MODULE:FUNCTION, but '' gives ValueError"),
    ],
)
def test_bad_teacher(
    images: list[Path], tmp_path: Path, teachers: None, teacher: str, message: str
) -> None:
    with pytest.raises(AutoproxError, match=message):
        build_table(SPACE, images, tmp_path / "t.json", recipe=ImageRecipe(teacher=teacher))


Arguments = dict[str, Any]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a | {"space": "autoformer-nan"}, r"unknown .* \(did you mean autoformer-nano\?"),
        (lambda a: a | {"paths": []}, r"at least one, but got none$"),
        (
            lambda a: a | {"paths": a["paths"][:1] * 2},
            r"different names, .*one\.npz, .*one\.npz",
        ),
        (lambda a: a | {"paths": [Path("none")]}, r"none must be a file or folder of images"),
        (
            lambda a: a | {"recipe": ImageRecipe(mirror=("on",))},
            r"unknown dataset 'on' to mirror \(did you mean one\?\); choose from one, two$",
        ),
    ],
)
def test_bad_input(
    images: list[Path], tmp_path: Path, change: Callable[[Arguments], Arguments], message: str
) -> None:
    arguments = change({"space": SPACE, "paths": images, "out": tmp_path / "t.json"})
    with pytest.raises(AutoproxError, match=message) as caught:
        build_table(**arguments)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_images_that_change_during_the_build(images: list[Path], tmp_path: Path) -> None:
    space = get_space(SPACE)
    path = save(tmp_path / "one.npz", 1)
    digest = RECIPE.load(path, space).digest
    save(path, 2)
    job = TrainingJob(space.sample(random.Random(0)), "one", path, digest, 0)
    with pytest.raises(AutoproxError, match=r"one\.npz must not change during the build"):
        building.train_job(RECIPE, tmp_path, job)
    assert [file.name for file in tmp_path.iterdir()] == ["one.npz"]
