"""Makes a benchmark of one's own: a sample of a space with true scores, by training it."""

import math
import platform
import time
from collections import deque
from collections.abc import Callable, Container, Mapping
from functools import lru_cache
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from autoprox.benchmarks import MIN_ARCHITECTURES
from autoprox.benchmarks.table import TABLE_FORMAT
from autoprox.errors import MeasurementError, failure_of, lacked_memory
from autoprox.files.atomic_writes import to_json, write_json
from autoprox.files.json_documents import read_object
from autoprox.inputs.datasets import Dataset
from autoprox.parallel.threads import one_thread
from autoprox.parallel.worker_pool import SINGLE_WORKER, WorkerPool
from autoprox.progress import Progress, silent
from autoprox.scoring.correlations import Floats, kendall
from autoprox.scoring.reliability import reliability
from autoprox.searchspaces import Architecture, SearchSpace, get_space
from autoprox.training.plan import Job, TrainingPlan
from autoprox.training.recipes import TrainingError, TrainingRecipe

Record = Callable[[Mapping[str, Any]], None]


def train_table(
    name: str,
    plan: TrainingPlan,
    parts: Path,
    crew: WorkerPool = SINGLE_WORKER,
    progress: Progress = silent,
    record: Record = lambda line: None,
    recorded: Container[str] = (),
) -> dict[str, Any]:
    """Do all jobs of a plan; returns the table of the scores, under this name.

    Every job is recorded, in order, a line for each whose file isn't recorded yet. Every result is
    a file in the folder of parts before the worker's next training begins. What is there isn't
    trained again. If a training fails, the table has the failure instead of the architecture; fewer
    than MIN_ARCHITECTURES are no table.
    """
    parts.mkdir(parents=True, exist_ok=True)
    _settle(parts / "settings.json", plan.settings)

    def record_new(line: Mapping[str, Any]) -> None:
        if line["file"] not in recorded:
            record(line)

    _run(plan, parts, crew, progress, record_new)
    results = {job: read_object(parts / job.file) for job in plan.jobs}
    table = _table(name, plan, results)
    trained, samples = len(table["architectures"]), len({job.architecture for job in plan.jobs})
    if trained < MIN_ARCHITECTURES:
        rule = f"at least {MIN_ARCHITECTURES} architectures must be trained without a failure"
        reason = table["training"]["failures"][0]["failure"]
        raise MeasurementError(f"{rule}, but {trained} of {samples} were: {reason}")
    return table


def _settle(path: Path, settings: Mapping[str, Any]) -> None:
    """Keep the settings with the first result; later results must be of the same."""
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


def _run(
    plan: TrainingPlan, parts: Path, crew: WorkerPool, progress: Progress, record: Record
) -> None:
    """Do what isn't done, and record every job in its order, those done before too."""
    todo = [job for job in plan.jobs if not _is_done(parts / job.file)]
    done, total = len(plan.jobs) - len(todo), len(plan.jobs)
    progress("train", done, total, "")
    unrecorded, new, away = deque(plan.jobs), set(todo), crew.scheduler is not None

    def keep(result: Mapping[str, Any]) -> str:
        job, text = unrecorded.popleft(), _told(result, plan.recipe)
        record({"dataset": job.dataset, "seed": job.seed, "file": job.file, "result": text})
        return f"{job.dataset}: {text}"

    def keep_known() -> None:
        while unrecorded and unrecorded[0] not in new:
            keep(read_object(parts / unrecorded[0].file))

    def take(result: dict[str, Any]) -> None:
        nonlocal done
        keep_known()
        if away:  # whoever did it has no such folder
            write_json(parts / unrecorded[0].file, result)
        done += 1
        progress("train", done, total, keep(result))

    folder = None if away else parts
    crew.each(train_one, todo, take, plan.recipe, folder, processes=True)
    keep_known()


def _is_done(file: Path) -> bool:
    """Whether a result is there, and is one of the network: not of the machine's lack of memory."""
    return file.exists() and not lacked_memory(read_object(file).get("failure"))


def train_one(recipe: TrainingRecipe[Any], folder: Path | None, job: Job) -> dict[str, Any]:
    """Train, and write the result where there is a folder; a failed training is a result too."""
    space = get_space(job.architecture.space)
    data = _dataset(job.path, recipe, space, job.digest)
    choices = job.architecture.to_json()["choices"]
    result: dict[str, Any] = {"dataset": job.dataset, "seed": job.seed, "arch": choices}
    begin = time.process_time()
    try:
        with one_thread():
            network = space.build(job.architecture, data.classes, job.stream)
            result["loss"] = recipe.train(network, data, job.stream)
            result[recipe.measure] = recipe.score(network, data)
    except (ArithmeticError, RuntimeError) as error:
        result["failure"] = failure_of(error)
    result["seconds"] = round(time.process_time() - begin, 3)
    if folder is not None:
        write_json(folder / job.file, result)
    return result


def _told(result: Mapping[str, Any], recipe: TrainingRecipe[Any]) -> str:
    return str(result.get("failure") or f"{recipe.measure} {result[recipe.measure]:.2f}")


@lru_cache(maxsize=8)
def _dataset(path: Path, recipe: TrainingRecipe[Any], space: SearchSpace, digest: str) -> Dataset:
    """Read a dataset once in each process; it must be the one that the build began with."""
    data: Dataset = recipe.load(path, space)
    if data.digest != digest:
        raise TrainingError(f"{path} must not change during the build, but has other content now")
    return data


def _table(
    name: str, plan: TrainingPlan, results: Mapping[Job, Mapping[str, Any]]
) -> dict[str, Any]:
    """The table in the JSON format of a benchmark; scores are means over the seeds."""
    recipe, datasets = plan.recipe, plan.settings["datasets"]
    failures = {job: result for job, result in results.items() if recipe.measure not in result}
    failed = {job.architecture for job in failures}
    runs: dict[Architecture, dict[str, list[float]]] = {}
    for job, result in results.items():
        if job.architecture not in failed:
            own = runs.setdefault(job.architecture, {dataset: [] for dataset in datasets})
            own[job.dataset].append(result[recipe.measure])
    by_dataset = {d: np.array([own[d] for own in runs.values()]) for d in datasets}
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
            "reliability": {d: reliability(own, params) for d, own in by_dataset.items()},
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


def _noise_ceiling(runs: Floats) -> float | None:
    """Kendall's tau between the scores of two seeds, the mean over all pairs of seeds."""
    taus = [float(kendall(one, other)) for one, other in combinations(runs.T, 2)]
    return fmean(taus) if taus and all(map(math.isfinite, taus)) else None
