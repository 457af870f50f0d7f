"""What is trained for a table: which networks of a space, on which datasets, with which seeds."""

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from autoprox.inputs.datasets import Dataset, dataset_name
from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.searchspaces.sampler import ArchitectureSampler, Band, sample_bands
from autoprox.searchspaces.size_limits import SizeLimits
from autoprox.shortfalls import Shortfall
from autoprox.training.recipes import TrainingError, TrainingRecipe

PACKAGES = ("autoprox", "torch", "numpy")


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


@dataclass(frozen=True)
class TrainingPlan:
    """The trainings that make a table, and what all of them have in common."""

    recipe: TrainingRecipe[Any]
    settings: Mapping[str, Any]
    jobs: tuple[Job, ...]
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
    """A sample of a space, trained on each dataset with each seed.

    The paths are those of images, or of texts for a space of tokens, and so is the recipe. More
    samples or seeds include all the jobs of fewer. Where there are bands of sizes, the sample is
    taken from each of them in turn.
    """
    named = _named(paths)
    datasets = {name: recipe.load(path, space) for name, path in named.items()}
    recipe.check(datasets)
    classes = next(iter(datasets.values())).classes
    if bands:
        architectures = sample_bands(space, bands, samples, classes, random.Random(seed))
    else:
        sampler = ArchitectureSampler(SizeLimits(space, classes))
        architectures = sampler.sample(samples, random.Random(seed))
    sources = [(name, path.absolute(), datasets[name].digest) for name, path in named.items()]

    jobs = [Job(a, *source, s) for s in range(seeds) for a in architectures for source in sources]
    counts = [count for data in datasets.values() for count in recipe.counts(data)]
    settings = _settings(space, recipe, seed, datasets)
    return TrainingPlan(recipe, settings, tuple(jobs), tuple(counts))


def _named(paths: Sequence[Path]) -> dict[str, Path]:
    """The paths by the names of their datasets."""
    named = {dataset_name(path): path for path in paths}
    if not named or len(named) < len(paths):
        got = ", ".join(map(str, paths)) or "none"
        rule = "datasets must be at paths of different names, at least one"
        raise TrainingError(f"{rule}, but got {got}")
    return named


def _settings(
    space: SearchSpace,
    recipe: TrainingRecipe[Any],
    seed: int,
    datasets: Mapping[str, Dataset],
) -> dict[str, Any]:
    """What all results of a table have in common."""
    return {
        "space": space.name,
        "seed": seed,
        "recipe": recipe.model_dump(),
        "datasets": {
            name: {"classes": data.classes, **data.sizes, "sha256": data.digest}
            for name, data in datasets.items()
        },
        "versions": {name: version(name) for name in PACKAGES},
    }
