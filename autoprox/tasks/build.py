"""Builds a benchmark of one's own: a sample of a space with true scores, by training it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from glob import escape
from pathlib import Path
from statistics import median
from typing import Any

from autoprox.benchmarks import MIN_ARCHITECTURES
from autoprox.errors import AutoproxError, ConfigError, lacked_memory
from autoprox.files.atomic import UNFINISHED, remove_unfinished, to_json, write_json
from autoprox.files.folders import require_folder
from autoprox.files.located_json import read_object
from autoprox.files.sizes import read_range, show_range
from autoprox.inputs.datasets import slug
from autoprox.progress import Progress
from autoprox.runs.folder import Run, locked
from autoprox.searchspaces import get_space
from autoprox.searchspaces.bands import Band, size_bands
from autoprox.shortfalls import Shortfall, shortfalls
from autoprox.tasks.base import Task, completed, digests
from autoprox.tasks.build_configuration import BuildConfig
from autoprox.training.benchmark_training import plan_training, train_table
from autoprox.training.recipes import ImageRecipe, TextRecipe, TrainingRecipe

BANDS = 8


class Build(Task[BuildConfig]):
    """The architectures to train, the datasets to train them on, and how."""

    def __init__(self, config: BuildConfig) -> None:
        space = get_space(config.space)
        super().__init__(completed(config, space=space.name))
        self.out = Path(config.out)
        if config.samples < MIN_ARCHITECTURES:
            rule = f"samples must be a whole number >= {MIN_ARCHITECTURES}"
            raise ConfigError(f"{rule}, but got {config.samples}")
        self.plan = plan_training(
            space,
            [Path(path) for path in config.images or config.text],
            samples=config.samples,
            seeds=config.seeds,
            recipe=_recipe(config),
            seed=config.seed,
            bands=_bands(config),
        )
        drawn = len({job.architecture for job in self.plan.jobs})
        if drawn < MIN_ARCHITECTURES:
            rule = f"a table needs at least {MIN_ARCHITECTURES} architectures"
            raise ConfigError(f"{rule}, but {space.name} has {drawn} of these sizes")
        self._check_out()

    def _check_out(self) -> None:
        """Whatever else is there stays there: another table, an image, a device."""
        require_folder("the table's folder", self.out.parent)
        if not self.out.exists() and not self.out.is_symlink():
            return
        rule = "the table must be written to a new file, or to one of this very build"
        try:
            table = read_object(self.out) if self.out.is_file() else {}
            known = {name: table["training"][name] for name in self.plan.settings}
            same = to_json(known) == to_json(self.plan.settings)
        except (AutoproxError, KeyError, TypeError):
            same = False
        if not same or table.get("name") != slug(self.out.stem):
            raise ConfigError(f"{rule}, but {self.out} is something else")

    @property
    def name(self) -> str:
        return f"build-{self.config.space}-seed{self.config.seed}"

    @property
    def read(self) -> dict[str, str]:
        return digests({}, plan=to_json(self.plan.settings))

    @property
    def counts(self) -> list[Shortfall]:
        return list(self.plan.counts)

    def work(self, run: Run, progress: Progress) -> dict[str, Any]:
        """Train what isn't trained yet; results gather in the folder FILE.parts.

        What another build with the same table has trained there isn't trained again, so that
        samples and seeds may be raised later.
        """
        parts = self.out.with_name(f"{self.out.name}.parts")
        parts.mkdir(parents=True, exist_ok=True)
        with locked(parts, "a table"):
            remove_unfinished(parts)
            for left in self.out.parent.glob(f".{escape(self.out.name)}.*{UNFINISHED}"):
                left.unlink()
            run.truncate_log(len(log := run.read_log()))
            known = {line["file"] for line in log if not lacked_memory(str(line["result"]))}
            name = slug(self.out.stem)
            table = train_table(name, self.plan, parts, self.crew, progress, run.log, known)
            write_json(self.out, table)
        asked, drawn = self.config.samples, len({job.architecture for job in self.plan.jobs})
        trained = len(table["architectures"])
        counts = [
            Shortfall("samples", asked, drawn, "different architectures were found"),
            Shortfall("architectures", drawn, trained, "were trained without a failure"),
        ]
        return {
            **summarised(table, self.out),
            "samples": asked,
            "shortfalls": shortfalls(counts),
        }


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
            "reliability": training["reliability"][dataset],
            "tied": tied_share(scores),
        }
    return {
        "file": str(file),
        "name": table["name"],
        "space": table["space"],
        "architectures": len(table["architectures"]),
        "datasets": datasets,
        **{name: training[name] for name in ("measure", "seeds", "core_hours", "failures")},
    }


def tied_share(scores: Sequence[float]) -> float:
    """The share of the pairs of architectures that the scores don't tell apart."""
    tied = sum(count * (count - 1) for count in Counter(scores).values())
    return tied / (len(scores) * (len(scores) - 1))


def _bands(config: BuildConfig) -> list[Band]:
    """The bands of sizes to sample from; none where no sizes are given."""
    low, high = read_range("sizes", config.sizes)
    if (low, high) == (None, None):
        if config.bands is not None:
            raise ConfigError(f"bands must be given with sizes, but got {config.bands} alone")
        return []
    if low is None or high is None or not 0 < low < high:
        rule = "sizes must be LOW:HIGH with 0 < LOW < HIGH, for example 12K:48K"
        raise ConfigError(f"{rule}, but got {show_range((low, high))}")
    if (config.bands or 0) > config.samples:
        rule = f"bands must be at most samples, {config.samples}, for each to have one"
        raise ConfigError(f"{rule}, but got {config.bands}")
    return size_bands(low, high, config.bands or BANDS)


def _recipe(config: BuildConfig) -> TrainingRecipe[Any]:
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
