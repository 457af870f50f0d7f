"""Evaluates random subnets with inherited weights: a benchmark that needs no further training."""

import random
import time
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from autoprox.benchmarks import MIN_ARCHITECTURES
from autoprox.errors import ConfigError, RunError
from autoprox.files.atomic import write_json
from autoprox.files.documents import Excerpt
from autoprox.files.json_lines import JSONLines
from autoprox.inputs.datasets import load_images, slug
from autoprox.oneshot.supernet.inherited_accuracy import (
    held_out_indices,
    held_out_shortfalls,
    inherited_accuracies,
    inherited_table,
)
from autoprox.oneshot.supernet.shared_weights import CHECKPOINT_FILE, SupernetError, read_supernet
from autoprox.progress import Progress
from autoprox.runs.folder import Run, as_written
from autoprox.searchspaces import get_space
from autoprox.searchspaces.limits import SizeLimits
from autoprox.searchspaces.sampler import Sampler
from autoprox.shortfalls import Shortfall, shortfalls
from autoprox.tasks.base import Task, completed
from autoprox.tasks.supernet_configurations import SupernetEvalConfig
from autoprox.training.recipes import ImageRecipe

KINDS = ("supernet-train", "prenas")
ACCURACIES = "accuracies.jsonl"
TABLE = "table.json"


class Subnet(Excerpt):
    """One that was evaluated, by its number in the sample."""

    subnet: Annotated[int, Field(ge=0, le=10**9)]
    accuracy: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


class SupernetEval(Task[SupernetEvalConfig]):
    """The supernet of a run, the images, and the subnets."""

    def __init__(self, config: SupernetEvalConfig) -> None:
        if config.samples < MIN_ARCHITECTURES:
            rule = f"samples must be a whole number >= {MIN_ARCHITECTURES}"
            raise ConfigError(f"{rule}, but got {config.samples}")
        path, trained = supernet_run(Path(config.supernet))
        with as_written(path):
            images = config.images or trained.get("images") or trained["train"]
            self.space = get_space(str(trained["space"]))
        super().__init__(completed(config, supernet=str(path), images=str(images)))
        self.supernet = read_supernet(path / CHECKPOINT_FILE, self.space)
        self.data = load_images(Path(images), self.space.input_shape)
        if self.data.classes != self.supernet.classes:
            rule = f"the images must be of {self.supernet.classes} classes, as the supernet is"
            raise SupernetError(f"{rule}, but {images} has {self.data.classes}")
        sampler = Sampler(SizeLimits(self.space, self.data.classes))
        self.architectures = sampler.sample(config.samples, random.Random(config.seed))

    @property
    def name(self) -> str:
        return f"supernet-eval-{self.space.name}-seed{self.config.seed}"

    def work(self, run: Run, progress: Progress) -> dict[str, Any]:
        """Evaluate what isn't on record, and write the table."""
        started, total = time.monotonic(), len(self.architectures)
        lines = JSONLines(run.path / ACCURACIES)
        lines.truncate(len(lines.lines()))
        known = {line.subnet: line.accuracy for line in lines.read_as(Subnet)}
        done = len(known)

        def record(number: int, accuracy: float) -> None:
            nonlocal done
            done += 1
            lines.append({"subnet": number, "accuracy": accuracy})
            progress("evaluate", done, total, f"accuracy {accuracy:.2f}")

        accuracies = inherited_accuracies(
            self.supernet,
            self.data,
            self.architectures,
            limit=self.config.limit,
            crew=self.crew,
            known=known,
            record=record,
        )
        name = slug(f"supernet-{self.space.name}-{self.data.name}")
        limit = self.config.limit
        used = len(self.data.held_out_labels[held_out_indices(self.data, limit)])
        training = {
            "inherited_from": self.config.supernet,
            "measure": "accuracy",
            "held_out": used,
        }
        table = inherited_table(
            name, self.supernet, self.data, self.architectures, accuracies, training
        )
        write_json(run.path / TABLE, table)
        ordered = sorted(accuracies)
        return {
            "file": str(run.path / TABLE),
            "space": self.space.name,
            "dataset": self.data.name,
            "architectures": total,
            "held_out": used,
            "shortfalls": shortfalls(
                [
                    Shortfall("samples", self.config.samples, total, "different ones exist"),
                    *held_out_shortfalls(self.data, limit),
                    *ImageRecipe().counts(self.data),
                ]
            ),
            "lowest": ordered[0],
            "median": ordered[len(ordered) // 2],
            "highest": ordered[-1],
            "seconds": round(time.monotonic() - started, 3),
        }


def supernet_run(path: Path) -> tuple[Path, dict[str, Any]]:
    """The folder and the configuration of a run that has the weights of a supernet."""
    run = Run.open(path)
    if run.kind not in KINDS:
        rule = "a run of `autoprox supernet train` or `autoprox prenas --train` is needed"
        raise RunError(f"{rule}, but {path} is one of `autoprox {run.kind}`")
    if not (path / CHECKPOINT_FILE).is_file():
        raise RunError(
            f"a supernet must have been trained for an epoch, but {path} has no {CHECKPOINT_FILE}"
        )
    return path.absolute(), run.read_config()
