"""Trains a supernet: from a configuration to its weights, which a kill doesn't harm."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from autoprox.errors import ConfigError
from autoprox.inputs.datasets import Images
from autoprox.oneshot.supernet.inherited_accuracy import inherited_accuracies
from autoprox.oneshot.supernet.shared_weights import (
    CHECKPOINT_FILE,
    read_checkpoint,
    read_supernet,
    require_entangled,
)
from autoprox.oneshot.supernet.subnets import SAMPLERS, read_subnet_entries
from autoprox.oneshot.supernet.training import (
    SupernetPlan,
    SupernetRecipe,
    drawn_subnets,
    run_distributed,
    train_to_checkpoint,
)
from autoprox.parallel.crew import Crew
from autoprox.progress import Note, Progress
from autoprox.runs.folder import Run
from autoprox.searchspaces import Architecture, SearchSpace, get_space
from autoprox.shortfalls import Shortfall, shortfalls
from autoprox.statistics.collector import resolve_device
from autoprox.tasks.base import Task, completed, path_of
from autoprox.tasks.supernet_configurations import RECIPE, SupernetTrainConfig, TrainingOptions


class SupernetTrain(Task[SupernetTrainConfig]):
    """The space, the images, the recipe, and which subnets are drawn."""

    def __init__(self, config: SupernetTrainConfig) -> None:
        space = get_space(config.space)
        require_entangled(space)
        device = resolve_device(config.device)
        super().__init__(completed(config, space=space.name, device=device))
        file = path_of(config.subnets)
        entries = [] if file is None else read_subnet_entries(file, space)
        subnets = tuple(dict.fromkeys(entries))
        self.entries = Shortfall("subnets", len(entries), len(subnets), f"of {file} are different")
        SAMPLERS.find(config.sampler).check(config.sampler, subnets)
        self.data, recipe = read_images(Path(config.images), space, config)
        images = Path(config.images).absolute()
        self.plan = SupernetPlan(space, images, recipe, config.sampler, subnets, config.seed)

    @property
    def name(self) -> str:
        config = self.config
        return f"supernet-{config.space}-{config.sampler}-seed{config.seed}"

    @property
    def counts(self) -> list[Shortfall]:
        return [self.entries]

    def work(self, run: Run, progress: Progress) -> dict[str, Any]:
        """Train from where the run is, and see what the weights are worth."""
        return trained(self.plan, self.data, self.config, self.crew, run, progress)


def read_images(
    path: Path, space: SearchSpace, config: TrainingOptions
) -> tuple[Images, SupernetRecipe]:
    """The dataset, and how to train on it."""
    recipe = SupernetRecipe(**{name: getattr(config, name) for name in RECIPE})
    data = recipe.load(path, space)
    mirrored = (data.name,) if config.mirror else ()
    if config.batch_size % config.processes:
        rule = "batch_size must be a multiple of processes"
        raise ConfigError(f"{rule}, but got {config.batch_size} and {config.processes}")
    if config.batch_size % config.repeats:
        rule = "batch_size must be a multiple of repeats"
        raise ConfigError(f"{rule}, but got {config.batch_size} and {config.repeats}")
    return data, recipe.model_copy(update={"mirror": mirrored})


def step_count(recipe: SupernetRecipe, data: Images) -> Shortfall:
    """Compare the images of a step with the batch size."""
    images, used = recipe.samples(data), recipe.step_size(recipe.samples(data))
    return Shortfall("batch_size", recipe.batch_size, used, f"can be taken of {images} images")


def trained(
    plan: SupernetPlan,
    data: Images,
    config: TrainingOptions,
    crew: Crew,
    run: Run,
    progress: Progress,
) -> dict[str, Any]:
    """Train in a run; returns what it came to.

    The log has a line for each epoch: it is written before the weights, and what is beyond them is
    cut off.
    """
    file, space = run.path / CHECKPOINT_FILE, plan.space
    done = read_checkpoint(file, space)[1].epoch if file.exists() else 0
    run.truncate_log(done)
    run.check_log()
    before = float(run.read_log()[-1]["seconds"]) if done else 0.0
    started = time.monotonic()

    def report(epoch: int, loss: float) -> None:
        seconds = round(before + time.monotonic() - started, 3)
        run.log({"epoch": epoch, "loss": loss, "seconds": seconds})
        progress(
            "train", epoch, plan.recipe.epochs, Note(f"loss {loss:.4f}", value=loss, of="loss")
        )

    device = config.device
    run_distributed(config.processes, device, run.path, report, train_to_checkpoint, plan, file)
    log = run.read_log()
    return {
        "space": space.name,
        "dataset": data.name,
        "sampler": plan.sampler,
        "weights": str(file),
        "epochs": len(log),
        "loss": log[-1]["loss"],
        "subnets": _worth(plan, data, space, file, crew),
        **_extent(plan, data),
        "seconds": log[-1]["seconds"],
    }


def _extent(plan: SupernetPlan, data: Images) -> dict[str, Any]:
    """Count the images of an epoch and the steps, and which of the subnets are never drawn."""
    recipe = plan.recipe
    order = recipe.order(recipe.samples(data), torch.Generator())
    steps = recipe.epochs * len(order)
    drawn = len(drawn_subnets(plan, steps))
    reason = f"were drawn in {steps} steps"
    counts = [
        step_count(recipe, data),
        Shortfall("different subnets", len(plan.subnets), drawn, reason),
    ]
    return {
        "images": recipe.samples(data),
        "images_per_epoch": len(set(order.flatten().tolist())),
        "steps": steps,
        "shortfalls": shortfalls([*counts, *recipe.counts(data)]),
    }


def _worth(
    plan: SupernetPlan, data: Images, space: SearchSpace, file: Path, crew: Crew
) -> list[dict[str, Any]]:
    """The inherited accuracies of those that were trained, or of the smallest and the largest."""
    chosen: Sequence[Architecture] = plan.subnets or (space.smallest(), space.largest())
    found = inherited_accuracies(read_supernet(file, space), data, chosen, crew=crew)
    return [
        {
            "arch": arch.to_json()["choices"],
            "params": space.params(arch, data.classes),
            "flops": space.flops(arch, data.classes),
            "accuracy": accuracy,
        }
        for arch, accuracy in zip(chosen, found, strict=True)
    ]
