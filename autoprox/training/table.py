"""Builds a benchmark of one's own: a sample of a space with true accuracies, by training it."""

import hashlib
import math
import platform
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from autoprox.benchmarks.base import MIN_ARCHITECTURES
from autoprox.errors import MeasurementError
from autoprox.files.atomic import to_json, write_json
from autoprox.files.located_json import read_json
from autoprox.inputs.datasets import Images, Text, dataset_name, slug
from autoprox.parallel.threads import one_thread
from autoprox.scoring.correlations import kendall
from autoprox.searchspaces import Architecture, SearchSpace, get_space
from autoprox.searchspaces.tokens import TokenSpace
from autoprox.training.recipes import ImageRecipe, Recipe, TextRecipe, TrainingError, first_line

FORMAT = 1
SETTINGS = "settings.json"
PACKAGES = ("autoprox", "torch", "numpy")
DRAWS = 100  # for each architecture, most of which differ from those before

Dataset = Images | Text
Progress = Callable[[str, int, int, str], None]  # task, done, of how many, a note on the last one


@dataclass(frozen=True)
class Job:
    """One training: an architecture on a dataset, with a seed."""

    architecture: Architecture
    dataset: str
    path: Path
    digest: str  # of the dataset
    seed: int

    @property
    def file(self) -> str:
        """The name of the file of its result."""
        return f"{self.seed}-{self.dataset}-{self.architecture.digest[:16]}.json"

    @property
    def stream(self) -> int:
        """Seeds the weights, and the order of the samples and their crops."""
        text = f"{self.seed}:{self.dataset}:{self.architecture.digest}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


def build_table(
    space: str,
    paths: Sequence[Path],
    out: Path,
    *,
    samples: int = 64,
    seeds: int = 2,
    recipe: Recipe[Any] | None = None,
    seed: int = 0,
    workers: int = 1,
    progress: Progress = lambda task, done, total, note: None,
) -> dict[str, Any]:
    """Train a sample of a space on each dataset with each seed; write the table and return it.

    The paths are those of images, or of texts for a space of tokens, and so is the recipe; without
    one the default is taken. Every result is a file in the folder `out`.parts before the worker's
    next training begins. What is there isn't trained again: a stopped build goes on where it was,
    and `samples` and `seeds` may be raised later. If a training fails, the table has the failure
    instead of the architecture; fewer than MIN_ARCHITECTURES are no table.
    """
    _check(out, samples, seeds, seed, workers)
    searched = get_space(space)
    recipe = _default(searched) if recipe is None else recipe
    named = _named(paths)
    datasets = {name: recipe.load(path, searched) for name, path in named.items()}
    recipe.check(datasets)
    architectures = _sample(searched, samples, seed)
    settings = _settings(searched, recipe, seed, datasets)
    parts = out.with_name(f"{out.name}.parts")
    parts.mkdir(parents=True, exist_ok=True)
    _settle(parts / SETTINGS, settings)
    sources = [(name, path, datasets[name].digest) for name, path in named.items()]
    jobs = [Job(a, *source, s) for s in range(seeds) for a in architectures for source in sources]
    _run(jobs, recipe, parts, workers, progress)
    results = {job: _read(parts / job.file) for job in jobs}
    table = _table(slug(out.stem), settings, recipe, results)
    _check_count(table, samples)
    write_json(out, table)
    return table


def _check(out: Path, samples: int, seeds: int, seed: int, workers: int) -> None:
    if samples < MIN_ARCHITECTURES or seeds < 1 or workers < 1 or seed < 0:
        got = f"(samples={samples}, seeds={seeds}, workers={workers}, seed={seed})"
        rule = f"`samples >= {MIN_ARCHITECTURES}`, `seeds >= 1`, `workers >= 1` and `seed >= 0`"
        raise TrainingError(f"{rule} must hold, but got {got}")
    if out.is_dir():
        raise TrainingError(f"the table must be written to a file, but {out} is a folder")


def _default(space: SearchSpace) -> Recipe[Any]:
    return TextRecipe() if isinstance(space, TokenSpace) else ImageRecipe()


def _named(paths: Sequence[Path]) -> dict[str, Path]:
    """The paths by the names of their datasets."""
    named = {dataset_name(path): path for path in paths}
    if not named or len(named) < len(paths):
        got = ", ".join(map(str, paths)) or "none"
        rule = "datasets must be at paths of different names, at least one"
        raise TrainingError(f"{rule}, but got {got}")
    return named


@lru_cache(maxsize=8)
def _dataset(path: Path, recipe: Recipe[Any], space: SearchSpace, digest: str) -> Dataset:
    """Read the dataset once in each process, as the one that the build began with."""
    data: Dataset = recipe.load(path, space)
    if data.digest != digest:
        raise TrainingError(f"{path} must not change during the build, but has other content now")
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
    space: SearchSpace, recipe: Recipe[Any], seed: int, datasets: Mapping[str, Dataset]
) -> dict[str, Any]:
    """What all results of a table have in common."""
    return {
        "space": space.name,
        "seed": seed,
        "recipe": asdict(recipe),
        "datasets": {
            name: {"classes": data.classes, **data.sizes, "sha256": data.digest}
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
        found, wanted = to_json(earlier.get(name)), to_json(value)
        if found != wanted:
            raise TrainingError(
                f"{path.parent} has results of {name} {found}, which must not be mixed with "
                f"{wanted}: give another file to write, or remove the folder"
            )


def _read(path: Path) -> dict[str, Any]:
    return {name: node.plain() for name, node in read_json(path).entries().items()}


def _run(
    jobs: Sequence[Job], recipe: Recipe[Any], parts: Path, workers: int, progress: Progress
) -> None:
    todo = [job for job in jobs if not (parts / job.file).exists()]
    done = len(jobs) - len(todo)
    progress("train", done, len(jobs), "")
    calls = (delayed(_train_one)(job, recipe, parts / job.file) for job in todo)
    parallel = Parallel(n_jobs=workers, return_as="generator")
    for job, text in zip(todo, parallel(calls), strict=True):
        done += 1
        progress("train", done, len(jobs), f"{job.dataset}: {text}")


def _train_one(job: Job, recipe: Recipe[Any], file: Path) -> str:
    """Train, write the result, and say it in a word; a failure of the training is a result too."""
    space = get_space(job.architecture.space)
    data = _dataset(job.path, recipe, space, job.digest)
    result: dict[str, Any] = {
        "dataset": job.dataset,
        "seed": job.seed,
        "arch": job.architecture.to_json()["choices"],
    }
    begin = time.process_time()
    try:
        with one_thread():
            network = space.build(job.architecture, data.classes, job.stream)
            result["loss"] = recipe.train(network, data, job.stream)
            result[recipe.measure] = recipe.score(network, data)
    except (ArithmeticError, RuntimeError) as error:
        result["failure"] = first_line(error)
    result["seconds"] = round(time.process_time() - begin, 3)
    write_json(file, result)
    return result.get("failure") or f"{recipe.measure} {result[recipe.measure]:.2f}"


def _table(
    name: str,
    settings: Mapping[str, Any],
    recipe: Recipe[Any],
    results: Mapping[Job, Mapping[str, Any]],
) -> dict[str, Any]:
    """The table in the JSON format of a benchmark; scores are means over the seeds."""
    datasets = settings["datasets"]
    failures = {job: result for job, result in results.items() if recipe.measure not in result}
    failed = {job.architecture for job in failures}
    runs: dict[Architecture, dict[str, list[float]]] = {}
    for job, result in results.items():
        if job.architecture not in failed:
            own = runs.setdefault(job.architecture, {dataset: [] for dataset in datasets})
            own[job.dataset].append(result[recipe.measure])
    ceiling = {d: _noise_ceiling([own[d] for own in runs.values()]) for d in datasets}
    return {
        "format": FORMAT,
        "name": name,
        "space": settings["space"],
        "datasets": {
            dataset: {"classes": data["classes"], "higher_is_better": recipe.higher_is_better}
            for dataset, data in datasets.items()
        },
        "training": {
            **settings,
            "measure": recipe.measure,
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
    """Kendall's tau between the scores of two seeds, the mean over all pairs of seeds.

    `runs` are the scores of each network with each seed.
    """
    seeds = np.array(runs, dtype=np.float64).T  # [seeds, networks]
    taus = [float(kendall(one, other)) for one, other in combinations(seeds, 2)]
    return fmean(taus) if taus and all(map(math.isfinite, taus)) else None
