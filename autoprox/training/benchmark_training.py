"""Makes a benchmark: a sample of a space, and its true scores by training it."""

import hashlib
import math
import platform
import random
import time
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from autoprox.benchmarks import MIN_ARCHITECTURES
from autoprox.benchmarks.user_table import TABLE_FORMAT
from autoprox.errors import MeasurementError, failure_of, lacked_memory
from autoprox.files.atomic_writes import to_json, write_json
from autoprox.files.json_documents import read_object
from autoprox.inputs.training_datasets import TrainingDataset, dataset_name
from autoprox.parallel.threads import single_torch_thread
from autoprox.parallel.worker_pool import SINGLE_WORKER, WorkerPool
from autoprox.progress import Progress, silent
from autoprox.scoring.correlations import Floats, kendall
from autoprox.scoring.true_score_reliability import true_score_reliability
from autoprox.searchspaces import Architecture, SearchSpace, get_space
from autoprox.searchspaces.architecture_sampler import ArchitectureSampler, Band, sample_size_bands
from autoprox.searchspaces.size_limits import SizeLimits
from autoprox.shortfalls import Shortfall
from autoprox.training.recipes import TrainingError, TrainingRecipe

RECORDED_PACKAGES = ("autoprox", "torch", "numpy")


@dataclass(frozen=True)
class TrainingJob:
    """The training of an architecture on a dataset, with a seed."""

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
        """The seed of the weights, and of the order of the samples and their crops."""
        text = f"{self.seed}:{self.dataset}:{self.architecture.digest}"
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:7], "big")


@dataclass(frozen=True)
class TrainingPlan:
    """The trainings that make a table, and what all of them have in common."""

    recipe: TrainingRecipe[Any]
    settings: Mapping[str, Any]
    jobs: tuple[TrainingJob, ...]
    counts: tuple[Shortfall, ...] = ()  # of the datasets


def plan_training(
    space: SearchSpace,
    paths: Sequence[Path],
    *,
    samples: int,
    seeds: int,
    recipe: TrainingRecipe[Any],
    seed: int = 0,
    bands: Sequence[Band] = (),
) -> TrainingPlan:
    """Plan to train a sample of a space on each dataset with each seed.

    The paths are those of images, or of texts for a space of tokens, and so is the recipe. More
    samples or seeds include all the jobs of fewer. If there are bands of sizes, the sample is taken
    from each of them in turn.
    """
    named = {dataset_name(path): path for path in paths}
    if not named or len(named) < len(paths):
        got = ", ".join(map(str, paths)) or "none"
        rule = "datasets must be at paths of different names, at least one"
        raise TrainingError(f"{rule}, but got {got}")
    datasets = {name: recipe.load(path, space) for name, path in named.items()}
    recipe.check(datasets)
    classes = next(iter(datasets.values())).classes
    rng = random.Random(seed)
    if bands:
        architectures = sample_size_bands(space, bands, samples, classes, rng)
    else:
        architectures = ArchitectureSampler(SizeLimits(space, classes)).sample(samples, rng)
    sources = [(name, path.absolute(), datasets[name].digest) for name, path in named.items()]
    jobs = [
        TrainingJob(arch, *source, s)
        for s in range(seeds)
        for arch in architectures
        for source in sources
    ]
    settings = {
        "space": space.name,
        "seed": seed,
        "recipe": recipe.model_dump(),
        "datasets": {
            name: {"classes": data.classes, **data.sizes, "sha256": data.digest}
            for name, data in datasets.items()
        },
        "versions": {name: version(name) for name in RECORDED_PACKAGES},
    }
    counts = [count for data in datasets.values() for count in recipe.counts(data)]
    return TrainingPlan(recipe, settings, tuple(jobs), tuple(counts))


def train_benchmark_table(
    name: str,
    plan: TrainingPlan,
    parts: Path,
    pool: WorkerPool = SINGLE_WORKER,
    progress: Progress = silent,
    record: Callable[[Mapping[str, Any]], None] = lambda line: None,
    recorded: Container[str] = (),
) -> dict[str, Any]:
    """Do all jobs of a plan; returns the table of the scores, under this name.

    A line is recorded for every job, in order, unless its file is among those recorded already.
    Every result is a file in the folder of parts before the worker's next training begins; jobs
    with a result aren't trained again. A failed training is listed in the table instead of its
    architecture; fewer than MIN_ARCHITECTURES are no table.
    """
    parts.mkdir(parents=True, exist_ok=True)
    _keep_settings(parts / "settings.json", plan.settings)
    unrecorded, todo = deque(plan.jobs), [job for job in plan.jobs if not _is_done(parts, job)]
    done, total, new = len(plan.jobs) - len(todo), len(plan.jobs), set(todo)
    progress("train", done, total, "")
    remote = pool.scheduler is not None

    def record_next(result: Mapping[str, Any]) -> str:
        job, measure = unrecorded.popleft(), plan.recipe.measure
        text = str(result.get("failure") or f"{measure} {result[measure]:.2f}")
        if job.file not in recorded:
            record({"dataset": job.dataset, "seed": job.seed, "file": job.file, "result": text})
        return f"{job.dataset}: {text}"

    def record_done() -> None:
        while unrecorded and unrecorded[0] not in new:
            record_next(read_object(parts / unrecorded[0].file))

    def take(result: dict[str, Any]) -> None:
        nonlocal done
        record_done()
        if remote:  # the worker has no such folder
            write_json(parts / unrecorded[0].file, result)
        done += 1
        progress("train", done, total, record_next(result))

    folder = None if remote else parts
    pool.each(train_job, todo, take, plan.recipe, folder, processes=True)
    record_done()
    table = _table(name, plan, {job: read_object(parts / job.file) for job in plan.jobs})
    trained, samples = len(table["architectures"]), len({job.architecture for job in plan.jobs})
    if trained < MIN_ARCHITECTURES:
        rule = f"at least {MIN_ARCHITECTURES} architectures must be trained without a failure"
        reason = table["training"]["failures"][0]["failure"]
        raise MeasurementError(f"{rule}, but {trained} of {samples} were: {reason}")
    return table


def _keep_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Write the settings with the first result; later results must be of the same."""
    if not path.exists():
        write_json(path, settings)
        return
    earlier = read_object(path)
    for name, value in settings.items():
        found, wanted = to_json(earlier.get(name)), to_json(value)
        if found != wanted:
            rule = f"results of {name} {found}, which must not be mixed with {wanted}"
            hint = "give another file to write, or remove the folder"
            raise TrainingError(f"{path.parent} has {rule}: {hint}")


def _is_done(parts: Path, job: TrainingJob) -> bool:
    """Return whether there is a result that isn't a lack of memory, the machine's failure."""
    file = parts / job.file
    return file.exists() and not lacked_memory(read_object(file).get("failure"))


def train_job(recipe: TrainingRecipe[Any], folder: Path | None, job: TrainingJob) -> dict[str, Any]:
    """Train, and write the result if there is a folder; a failed training is a result too."""
    space = get_space(job.architecture.space)
    data = _dataset(job.path, recipe, space, job.digest)
    choices = job.architecture.to_json()["choices"]
    result: dict[str, Any] = {"dataset": job.dataset, "seed": job.seed, "arch": choices}
    begin = time.process_time()
    try:
        with single_torch_thread():
            network = space.build(job.architecture, data.classes, job.stream)
            result["loss"] = recipe.train(network, data, job.stream)
            result[recipe.measure] = recipe.score(network, data)
    except (ArithmeticError, RuntimeError) as error:
        result["failure"] = failure_of(error)
    result["seconds"] = round(time.process_time() - begin, 3)
    if folder is not None:
        write_json(folder / job.file, result)
    return result


@lru_cache(maxsize=8)
def _dataset(
    path: Path, recipe: TrainingRecipe[Any], space: SearchSpace, digest: str
) -> TrainingDataset:
    """Read a dataset once in each process; it must be the one that the build began with."""
    data: TrainingDataset = recipe.load(path, space)
    if data.digest != digest:
        raise TrainingError(f"{path} must not change during the build, but has other content now")
    return data


def _table(
    name: str, plan: TrainingPlan, results: Mapping[TrainingJob, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the table in the JSON format of a benchmark; scores are means over the seeds."""
    recipe, datasets = plan.recipe, plan.settings["datasets"]
    failures = {job: result for job, result in results.items() if recipe.measure not in result}
    failed = {job.architecture for job in failures}
    runs: dict[Architecture, dict[str, list[float]]] = {}
    for job, result in results.items():
        if job.architecture not in failed:
            scores = runs.setdefault(job.architecture, {dataset: [] for dataset in datasets})
            scores[job.dataset].append(result[recipe.measure])
    by_dataset = {d: np.array([scores[d] for scores in runs.values()]) for d in datasets}
    classes = next(iter(datasets.values()))["classes"]
    space = get_space(plan.settings["space"])
    params = np.array([space.params(arch, classes) for arch in runs], dtype=np.float64)
    return {
        "format": TABLE_FORMAT,
        "name": name,
        "space": space.name,
        "datasets": {
            dataset: {"classes": data["classes"], "higher_is_better": recipe.higher_is_better}
            for dataset, data in datasets.items()
        },
        "training": {
            **plan.settings,
            "measure": recipe.measure,
            "seeds": len({job.seed for job in results}),
            "noise_ceiling": {d: _noise_ceiling(own) for d, own in by_dataset.items()},
            "reliability": {
                d: true_score_reliability(own, params) for d, own in by_dataset.items()
            },
            "core_hours": round(sum(result["seconds"] for result in results.values()) / 3600, 3),
            "processor": platform.machine(),
            "failures": list(failures.values()),
        },
        "architectures": [
            {
                "arch": architecture.to_json()["choices"],
                "scores": {dataset: round(fmean(scores[dataset]), 4) for dataset in datasets},
                "runs": scores,
            }
            for architecture, scores in runs.items()
        ],
    }


def _noise_ceiling(runs: Floats) -> float | None:
    """Kendall's tau between the scores of two seeds, the mean over all pairs of seeds."""
    taus = [float(kendall(one, other)) for one, other in combinations(runs.T, 2)]
    return fmean(taus) if taus and all(map(math.isfinite, taus)) else None
