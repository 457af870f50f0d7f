"""Trains one network: the recipe of small vision transformers, on images held in memory.

AdamW, linear warm-up and cosine decay, label smoothing, random crops, mirror images where they make
sense and, where there is a teacher, DeiT's hard distillation (Touvron et al., 2021, eq. 3), here on
the one head.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.datasets import Dataset
from autoprox.errors import AutoproxError
from autoprox.inputs import MEAN, STD

EVALUATION_BATCH = 500

Teacher = Callable[[Tensor], Tensor]  # images [batch, 3, height, width] to logits


class TrainingError(AutoproxError):
    """A table that can't be built from what was given."""


class DivergedError(ArithmeticError):
    """A training whose loss is no longer finite."""


@dataclass(frozen=True)
class Recipe:
    """How every network of a table is trained; `teacher` is MODULE:FUNCTION."""

    epochs: int = 8
    batch_size: int = 64
    learning_rate: float = 3e-3
    weight_decay: float = 0.05
    warmup: float = 0.1  # of all steps
    label_smoothing: float = 0.1
    crop: int = 2  # pixels by which an image is moved at most, its border repeated
    mirror: tuple[str, ...] = ()  # the datasets whose images may be mirrored
    teacher: str | None = None

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch_size < 1 or self.crop < 0:
            got = f"(epochs={self.epochs}, batch_size={self.batch_size}, crop={self.crop})"
            rule = "`epochs >= 1`, `batch_size >= 1` and `crop >= 0` must hold"
            raise TrainingError(f"{rule}, but got {got}")

    def factor(self, step: int, steps: int) -> float:
        """What the learning rate is multiplied by at a step: linear warm-up below a cosine."""
        warm = (step + 1) / max(1, round(self.warmup * steps))
        return min(warm, (1 + math.cos(math.pi * step / steps)) / 2)


DEFAULT = Recipe()


def train(
    network: nn.Module,
    data: Dataset,
    recipe: Recipe,
    seed: int,
    teacher: Teacher | None = None,
) -> float:
    """Train the network in place; returns the last loss, and raises if it isn't finite."""
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(
        network.parameters(),
        lr=recipe.learning_rate,
        weight_decay=recipe.weight_decay,
        fused=True,
    )
    padded = _pad(data.images, recipe.crop)
    mirror = data.name in recipe.mirror
    size = min(recipe.batch_size, len(padded))
    steps = recipe.epochs * (len(padded) // size)
    loss = torch.zeros(())
    network.train()
    for step, chosen in enumerate(_batches(len(padded), size, recipe.epochs, generator)):
        images = _normalise(_crop(padded[chosen], recipe.crop, mirror, generator))
        loss = _loss(network(images), data.labels[chosen], recipe, teacher, images)
        for group in optimizer.param_groups:
            group["lr"] = recipe.learning_rate * recipe.factor(step, steps)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    network.eval()
    if not math.isfinite(loss.item()):
        raise DivergedError(f"the loss became {loss.item()}")
    return loss.item()


@torch.no_grad()
def accuracy(network: nn.Module, images: Tensor, labels: Tensor) -> float:
    """The percentage of images [n, height, width, 3] whose class the network ranks first."""
    right = 0
    for begin in range(0, len(labels), EVALUATION_BATCH):
        some = slice(begin, begin + EVALUATION_BATCH)
        right += int((network(_normalise(images[some])).argmax(1) == labels[some]).sum())
    return 100 * right / len(labels)


def _batches(count: int, size: int, epochs: int, generator: torch.Generator) -> Iterator[Tensor]:
    for _ in range(epochs):
        order = torch.randperm(count, generator=generator)
        yield from order[: count // size * size].view(-1, size)


def _pad(images: Tensor, crop: int) -> Tensor:
    """Repeat the border of images uint8 [n, height, width, 3] outwards."""
    if not crop:
        return images
    widths = ((0, 0), (crop, crop), (crop, crop), (0, 0))
    return torch.from_numpy(np.pad(images.numpy(), widths, "edge"))


def _crop(padded: Tensor, crop: int, mirror: bool, generator: torch.Generator) -> Tensor:
    """Cut a random window of the original size from each image, half of them mirrored."""
    count, height, width, _ = padded.shape
    corner = torch.randint(2 * crop + 1, (2, count, 1), generator=generator)
    rows = corner[0] + torch.arange(height - 2 * crop)
    columns = corner[1] + torch.arange(width - 2 * crop)
    if mirror:
        turned = torch.rand(count, 1, generator=generator) < 0.5
        columns = torch.where(turned, columns.flip(1), columns)
    return padded[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]


def _normalise(images: Tensor) -> Tensor:
    """From uint8 [n, height, width, 3] to what the networks see, as in `inputs`."""
    mean, std = (torch.as_tensor(np.asarray(values, dtype=np.float32)) for values in (MEAN, STD))
    return ((images / 255 - mean) / std).permute(0, 3, 1, 2).contiguous()


def _loss(
    logits: Tensor, labels: Tensor, recipe: Recipe, teacher: Teacher | None, images: Tensor
) -> Tensor:
    loss = functional.cross_entropy(logits, labels, label_smoothing=recipe.label_smoothing)
    if teacher is None:
        return loss
    with torch.no_grad():
        taught = teacher(images).argmax(1)
    return (loss + functional.cross_entropy(logits, taught)) / 2
