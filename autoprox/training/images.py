"""Trains image classifiers: label smoothing, random crops, mirror images where they make sense.

Where there is a teacher, DeiT's hard distillation (Touvron et al., 2021, eq. 3), here on the one
head.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.declared_options import Names, Whole
from autoprox.errors import nearest, one_line
from autoprox.files.python_code import load_function
from autoprox.inputs.datasets import Images, load_images
from autoprox.inputs.images import MEAN, STD
from autoprox.searchspaces import SearchSpace
from autoprox.searchspaces.language_models import TokenSpace
from autoprox.shortfalls import Shortfall
from autoprox.training.recipes import TrainingError, TrainingRecipe

EVALUATION_BATCH = 500

Teacher = Callable[[Tensor], Tensor]  # images [batch, 3, height, width] to logits


class ImageRecipe(TrainingRecipe[Images]):
    """How image classifiers are trained; `teacher` is MODULE:FUNCTION."""

    label_smoothing: float = 0.1
    crop: Whole = 2  # pixels by which an image is moved at most, its border repeated
    mirror: Names = ()  # the datasets whose images may be mirrored
    teacher: str | None = None

    measure = "accuracy"
    higher_is_better = True

    def load(self, path: Path, space: SearchSpace) -> Images:
        if isinstance(space, TokenSpace):
            raise TrainingError(f"{space.name} must be trained on text, but got images: {path}")
        return load_images(path, space.input_shape)

    def check(self, datasets: Mapping[str, Images]) -> None:
        """What is to be mirrored must be known, and the teacher teach these classes."""
        for name in self.mirror:
            if name not in datasets:
                raise TrainingError(f"unknown dataset {name!r} to mirror{nearest(name, datasets)}")
        for data in datasets.values():
            self._teacher(data)

    def counts(self, data: Images) -> list[Shortfall]:
        """Count the classes that have images, and the files that are images."""
        read = len(data.labels) + len(data.held_out_labels)
        files = Shortfall(
            f"files of {data.name}", read + data.passed_over, read, "are images that are read"
        )
        parts = {"classes": data.labels, "held-out classes": data.held_out_labels}
        classes = [
            Shortfall(
                f"{part} of {data.name}", data.classes, len(set(labels.tolist())), "have images"
            )
            for part, labels in parts.items()
        ]
        return [files, *classes]

    def samples(self, data: Images) -> int:
        return len(data.labels)

    def prepare(
        self, data: Images, chosen: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Images as the networks see them, moved at random, and their labels."""
        mirror = data.name in self.mirror
        images = move_at_random(data.images[chosen], self.crop, mirror, generator)
        return normalise(images), data.labels[chosen]

    def loss(
        self, network: nn.Module, data: Images, chosen: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Cross-entropy with the labels, and half of it with the teacher's where there is one."""
        images, labels = self.prepare(data, chosen, generator)
        logits = network(images)
        loss = functional.cross_entropy(logits, labels, label_smoothing=self.label_smoothing)
        teacher = self._teacher(data)
        if teacher is None:
            return loss
        with torch.no_grad():
            taught = teacher(images).argmax(1)
        return (loss + functional.cross_entropy(logits, taught)) / 2

    def score(self, network: nn.Module, data: Images) -> float:
        """The percentage of held-out images whose class the network ranks first."""
        return accuracy(network, data.held_out_images, data.held_out_labels)

    def _teacher(self, data: Images) -> Teacher | None:
        if self.teacher is None:
            return None
        _, height, width, channels = data.images.shape
        return load_teacher(self.teacher, data.name, data.classes, (channels, height, width))


@lru_cache(maxsize=8)
def load_teacher(
    reference: str, dataset: str, classes: int, shape: tuple[int, int, int]
) -> Teacher:
    """The teacher for a dataset: what MODULE:FUNCTION returns, called with its name and classes.

    The module may be in the current folder. The teacher is tried on one image.
    """
    function = load_function(reference, "the teacher", TrainingError)
    try:
        teacher: Teacher = function(dataset, classes)
        with torch.no_grad():
            found = list(teacher(torch.zeros(1, *shape)).shape)
    except Exception as error:  # it isn't our code
        rule = "the teacher must be a function given as MODULE:FUNCTION"
        raise TrainingError(f"{rule}, but {reference!r} gives {one_line(error)}") from error
    if found != [1, classes]:
        rule = f"a teacher's logits of one image of {dataset} must be [1, {classes}]"
        raise TrainingError(f"{rule}, but those of {reference} are {found}")
    return teacher


@torch.no_grad()
def accuracy(network: nn.Module, images: Tensor, labels: Tensor) -> float:
    """The percentage of images [n, height, width, 3] whose class the network ranks first."""
    right, device = 0, next(network.parameters(), labels).device
    for begin in range(0, len(labels), EVALUATION_BATCH):
        some = slice(begin, begin + EVALUATION_BATCH)
        found = network(normalise(images[some]).to(device)).argmax(1).cpu()
        right += int((found == labels[some]).sum())
    return 100 * right / len(labels)


def move_at_random(images: Tensor, crop: int, mirror: bool, generator: torch.Generator) -> Tensor:
    """Move images [n, height, width, 3] at random, their border repeated; mirror half of them."""
    count, height, width, _ = images.shape
    corner = torch.randint(-crop, crop + 1, (2, count, 1), generator=generator)
    rows = (corner[0] + torch.arange(height)).clamp(0, height - 1)
    columns = (corner[1] + torch.arange(width)).clamp(0, width - 1)
    if mirror:
        turned = torch.rand(count, 1, generator=generator) < 0.5
        columns = torch.where(turned, columns.flip(1), columns)
    return images[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]


def normalise(images: Tensor) -> Tensor:
    """From uint8 [n, height, width, 3] to what the networks see, as in `inputs`."""
    mean, std = (torch.from_numpy(values) for values in (MEAN, STD))
    return ((images / 255 - mean) / std).permute(0, 3, 1, 2).contiguous()
