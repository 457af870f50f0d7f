"""The training of a supernet, by one process or several.

What a step draws depends on the seed and the step's number alone, so that a training can go on from
its weights and moments. Each of several processes takes its part of every batch; plain
torch.distributed keeps their weights equal, on as many GPUs or on the CPU.
"""

import hashlib
import math
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Annotated, Any

import torch
from annotated_types import Ge, Lt
from torch import Tensor, distributed, multiprocessing
from torch.nn import functional

from autoprox.declared_options import Positive
from autoprox.errors import MeasurementError
from autoprox.files.atomic_writes import UNFINISHED
from autoprox.inputs.training_datasets import ImageDataset, load_images
from autoprox.oneshot.supernet.regularisation import (
    apply_stochastic_depth,
    drop_path_rates,
    mixup_or_cutmix,
    random_erasing,
)
from autoprox.oneshot.supernet.shared_weights import (
    Supernet,
    SupernetCheckpointHeader,
    read_supernet_checkpoint,
    write_supernet_checkpoint,
)
from autoprox.oneshot.supernet.subnet_samplers import SUBNET_SAMPLERS
from autoprox.parallel.threads import single_torch_thread
from autoprox.parallel.worker_pool import delayed_interrupts, exit_with_parent
from autoprox.searchspaces import Architecture, SearchSpace, TransformerNetwork
from autoprox.searchspaces.transformer import Layer
from autoprox.training.recipes import DivergedError, ImageRecipe

CACHED_SUBNETS = 32
MOMENTS = ("exp_avg", "exp_avg_sq")  # AdamW's names

EpochReport = Callable[[int, float], None]  # of the epoch and its mean loss


class SupernetRecipe(ImageRecipe):
    """How a supernet is trained on images: the recipe of AutoFormer."""

    final_rate: Annotated[float, Ge(0)] = 1e-5
    drop_path: Annotated[float, Ge(0), Lt(1)] = 0.1  # of the last block; the others less
    repeats: Positive = 1  # of an image in a batch, each augmented (Hoffer et al., 2020)
    mixup: Annotated[float, Ge(0)] = 0.0
    cutmix: Annotated[float, Ge(0)] = 0.0
    erasing: Annotated[float, Ge(0), Lt(1)] = 0.0

    def load(self, path: Path, space: SearchSpace) -> ImageDataset:
        return load_images(path, space.input_shape, least=getattr(space, "patch", 1))

    def prepare(
        self, data: ImageDataset, chosen: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Augment images; returns them with their labels, or with their shares of the classes."""
        images, targets = super().prepare(data, chosen, generator)
        if self.erasing:
            images = random_erasing(images, self.erasing, generator)
        if self.mixup or self.cutmix:
            beta = {"mixup": self.mixup, "cutmix": self.cutmix}
            images, targets = mixup_or_cutmix(images, targets, data.classes, generator, **beta)
        return images, targets

    def factor(self, step: int, steps: int) -> float:
        """The learning rate's factor: a linear warm-up, capped by a cosine to the final rate."""
        warm = (step + 1) / max(1, round(self.warmup * steps))
        least = self.final_rate / self.learning_rate
        return min(warm, least + (1 - least) * (1 + math.cos(math.pi * step / steps)) / 2)

    def step_size(self, samples: int) -> int:
        """Return the number of images of a step, repeated ones counted each time."""
        return max(1, min(self.batch_size, samples) // self.repeats) * self.repeats

    def order(self, samples: int, generator: torch.Generator) -> Tensor:
        """Draw the samples of an epoch, [steps, batch]; repeated ones are in the same batch."""
        different = self.step_size(samples) // self.repeats
        steps = samples // min(self.batch_size, samples)
        order = torch.randperm(samples, generator=generator)[: steps * different]
        return order.view(steps, different).repeat(1, self.repeats)


@dataclass(frozen=True)
class ProcessRank:
    """The rank of this process, and the number of processes that train together."""

    rank: int = 0
    processes: int = 1


@dataclass(eq=False)
class SupernetTraining:
    """A supernet, what it is trained on, and the state of its training."""

    supernet: Supernet
    data: ImageDataset
    recipe: SupernetRecipe
    sampler: str
    subnets: Sequence[Architecture] = ()
    seed: int = field(default=0, kw_only=True)
    process: ProcessRank = field(default_factory=ProcessRank, kw_only=True)
    epoch: int = field(default=0, init=False)  # completed, as are the steps
    steps: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._sampler = SUBNET_SAMPLERS.find(self.sampler)
        self._sampler.check(self.sampler, self.subnets)
        modules, weights = self.supernet.network.modules(), self.supernet.parameters.values()
        layers = {id(module.weight) for module in modules if isinstance(module, Layer)}
        decaying, other = {"weight_decay": self.recipe.weight_decay}, {"weight_decay": 0.0}
        groups = [  # biases, norms and embeddings don't decay
            {"params": [weight for weight in weights if id(weight) in layers], **decaying},
            {"params": [weight for weight in weights if id(weight) not in layers], **other},
        ]
        self.optimizer = torch.optim.AdamW(groups, fused=True)
        self._generator = torch.Generator()
        self._rates = drop_path_rates(self.supernet.network, self.recipe.drop_path)
        self._subnet = lru_cache(CACHED_SUBNETS)(self._make_subnet)

    def _make_subnet(self, arch: Architecture) -> TransformerNetwork:
        network = self.supernet.subnet(arch).train()
        apply_stochastic_depth(network, self._rates, self._generator)
        return network

    def train_epoch(self) -> float:
        """Train one epoch; returns the mean loss, and raises if it isn't finite."""
        order = self.recipe.order(
            self.recipe.samples(self.data), self._seeded_generator("order", self.epoch)
        )
        losses = torch.zeros(len(order))
        for batch, chosen in enumerate(order):
            losses[batch] = self._train_step(chosen, self.recipe.epochs * len(order))
        self.epoch += 1
        loss = self._average(losses).mean().item()
        if not math.isfinite(loss):
            raise DivergedError(f"the loss became {loss}")
        return loss

    def _train_step(self, chosen: Tensor, steps: int) -> float:
        """Update once by the gradients of all drawn subnets, on the same images."""
        rank, processes = self.process.rank, self.process.processes
        generator = self._seeded_generator(f"process {rank}", self.steps)
        images, targets = self.recipe.prepare(self.data, chosen[rank::processes], generator)
        self._generator.set_state(generator.get_state())
        device = self.supernet.gradients.device
        images, targets = images.to(device), targets.to(device)
        rng = step_rng(self.seed, self.steps)
        drawn = self._sampler.draw(self.supernet.space, self.subnets, rng)
        self.supernet.gradients.zero_()
        total = 0.0
        for arch in drawn:
            logits = self._subnet(arch)(images)
            smoothing = self.recipe.label_smoothing
            loss = functional.cross_entropy(logits, targets, label_smoothing=smoothing)
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.item()
        self._average(self.supernet.gradients)
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.learning_rate * self.recipe.factor(self.steps, steps)
        self.optimizer.step()
        self.steps += 1
        return total / len(drawn)

    def _seeded_generator(self, use: str, number: int) -> torch.Generator:
        digest = hashlib.sha256(f"{self.seed} {use} {number}".encode()).digest()
        return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))

    def _average(self, tensor: Tensor) -> Tensor:
        """Average over all processes, in place."""
        if self.process.processes > 1:
            distributed.all_reduce(tensor)
            tensor /= self.process.processes
        return tensor

    def state(self) -> dict[str, Tensor]:
        """Return weights and moments, by the names of the parameters."""
        state = {}
        for name, parameter in self.supernet.parameters.items():
            state[f"weight.{name}"] = parameter.detach()
            for moment in MOMENTS:
                known = self.optimizer.state.get(parameter, {})
                state[f"{moment}.{name}"] = known.get(moment, torch.zeros_like(parameter))
        return state

    @torch.no_grad()
    def restore(self, state: dict[str, Tensor], epoch: int, steps: int) -> None:
        """Return to a state that was saved after these numbers of epochs and steps."""
        self.epoch, self.steps = epoch, steps
        for name, parameter in self.supernet.parameters.items():
            parameter.copy_(state[f"weight.{name}"])
            moments = {moment: state[f"{moment}.{name}"].to(parameter) for moment in MOMENTS}
            step = torch.tensor(float(steps), device=parameter.device)
            self.optimizer.state[parameter] = {"step": step, **moments}


@dataclass(frozen=True)
class SupernetPlan:
    """The space, the images, and how its supernet is trained on them."""

    space: SearchSpace
    images: Path
    recipe: SupernetRecipe
    sampler: str
    subnets: tuple[Architecture, ...]
    seed: int


def step_rng(seed: int, step: int) -> random.Random:
    """Return the generator from which a step draws its subnets."""
    return random.Random(f"{seed} {step}")


def drawn_subnets(plan: SupernetPlan, steps: int) -> set[Architecture]:
    """Return those of the plan's subnets that a training of this many steps draws."""
    draw, drawn = SUBNET_SAMPLERS.find(plan.sampler).draw, set[Architecture]()
    for step in range(steps):
        if len(drawn) >= len(plan.subnets):
            break
        drawn.update(draw(plan.space, plan.subnets, step_rng(plan.seed, step)))
    return drawn


def train_to_checkpoint(
    process: ProcessRank, device: str, report: EpochReport, plan: SupernetPlan, file: Path
) -> None:
    """Carry out a plan, from its checkpoint if there is one.

    The file is replaced after every epoch, which is reported before.
    """
    space = plan.space
    data = plan.recipe.load(plan.images, space)
    supernet = Supernet(space, data.classes, plan.seed, torch.device(device))
    training = SupernetTraining(
        supernet, data, plan.recipe, plan.sampler, plan.subnets, seed=plan.seed, process=process
    )
    if file.exists():
        state, header = read_supernet_checkpoint(file, space)
        training.restore(state, header.epoch, header.steps)
    with single_torch_thread():
        while training.epoch < plan.recipe.epochs:
            loss = training.train_epoch()
            if process.rank == 0:
                report(training.epoch, loss)
                header = SupernetCheckpointHeader(
                    space.name, data.classes, training.epoch, training.steps
                )
                write_supernet_checkpoint(file, training.state(), header)


def ignore_epoch(epoch: int, loss: float) -> None:
    """Report nothing: only the first process does."""


def run_distributed(
    processes: int,
    device: str,
    folder: Path,
    report: EpochReport,
    work: Callable[..., None],
    *arguments: Any,
) -> None:
    """Run `work(process, device, report, *arguments)` here and in all other processes.

    It has to be a function that a new process can import. They meet at a file in the folder.
    """
    if processes == 1:
        work(ProcessRank(), device, report, *arguments)
        return
    meeting = folder / f".meeting.{os.getpid()}{UNFINISHED}"
    shared = (meeting, device)
    context = multiprocessing.get_context("spawn")
    others = [
        context.Process(
            target=_run_other,
            args=(os.getpid(), ProcessRank(i, processes), *shared, ignore_epoch, work, arguments),
        )
        for i in range(1, processes)
    ]
    with delayed_interrupts():
        for other in others:
            other.daemon = True  # it ends with this process
            other.start()
    try:
        _run_in_group(ProcessRank(0, processes), *shared, report, work, arguments, others)
        for other in others:
            other.join()
    finally:
        meeting.unlink(missing_ok=True)
    if any(other.exitcode for other in others):
        codes = [other.exitcode for other in others]
        raise MeasurementError(f"all processes must end well, but the others' codes are {codes}")


def _run_other(parent: int, *arguments: Any) -> None:
    """Run in the group, and end with the parent, even if that is killed."""
    exit_with_parent(parent)
    _run_in_group(*arguments)
    # A thread of gloo that hasn't ended would abort the process at its end.
    os._exit(0)


def _run_in_group(
    process: ProcessRank,
    meeting: Path,
    device: str,
    report: EpochReport,
    work: Callable[..., None],
    arguments: tuple[Any, ...],
    others: Sequence[BaseProcess] = (),
) -> None:
    backend, own_device = "gloo", device
    if device == "cuda":
        backend, own_device = "nccl", f"cuda:{process.rank}"
        torch.cuda.set_device(process.rank)
    # Not by a URL, which would take the first folder of a relative path for a host.
    store = distributed.FileStore(str(meeting), process.processes)  # type: ignore[attr-defined]
    distributed.init_process_group(
        backend, store=store, rank=process.rank, world_size=process.processes
    )
    try:
        work(process, own_device, report, *arguments)
    except BaseException:
        for other in others:  # or they would report that they were left alone
            other.kill()
        raise
    finally:
        distributed.destroy_process_group()
