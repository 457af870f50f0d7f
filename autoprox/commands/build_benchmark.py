"""The command `bench build`: train a sample of a space on datasets, as a benchmark's table."""

from collections import Counter
from collections.abc import Mapping, Sequence
from glob import escape
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from pydantic import Field

from autoprox.benchmarks import MIN_ARCHITECTURES
from autoprox.commands.task_interface import CommandTask
from autoprox.configurations.commands import BuildConfig
from autoprox.configurations.shared_options import completed
from autoprox.errors import AutoproxError, ConfigError, lacked_memory
from autoprox.evaluation.configured_inputs import input_digests
from autoprox.files.atomic_writes import UNFINISHED, remove_unfinished_files, to_json, write_json
from autoprox.files.folder_checks import require_folder
from autoprox.files.human_readable_sizes import format_range, parse_range
from autoprox.files.json_documents import JSONDocument, read_object
from autoprox.inputs.training_datasets import slugify_name
from autoprox.progress import Progress
from autoprox.runs.folder import Run, locked
from autoprox.runs.summary import Choices, Summary
from autoprox.scoring.bootstrap import Number
from autoprox.searchspaces import get_space
from autoprox.searchspaces.architecture_sampler import Band, size_bands
from autoprox.shortfalls import Shortfall, unmet
from autoprox.training.benchmark_training import plan_training, train_benchmark_table
from autoprox.training.recipes import ImageRecipe, TextRecipe, TrainingRecipe

DEFAULT_BANDS = 8


class DatasetScores(JSONDocument):
    """The range of the true scores on a dataset, and how far they can be trusted."""

    lowest: float
    median: float
    highest: float
    noise_ceiling: Number
    reliability: Number
    tied: Annotated[
        float, Field(description="The share of the pairs of architectures with the same score.")
    ]


class TrainingFailure(JSONDocument):
    """A training that failed."""

    dataset: str
    seed: int
    arch: Choices
    failure: str
    loss: Number = None
    seconds: float


class BuildSummary(Summary):
    """The benchmark that was built."""

    file: str
    name: str
    space: str
    samples: Annotated[int, Field(description="The architectures that were asked for.")]
    architectures: int
    datasets: dict[str, DatasetScores]
    measure: str
    seeds: int
    core_hours: float
    failures: tuple[TrainingFailure, ...]


class BuildTask(CommandTask[BuildConfig, BuildSummary]):
    """The training of architectures for a table: which ones, on which datasets, and how."""

    summary = BuildSummary

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
            recipe=training_recipe(config),
            seed=config.seed,
            bands=sampled_bands(config),
        )
        self.drawn = len({job.architecture for job in self.plan.jobs})
        if self.drawn < MIN_ARCHITECTURES:
            rule = f"a table needs at least {MIN_ARCHITECTURES} architectures"
            raise ConfigError(f"{rule}, but {space.name} has {self.drawn} of these sizes")
        self._require_own_file()

    def _require_own_file(self) -> None:
        """Raise ConfigError if the file to write is there and isn't a table of this build."""
        require_folder("the table's folder", self.out.parent)
        if not self.out.exists() and not self.out.is_symlink():
            return
        try:
            table = read_object(self.out) if self.out.is_file() else {}
            known = {name: table["training"][name] for name in self.plan.settings}
            same = to_json(known) == to_json(self.plan.settings)
        except (AutoproxError, KeyError, TypeError):
            same = False
        if not same or table.get("name") != slugify_name(self.out.stem):
            rule = "the table must be written to a new file, or to one of this very build"
            raise ConfigError(f"{rule}, but {self.out} is something else")

    @property
    def name(self) -> str:
        return f"build-{self.config.space}-seed{self.config.seed}"

    @property
    def read(self) -> dict[str, str]:
        return input_digests({}, plan=to_json(self.plan.settings))

    @property
    def counts(self) -> list[Shortfall]:
        return list(self.plan.counts)

    def work(self, run: Run, progress: Progress) -> BuildSummary:
        """Train what isn't trained yet; results gather in the folder FILE.parts.

        What another build with the same table has trained there isn't trained again, so that
        samples and seeds may be raised later.
        """
        parts = self.out.with_name(f"{self.out.name}.parts")
        parts.mkdir(parents=True, exist_ok=True)
        with locked(parts, "a table"):
            remove_unfinished_files(parts)
            for left in self.out.parent.glob(f".{escape(self.out.name)}.*{UNFINISHED}"):
                left.unlink()
            run.truncate_log(len(log := run.read_log()))
            known = {line["file"] for line in log if not lacked_memory(str(line["result"]))}
            name = slugify_name(self.out.stem)
            table = train_benchmark_table(
                name, self.plan, parts, self.pool, progress, run.log, known
            )
            write_json(self.out, table)
        asked, trained = self.config.samples, len(table["architectures"])
        counts = [
            Shortfall("samples", asked, self.drawn, "different architectures were found"),
            Shortfall("architectures", self.drawn, trained, "were trained without a failure"),
        ]
        training = table["training"]
        return BuildSummary(
            file=str(self.out),
            name=name,
            space=table["space"],
            samples=asked,
            architectures=trained,
            datasets={dataset: dataset_scores(table, dataset) for dataset in table["datasets"]},
            measure=training["measure"],
            seeds=training["seeds"],
            core_hours=training["core_hours"],
            failures=tuple(TrainingFailure(**failure) for failure in training["failures"]),
            shortfalls=unmet(counts),
        )


def dataset_scores(table: Mapping[str, Any], dataset: str) -> DatasetScores:
    """Return the range and the reliability of a table's scores on a dataset."""
    scores = [entry["scores"][dataset] for entry in table["architectures"]]
    return DatasetScores(
        lowest=min(scores),
        median=median(scores),
        highest=max(scores),
        noise_ceiling=table["training"]["noise_ceiling"][dataset],
        reliability=table["training"]["reliability"][dataset],
        tied=tied_share(scores),
    )


def tied_share(scores: Sequence[float]) -> float:
    """Return the share of the pairs of architectures with the same score."""
    tied = sum(count * (count - 1) for count in Counter(scores).values())
    return tied / (len(scores) * (len(scores) - 1))


def sampled_bands(config: BuildConfig) -> list[Band]:
    """Return the bands of sizes to sample from; none without sizes."""
    low, high = parse_range("sizes", config.sizes)
    if (low, high) == (None, None):
        if config.bands is not None:
            raise ConfigError(f"bands must be given with sizes, but got {config.bands} alone")
        return []
    if low is None or high is None or not 0 < low < high:
        rule = "sizes must be LOW:HIGH with 0 < LOW < HIGH, for example 12K:48K"
        raise ConfigError(f"{rule}, but got {format_range((low, high))}")
    if (config.bands or 0) > config.samples:
        rule = f"bands must be at most samples, {config.samples}, for each to have one"
        raise ConfigError(f"{rule}, but got {config.bands}")
    return size_bands(low, high, config.bands or DEFAULT_BANDS)


def training_recipe(config: BuildConfig) -> TrainingRecipe[Any]:
    """Return how to train on images, or on texts."""
    if bool(config.images) == bool(config.text):
        got = "both" if config.images else "neither"
        raise ConfigError(f"either images or text must be given, but got {got}")
    if config.images:
        mirror = tuple(config.mirror)
        return ImageRecipe(epochs=config.epochs, teacher=config.teacher, mirror=mirror)
    for option in ("teacher", "mirror"):
        if getattr(config, option):
            raise ConfigError(f"{option} must be given with images only, but got text")
    return TextRecipe(epochs=config.epochs)
