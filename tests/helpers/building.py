"""A table of one's own, from its plan to its file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autoprox.files.atomic_writes import write_json
from autoprox.inputs.training_datasets import slugify_name
from autoprox.parallel.worker_pool import WorkerPool
from autoprox.progress import Progress, silent
from autoprox.searchspaces import get_space
from autoprox.training.benchmark_training import plan_training, train_benchmark_table
from autoprox.training.recipes import ImageRecipe, TrainingRecipe


def build_table(
    space: str,
    paths: Sequence[Path],
    out: Path,
    *,
    samples: int = 64,
    seeds: int = 2,
    recipe: TrainingRecipe[Any] | None = None,
    seed: int = 0,
    workers: int = 1,
    progress: Progress = silent,
) -> Mapping[str, Any]:
    """Train a sample of a space on each dataset with each seed; write the table and return it."""
    recipe = recipe or ImageRecipe()
    plan = plan_training(
        get_space(space), paths, samples=samples, seeds=seeds, recipe=recipe, seed=seed
    )
    parts = out.with_name(f"{out.name}.parts")
    table = train_benchmark_table(
        slugify_name(out.stem), plan, parts, WorkerPool(workers), progress
    )
    write_json(out, table)
    return table
