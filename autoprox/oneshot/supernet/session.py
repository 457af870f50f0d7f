"""A whole training of a supernet, from its beginning or its last checkpoint."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

from autoprox.oneshot.supernet.checkpoint import Header, read_checkpoint, write_checkpoint
from autoprox.oneshot.supernet.recipe import SupernetRecipe
from autoprox.oneshot.supernet.samplers import SAMPLERS
from autoprox.oneshot.supernet.slices import Supernet
from autoprox.oneshot.supernet.training import Place, SupernetTraining, generator_of
from autoprox.parallel.threads import one_thread
from autoprox.searchspaces import Architecture, SearchSpace


@dataclass(frozen=True)
class Plan:
    """What is trained, on what and how."""

    space: SearchSpace
    images: Path
    recipe: SupernetRecipe
    sampler: str
    subnets: tuple[Architecture, ...]
    seed: int


def subnets_drawn(plan: Plan, steps: int) -> set[Architecture]:
    """Return those of the plan's subnets that a training of this many steps draws."""
    draw, found = SAMPLERS.find(plan.sampler).draw, set[Architecture]()
    for step in range(steps):
        if len(found) >= len(plan.subnets):
            break
        found.update(draw(plan.space, plan.subnets, generator_of(plan.seed, step)))
    return found


def train_supernet(
    place: Place, device: str, report: Callable[[int, float], None], plan: Plan, file: Path
) -> None:
    """Train to the end of the plan; the file is replaced after every epoch, reported before."""
    space = plan.space
    data = plan.recipe.load(plan.images, space)
    supernet = Supernet(space, data.classes, plan.seed, torch.device(device))
    training = SupernetTraining(
        supernet, data, plan.recipe, plan.sampler, plan.subnets, seed=plan.seed, place=place
    )
    if file.exists():
        state, header = read_checkpoint(file, space)
        training.restore(state, header.epoch, header.steps)
    with one_thread():
        while training.epoch < plan.recipe.epochs:
            loss = training.train_epoch()
            if place.rank == 0:
                report(training.epoch, loss)
                header = Header(space.name, data.classes, training.epoch, training.steps)
                write_checkpoint(file, training.state(), header)
