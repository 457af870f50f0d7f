"""The commands `supernet train`, `eval` and `extract`: one network that contains a whole space."""

import random
import time
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field
from safetensors.torch import save

from autoprox.benchmarks import MIN_ARCHITECTURES
from autoprox.commands.task_interface import CommandTask
from autoprox.configurations.shared_options import completed
from autoprox.configurations.supernets import (
    RECIPE,
    SupernetEvalConfig,
    SupernetTrainConfig,
    TrainingOptions,
)
from autoprox.errors import ConfigError, RunError
from autoprox.files.atomic_writes import atomic_file, to_json, write_json
from autoprox.files.json_documents import JSONDocument, PartialJSONDocument
from autoprox.files.json_lines import JSONLinesFile
from autoprox.inputs.training_datasets import ImageDataset, load_images, slugify_name
from autoprox.oneshot.supernet.inherited_accuracy import (
    batch_norms,
    calibrate_batch_norms,
    calibration_images,
    held_out_indices,
    held_out_shortfalls,
    inherited_accuracies,
    inherited_table,
)
from autoprox.oneshot.supernet.shared_weights import (
    CHECKPOINT_FILE,
    SupernetError,
    read_supernet,
    read_supernet_checkpoint,
    require_entangled,
)
from autoprox.oneshot.supernet.subnet_samplers import (
    SUBNET_SAMPLERS,
    read_subnet_entries,
)
from autoprox.oneshot.supernet.training import (
    SupernetPlan,
    SupernetRecipe,
    drawn_subnets,
    run_distributed,
    train_to_checkpoint,
)
from autoprox.parallel.worker_pool import WorkerPool
from autoprox.progress import Note, Progress
from autoprox.runs.folder import Run, as_written
from autoprox.runs.summary import Choices, Summary
from autoprox.searchspaces import SearchSpace, get_space
from autoprox.searchspaces.architecture_sampler import ArchitectureSampler
from autoprox.searchspaces.size_limits import SizeLimits
from autoprox.shortfalls import Shortfall, unmet
from autoprox.statistics.collector import resolve_device
from autoprox.training.recipes import ImageRecipe

ACCURACIES_FILE, TABLE_FILE = "accuracies.jsonl", "table.json"


class SubnetAccuracy(JSONDocument):
    """A subnet with its inherited accuracy."""

    arch: Choices
    params: int
    flops: int
    accuracy: float


class TrainedSupernet(JSONDocument):
    """A supernet that was trained, and the accuracy that some of its subnets inherit."""

    space: str
    dataset: str
    sampler: str
    weights: str
    epochs: int
    loss: float
    subnets: tuple[SubnetAccuracy, ...]
    images: int
    images_per_epoch: int
    steps: int
    seconds: float


class SupernetTrainSummary(TrainedSupernet, Summary):
    """The result of training a supernet."""


class SupernetEvalSummary(Summary):
    """The range of the accuracies that random subnets inherit, and the table of all."""

    file: str
    space: str
    dataset: str
    architectures: int
    held_out: int
    lowest: float
    median: float
    highest: float
    seconds: float


class ExtractedSubnet(JSONDocument):
    """A subnet that was written as a network of its own."""

    file: str
    space: str
    params: int
    flops: int
    classes: int


class AccuracyLine(PartialJSONDocument):
    """A subnet that was evaluated, by its number in the sample."""

    subnet: Annotated[int, Field(ge=0, le=10**9)]
    accuracy: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


class SupernetTrainTask(CommandTask[SupernetTrainConfig, SupernetTrainSummary]):
    """The training of a supernet on the subnets that a sampler draws."""

    summary = SupernetTrainSummary

    def __init__(self, config: SupernetTrainConfig) -> None:
        space = get_space(config.space)
        require_entangled(space)
        super().__init__(completed(config, space=space.name, device=resolve_device(config.device)))
        file = config.subnets
        entries = [] if file is None else read_subnet_entries(Path(file), space)
        subnets = tuple(dict.fromkeys(entries))
        self.entries = Shortfall("subnets", len(entries), len(subnets), f"of {file} are different")
        SUBNET_SAMPLERS.find(config.sampler).check(config.sampler, subnets)
        self.data, recipe = read_images_and_recipe(Path(config.images), space, config)
        images = Path(config.images).absolute()
        self.plan = SupernetPlan(space, images, recipe, config.sampler, subnets, config.seed)

    @property
    def name(self) -> str:
        config = self.config
        return f"supernet-{config.space}-{config.sampler}-seed{config.seed}"

    @property
    def counts(self) -> list[Shortfall]:
        return [self.entries]

    def work(self, run: Run, progress: Progress) -> SupernetTrainSummary:
        """Train from where the run stopped, and evaluate subnets."""
        trained = train_supernet_in_run(self.plan, self.data, self.config, self.pool, run, progress)
        shortfalls = training_shortfalls(self.plan, self.data, trained.steps)
        return SupernetTrainSummary(**dict(trained), shortfalls=shortfalls)


class SupernetEvalTask(CommandTask[SupernetEvalConfig, SupernetEvalSummary]):
    """The evaluation of random subnets of a run's supernet, which makes a benchmark."""

    summary = SupernetEvalSummary

    def __init__(self, config: SupernetEvalConfig) -> None:
        if config.samples < MIN_ARCHITECTURES:
            rule = f"samples must be a whole number >= {MIN_ARCHITECTURES}"
            raise ConfigError(f"{rule}, but got {config.samples}")
        path, self.space, images = open_supernet_run(Path(config.supernet))
        images = Path(config.images or images)
        super().__init__(completed(config, supernet=str(path), images=str(images)))
        self.supernet = read_supernet(path / CHECKPOINT_FILE, self.space)
        self.data = load_images(images, self.space.input_shape)
        if self.data.classes != self.supernet.classes:
            rule = f"the images must be of {self.supernet.classes} classes, as the supernet is"
            raise SupernetError(f"{rule}, but {images} has {self.data.classes}")
        sampler = ArchitectureSampler(SizeLimits(self.space, self.data.classes))
        self.architectures = sampler.sample(config.samples, random.Random(config.seed))

    @property
    def name(self) -> str:
        return f"supernet-eval-{self.space.name}-seed{self.config.seed}"

    def work(self, run: Run, progress: Progress) -> SupernetEvalSummary:
        """Evaluate the subnets that aren't on record, and write the table."""
        started = time.monotonic()
        accuracies = self._accuracies(run, progress)
        data, limit, total = self.data, self.config.limit, len(self.architectures)
        used = len(data.held_out_labels[held_out_indices(data, limit)])
        table = inherited_table(
            slugify_name(f"supernet-{self.space.name}-{data.name}"),
            self.supernet,
            data,
            self.architectures,
            accuracies,
            {"inherited_from": self.config.supernet, "measure": "accuracy", "held_out": used},
        )
        write_json(run.path / TABLE_FILE, table)
        counts = [
            Shortfall("samples", self.config.samples, total, "different ones exist"),
            *held_out_shortfalls(data, limit),
            *ImageRecipe().counts(data),
        ]
        ordered = sorted(accuracies)
        return SupernetEvalSummary(
            file=str(run.path / TABLE_FILE),
            space=self.space.name,
            dataset=data.name,
            architectures=total,
            held_out=used,
            shortfalls=unmet(counts),
            lowest=ordered[0],
            median=ordered[len(ordered) // 2],
            highest=ordered[-1],
            seconds=round(time.monotonic() - started, 3),
        )

    def _accuracies(self, run: Run, progress: Progress) -> list[float]:
        lines = JSONLinesFile(run.path / ACCURACIES_FILE)
        lines.truncate(len(lines.lines()))
        known = {line.subnet: line.accuracy for line in lines.read_as(AccuracyLine)}
        done = len(known)

        def record(number: int, accuracy: float) -> None:
            nonlocal done
            done += 1
            lines.append({"subnet": number, "accuracy": accuracy})
            progress("evaluate", done, len(self.architectures), f"accuracy {accuracy:.2f}")

        return inherited_accuracies(
            self.supernet,
            self.data,
            self.architectures,
            limit=self.config.limit,
            pool=self.pool,
            known=known,
            record=record,
        )


def extract_subnet(run: Path, arch: Path, out: Path) -> ExtractedSubnet:
    """Write the weights of a subnet as a plain network's, with its architecture and classes."""
    path, space, images = open_supernet_run(run)
    architecture = read_subnet_entries(arch, space)[0]
    if out.is_dir() or not out.absolute().parent.is_dir():
        raise ConfigError(f"the weights must be written to a file in a folder, but got {out}")
    supernet = read_supernet(path / CHECKPOINT_FILE, space)
    network = supernet.extract(architecture)
    if batch_norms(network):
        calibrate_batch_norms(
            network, calibration_images(load_images(images, space.input_shape).images)
        )
    metadata = {
        "architecture": to_json(architecture.to_json()),
        "classes": str(supernet.classes),
    }
    with atomic_file(out) as file:
        file.write(save(network.state_dict(), metadata))
    return ExtractedSubnet(
        file=str(out),
        space=space.name,
        params=space.params(architecture, supernet.classes),
        flops=space.flops(architecture, supernet.classes),
        classes=supernet.classes,
    )


def open_supernet_run(path: Path) -> tuple[Path, SearchSpace, Path]:
    """Return the folder of a run that has a supernet's weights, its space and its images."""
    run = Run.open(path)
    if run.kind not in ("supernet-train", "prenas"):
        rule = "a run of `autoprox supernet train` or `autoprox prenas --images` is needed"
        raise RunError(f"{rule}, but {path} is one of `autoprox {run.kind}`")
    if not (path / CHECKPOINT_FILE).is_file():
        raise RunError(
            f"a supernet must have been trained for an epoch, but {path} has no {CHECKPOINT_FILE}"
        )
    with as_written(path):
        config = run.read_config()
        images = Path(str(config["images"]))
        return path.absolute(), get_space(str(config["space"])), images


def read_images_and_recipe(
    path: Path, space: SearchSpace, config: TrainingOptions
) -> tuple[ImageDataset, SupernetRecipe]:
    """Read the dataset, and return it with the recipe of the training."""
    recipe = SupernetRecipe(**{name: getattr(config, name) for name in RECIPE})
    data = recipe.load(path, space)
    for name in ("processes", "repeats"):
        if config.batch_size % (divisor := getattr(config, name)):
            rule = f"batch_size must be a multiple of {name}"
            raise ConfigError(f"{rule}, but got {config.batch_size} and {divisor}")
    mirrored = (data.name,) if config.mirror else ()
    return data, recipe.model_copy(update={"mirror": mirrored})


def train_supernet_in_run(
    plan: SupernetPlan,
    data: ImageDataset,
    config: TrainingOptions,
    pool: WorkerPool,
    run: Run,
    progress: Progress,
) -> TrainedSupernet:
    """Train a supernet in a run's folder, and evaluate its subnets.

    The log has a line for each epoch. It is written before the weights; lines of epochs that the
    weights don't have are cut off.
    """
    file, space, recipe = run.path / CHECKPOINT_FILE, plan.space, plan.recipe
    done = read_supernet_checkpoint(file, space)[1].epoch if file.exists() else 0
    run.truncate_log(done)
    run.check_log()
    before = float(run.read_log()[-1]["seconds"]) if done else 0.0
    started = time.monotonic()

    def report(epoch: int, loss: float) -> None:
        seconds = round(before + time.monotonic() - started, 3)
        run.log({"epoch": epoch, "loss": loss, "seconds": seconds})
        progress("train", epoch, recipe.epochs, Note(f"loss {loss:.4f}", value=loss, of="loss"))

    run_distributed(
        config.processes, config.device, run.path, report, train_to_checkpoint, plan, file
    )
    chosen = plan.subnets or (space.smallest(), space.largest())
    accuracies = inherited_accuracies(read_supernet(file, space), data, chosen, pool=pool)
    order = recipe.order(recipe.samples(data), torch.Generator())
    log: list[dict[str, Any]] = run.read_log()
    return TrainedSupernet(
        space=space.name,
        dataset=data.name,
        sampler=plan.sampler,
        weights=str(file),
        epochs=len(log),
        loss=log[-1]["loss"],
        subnets=tuple(
            SubnetAccuracy(
                arch=arch.to_json()["choices"],
                params=space.params(arch, data.classes),
                flops=space.flops(arch, data.classes),
                accuracy=accuracy,
            )
            for arch, accuracy in zip(chosen, accuracies, strict=True)
        ),
        images=recipe.samples(data),
        images_per_epoch=len(set(order.flatten().tolist())),
        steps=recipe.epochs * len(order),
        seconds=log[-1]["seconds"],
    )


def training_shortfalls(
    plan: SupernetPlan, data: ImageDataset, steps: int
) -> tuple[Shortfall, ...]:
    """Return what a training falls short of: images of a batch, subnets that were drawn."""
    drawn = len(drawn_subnets(plan, steps))
    reason = f"were drawn in {steps} steps"
    return unmet(
        [
            batch_shortfall(plan.recipe, data),
            Shortfall("different subnets", len(plan.subnets), drawn, reason),
            *plan.recipe.counts(data),
        ]
    )


def batch_shortfall(recipe: SupernetRecipe, data: ImageDataset) -> Shortfall:
    """Compare the images of a step with the batch size."""
    images, used = recipe.samples(data), recipe.step_size(recipe.samples(data))
    return Shortfall("batch_size", recipe.batch_size, used, f"can be taken of {images} images")
