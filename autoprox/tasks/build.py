"""Builds a benchmark of one's own: a sample of a space with true scores, by training it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from autoprox.errors import ConfigError
from autoprox.progress import Progress
from autoprox.runs.folder import Run
from autoprox.searchspaces import get_space
from autoprox.tasks.base import Task, completed
from autoprox.tasks.configurations import BuildConfig
from autoprox.training.recipes import ImageRecipe, Recipe, TextRecipe
from autoprox.training.table import build_table


class Build(Task[BuildConfig]):
    """The architectures to train, the datasets to train them on, and how."""

    def __init__(self, config: BuildConfig) -> None:
        space = get_space(config.space).name
        super().__init__(completed(config, space=space, out=str(Path(config.out).absolute())))
        self.recipe = _recipe(config)

    @property
    def name(self) -> str:
        return f"build-{self.config.space}-seed{self.config.seed}"

    def work(self, run: Run, progress: Progress) -> dict[str, Any]:
        """Train what isn't trained yet; the results are files beside the table."""
        config, out = self.config, Path(self.config.out)
        table = build_table(
            config.space,
            [Path(path) for path in config.images or config.text],
            out,
            samples=config.samples,
            seeds=config.seeds,
            recipe=self.recipe,
            seed=config.seed,
            workers=config.workers,
            progress=progress,
        )
        return summarised(table, out)


def summarised(table: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """What was built: the range of the scores, how far they can be trusted, what failed."""
    training = table["training"]
    datasets = {}
    for dataset, ceiling in training["noise_ceiling"].items():
        scores = [entry["scores"][dataset] for entry in table["architectures"]]
        datasets[dataset] = {
            "lowest": min(scores),
            "median": median(scores),
            "highest": max(scores),
            "noise_ceiling": ceiling,
        }
    return {
        "file": str(file),
        "name": table["name"],
        "space": table["space"],
        "architectures": len(table["architectures"]),
        "datasets": datasets,
        **{name: training[name] for name in ("measure", "seeds", "core_hours", "failures")},
    }


def _recipe(config: BuildConfig) -> Recipe[Any]:
    """How to train on images, or on texts, whichever are given."""
    if config.images and not config.text:
        return ImageRecipe(
            epochs=config.epochs, teacher=config.teacher, mirror=tuple(config.mirror)
        )
    if not config.text or config.images:
        got = "both" if config.images else "neither"
        raise ConfigError(f"either images or text must be given, but got {got}")
    for option in ("teacher", "mirror"):
        if getattr(config, option):
            raise ConfigError(f"{option} must be given with images only, but got text")
    return TextRecipe(epochs=config.epochs)
