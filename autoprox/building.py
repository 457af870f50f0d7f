"""Builds a benchmark of one's own: a sample of a space with true accuracies, by training it."""

import hashlib
import importlib
import math
import os
import platform
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed

from autoprox.atomic import to_json, write_json
from autoprox.benchmarks.base import MIN_ARCHITECTURES
from autoprox.datasets import Dataset, dataset_name, load_dataset, slug
from autoprox.errors import nearest
from autoprox.fitness import kendall
from autoprox.located_json import read_json
from autoprox.searchspaces import Architecture, SearchSpace, get_space
from autoprox.store import MeasurementError
from autoprox.training import DEFAULT, Recipe, Teacher, TrainingError, accuracy, train

FORMAT = 1
SETTINGS = "settings.json"
PACKAGES = ("autoprox", "torch", "numpy")
DRAWS = 100  # for each architecture, most of which differ from those before

Progress = Callable[[str, int, int, str], None]  # task, done, of how many, a note on the last one


@dataclass(frozen=True)
class Job:
    """One training: an architecture on a dataset, with a seed."""

    architecture: Architecture
    dataset: str
    images: Path
    digest: str  # of the images
    seed: int

    @property
    def file(self) -> str:
        """The name of the file of its result."""
        return f"{self.seed}-{self.dataset}-{self.architecture.digest[:16]}.json"

    @property
    def stream(self) -> int:
        """Seeds the weights, the order of the images and their crops."""
        text = f"{self.seed}:{self.dataset}:{self.architecture.digest}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


def build_table(
    space: str,
    images: Sequence[Path],
    out: Path,
    *,
    samples: int = 64,
    seeds: int = 2,
    recipe: Recipe = DEFAULT,
    seed: int = 0,
    workers: int = 1,
    progress: Progress = lambda task, done, total, note: None,
) -> dict[str, Any]:
    """Train a sample of a space on each dataset with each seed; write the table and return it.

    Every result is a file in the folder `out`.parts before the worker's next training begins. What
    is there isn't trained again: a stopped build goes on where it was, and `samples` and `seeds`
    may be raised later. If a training fails, the table has the failure instead of the architecture;
    fewer than MIN_ARCHITECTURES are no table.
    """
    _check(out, samples, seeds, seed, workers)
    searched = get_space(space)
    paths = _named(images)
    datasets = {name: load_dataset(path, searched.input_shape) for name, path in paths.items()}
    _check_recipe(recipe, datasets, searched)
    architectures = _sample(searched, samples, seed)
    settings = _settings(searched, recipe, seed, datasets)
    parts = out.with_name(f"{out.name}.parts")
    parts.mkdir(parents=True, exist_ok=True)
    _settle(parts / SETTINGS, settings)
    sources = [(name, path, datasets[name].digest) for name, path in paths.items()]
    jobs = [Job(a, *source, s) for s in range(seeds) for a in architectures for source in sources]
    _run(jobs, recipe, parts, workers, progress)
    results = {job: _read(parts / job.file) for job in jobs}
    table = _table(slug(out.stem), settings, datasets, results)
    _check_count(table, samples)
    write_json(out, table)
    return table


@lru_cache(maxsize=8)
def load_teacher(
    reference: str, dataset: str, classes: int, shape: tuple[int, int, int]
) -> Teacher:
    """The teacher for a dataset: what MODULE:FUNCTION returns, called with its name and classes.

    The module may be in the current folder. The teacher is tried on one image.
    """
    module, _, name = reference.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        function = getattr(importlib.import_module(module), name)
        teacher: Teacher = function(dataset, classes)
        with torch.no_grad():
            found = list(teacher(torch.zeros(1, *shape)).shape)
    except Exception as error:  # it isn't our code
        rule = "the teacher must be a function given as MODULE:FUNCTION"
        raise TrainingError(f"{rule}, but {reference!r} gives {_first_line(error)}") from error
    if found != [1, classes]:
        rule = f"a teacher's logits of one image of {dataset} must be [1, {classes}]"
        raise TrainingError(f"{rule}, but those of {reference} are {found}")
    return teacher


def _check(out: Path, samples: int, seeds: int, seed: int, workers: int) -> None:
    if samples < MIN_ARCHITECTURES or seeds < 1 or workers < 1 or seed < 0:
        got = f"(samples={samples}, seeds={seeds}, workers={workers}, seed={seed})"
        rule = f"`samples >= {MIN_ARCHITECTURES}`, `seeds >= 1`, `workers >= 1` and `seed >= 0`"
        raise TrainingError(f"{rule} must hold, but got {got}")
    if out.is_dir():
        raise TrainingError(f"the table must be written to a file, but {out} is a folder")


def _check_recipe(recipe: Recipe, datasets: Mapping[str, Dataset], space: SearchSpace) -> None:
    for name in recipe.mirror:
        if name not in datasets:
            raise TrainingError(f"unknown dataset {name!r} to mirror{nearest(name, datasets)}")
    if recipe.teacher is not None:
        for name, data in datasets.items():
            load_teacher(recipe.teacher, name, data.classes, space.input_shape)


def _named(images: Sequence[Path]) -> dict[str, Path]:
    """The paths by the names of their datasets."""
    named = {dataset_name(path): path for path in images}
    if not named or len(named) < len(images):
        got = ", ".join(map(str, images)) or "none"
        raise TrainingError(f"images must be paths of different names, at least one, but got {got}")
    return named


@lru_cache(maxsize=8)
def _dataset(path: Path, space: SearchSpace, digest: str) -> Dataset:
    """Read the images once in each process, as those that the build began with."""
    data = load_dataset(path, space.input_shape)
    if data.digest != digest:
        raise TrainingError(f"{path} must not change during the build, but has other images now")
    return data


def _sample(space: SearchSpace, count: int, seed: int) -> list[Architecture]:
    """Different architectures of a space; the first of more are the same."""
    rng = random.Random(seed)
    drawn: dict[Architecture, None] = {}
    for _ in range(DRAWS * count):
        if len(drawn) == count:
            break
        drawn[space.sample(rng)] = None
    if len(drawn) < count:
        rule = f"{space.name} must have as many architectures as samples"
        raise TrainingError(f"{rule}, but of {count} only {len(drawn)} were found")
    return list(drawn)


def _settings(
    space: SearchSpace, recipe: Recipe, seed: int, datasets: Mapping[str, Dataset]
) -> dict[str, Any]:
    """What all results of a table have in common."""
    return {
        "space": space.name,
        "seed": seed,
        "recipe": asdict(recipe) | {"mirror": list(recipe.mirror)},
        "datasets": {
            name: {
                "classes": data.classes,
                "images": len(data.labels),
                "held_out": len(data.held_out_labels),
                "sha256": data.digest,
            }
            for name, data in datasets.items()
        },
        "versions": {name: version(name) for name in PACKAGES},
    }


def _settle(path: Path, settings: Mapping[str, Any]) -> None:
    """Keep the settings with the first result; later results must be of the same."""
    if not path.exists():
        write_json(path, settings)
        return
    earlier = _read(path)
    for name, value in settings.items():
        if earlier.get(name) != value:
            raise TrainingError(
                f"{path.parent} has results of {name} {to_json(earlier.get(name))}, which must not "
                f"be mixed with {to_json(value)}: give another file to write, or remove the folder"
            )


def _read(path: Path) -> dict[str, Any]:
    return {name: node.plain() for name, node in read_json(path).entries().items()}


def _run(
    jobs: Sequence[Job], recipe: Recipe, parts: Path, workers: int, progress: Progress
) -> None:
    todo = [job for job in jobs if not (parts / job.file).exists()]
    done = len(jobs) - len(todo)
    progress("train", done, len(jobs), "")
    calls = (delayed(_train_one)(job, recipe, parts / job.file) for job in todo)
    parallel = Parallel(n_jobs=workers, return_as="generator")
    for job, text in zip(todo, parallel(calls), strict=True):
        done += 1
        progress("train", done, len(jobs), f"{job.dataset}: {text}")


def _train_one(job: Job, recipe: Recipe, file: Path) -> str:
    """Train, write the result, and say it in a word; a failure of the training is a result too."""
    space = get_space(job.architecture.space)
    data = _dataset(job.images, space, job.digest)
    teacher = None
    if recipe.teacher is not None:
        teacher = load_teacher(recipe.teacher, job.dataset, data.classes, space.input_shape)
    result: dict[str, Any] = {
        "dataset": job.dataset,
        "seed": job.seed,
        "arch": job.architecture.to_json()["choices"],
    }
    begin = time.process_time()
    try:
        with _one_thread():
            network = space.build(job.architecture, data.classes, job.stream)
            result["loss"] = train(network, data, recipe, job.stream, teacher)
            result["accuracy"] = accuracy(network, data.held_out_images, data.held_out_labels)
    except (ArithmeticError, RuntimeError) as error:
        result["failure"] = _first_line(error)
    result["seconds"] = round(time.process_time() - begin, 3)
    write_json(file, result)
    return f"{result['accuracy']:.2f} %" if "accuracy" in result else result["failure"]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sum in the same order whatever the number of workers, and keep those apart."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]


def _table(
    name: str,
    settings: Mapping[str, Any],
    datasets: Mapping[str, Dataset],
    results: Mapping[Job, Mapping[str, Any]],
) -> dict[str, Any]:
    """The table in the JSON format of a benchmark; scores are means over the seeds, in percent."""
    failures = {job: result for job, result in results.items() if "accuracy" not in result}
    failed = {job.architecture for job in failures}
    runs: dict[Architecture, dict[str, list[float]]] = {}
    for job, result in results.items():
        if job.architecture not in failed:
            own = runs.setdefault(job.architecture, {dataset: [] for dataset in datasets})
            own[job.dataset].append(result["accuracy"])
    ceiling = {d: _noise_ceiling([own[d] for own in runs.values()]) for d in datasets}
    return {
        "format": FORMAT,
        "name": name,
        "space": settings["space"],
        "datasets": {dataset: {"classes": data.classes} for dataset, data in datasets.items()},
        "training": {
            **settings,
            "seeds": len({job.seed for job in results}),
            "noise_ceiling": ceiling,
            "core_hours": round(sum(result["seconds"] for result in results.values()) / 3600, 3),
            "processor": platform.machine(),
            "failures": list(failures.values()),
        },
        "architectures": [
            {
                "arch": architecture.to_json()["choices"],
                "scores": {dataset: round(fmean(own[dataset]), 4) for dataset in datasets},
                "runs": own,
            }
            for architecture, own in runs.items()
        ],
    }


def _check_count(table: Mapping[str, Any], samples: int) -> None:
    trained = len(table["architectures"])
    if trained < MIN_ARCHITECTURES:
        raise MeasurementError(
            f"at least {MIN_ARCHITECTURES} architectures must be trained without a failure, "
            f"but {trained} of {samples} were: {table['training']['failures'][0]['failure']}"
        )


def _noise_ceiling(runs: Sequence[Sequence[float]]) -> float | None:
    """Kendall's tau between the accuracies of two seeds, the mean over all pairs of seeds.

    `runs` are the accuracies of each network with each seed.
    """
    seeds = np.array(runs, dtype=np.float64).T  # [seeds, networks]
    taus = [float(kendall(one, other)) for one, other in combinations(seeds, 2)]
    return fmean(taus) if taus and all(map(math.isfinite, taus)) else None
