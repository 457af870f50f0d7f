"""Trains one network on data held in memory: a small vision transformer, or a language model.

AdamW, linear warm-up and cosine decay. Images: label smoothing, random crops, mirror images where
they make sense and, where there is a teacher, DeiT's hard distillation (Touvron et al., 2021,
eq. 3), here on the one head. Texts: every next byte in sequences, each of which begins at a random
byte of its piece of the text.
"""

import importlib
import math
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.errors import AutoproxError, nearest
from autoprox.inputs.datasets import Images, Text, load_images, load_text
from autoprox.inputs.images import MEAN, STD
from autoprox.rules import require_whole
from autoprox.searchspaces import SPACES, SearchSpace
from autoprox.searchspaces.tokens import TokenSpace

EVALUATION_BATCH = 500

Dataset = TypeVar("Dataset", Images, Text)
Teacher = Callable[[Tensor], Tensor]  # images [batch, 3, height, width] to logits


class TrainingError(AutoproxError):
    """A table that can't be built from what was given."""


class DivergedError(ArithmeticError):
    """A training whose loss is no longer finite."""


@dataclass(frozen=True)
class Recipe(ABC, Generic[Dataset]):
    """How every network of a table is trained and scored."""

    epochs: int = 8
    batch_size: int = 64
    learning_rate: float = 3e-3
    weight_decay: float = 0.05
    warmup: float = 0.1  # of all steps

    measure: ClassVar[str]
    higher_is_better: ClassVar[bool]

    def __post_init__(self) -> None:
        require_whole("epochs", self.epochs, 1)
        require_whole("batch_size", self.batch_size, 1)

    @abstractmethod
    def load(self, path: Path, space: SearchSpace) -> Dataset:
        """The dataset at a path, as the networks of a space see it."""

    @abstractmethod
    def check(self, datasets: Mapping[str, Dataset]) -> None:
        """Raise TrainingError unless the recipe can be followed on these datasets."""

    @abstractmethod
    def samples(self, data: Dataset) -> int:
        """The number of samples in an epoch."""

    @abstractmethod
    def loss(
        self, network: nn.Module, data: Dataset, chosen: Tensor, generator: torch.Generator
    ) -> Tensor:
        """The loss of a batch, the chosen samples."""

    @abstractmethod
    def score(self, network: nn.Module, data: Dataset) -> float:
        """What a trained network is worth on the part that was held out."""

    def train(self, network: nn.Module, data: Dataset, seed: int) -> float:
        """Train the network in place; returns the last loss, and raises if it isn't finite."""
        generator = torch.Generator().manual_seed(seed)
        optimizer = torch.optim.AdamW(
            network.parameters(),
            lr=self.learning_rate,
            weight_decay=self.weight_decay,
            fused=True,
        )
        size = min(self.batch_size, self.samples(data))
        steps = self.epochs * (self.samples(data) // size)
        loss = torch.zeros(())
        network.train()
        for step, chosen in enumerate(self._batches(self.samples(data), size, generator)):
            loss = self.loss(network, data, chosen, generator)
            for group in optimizer.param_groups:
                group["lr"] = self.learning_rate * self.factor(step, steps)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
        network.eval()
        if not math.isfinite(loss.item()):
            raise DivergedError(f"the loss became {loss.item()}")
        return loss.item()

    def factor(self, step: int, steps: int) -> float:
        """What the learning rate is multiplied by at a step: linear warm-up below a cosine."""
        warm = (step + 1) / max(1, round(self.warmup * steps))
        return min(warm, (1 + math.cos(math.pi * step / steps)) / 2)

    def _batches(self, count: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
        for _ in range(self.epochs):
            order = torch.randperm(count, generator=generator)
            yield from order[: count // size * size].view(-1, size)


@dataclass(frozen=True)
class ImageRecipe(Recipe[Images]):
    """How image classifiers are trained; `teacher` is MODULE:FUNCTION."""

    label_smoothing: float = 0.1
    crop: int = 2  # pixels by which an image is moved at most, its border repeated
    mirror: tuple[str, ...] = ()  # the datasets whose images may be mirrored
    teacher: str | None = None

    measure = "accuracy"
    higher_is_better = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("crop", self.crop, 0)

    def load(self, path: Path, space: SearchSpace) -> Images:
        """All images at a path, in the size that a space sees."""
        if isinstance(space, TokenSpace):
            raise TrainingError(f"{space.name} must be trained on text, but got images: {path}")
        return load_images(path, space.input_shape)

    def check(self, datasets: Mapping[str, Images]) -> None:
        """Raise TrainingError unless what is to be mirrored is known and the teacher can teach."""
        for name in self.mirror:
            if name not in datasets:
                raise TrainingError(f"unknown dataset {name!r} to mirror{nearest(name, datasets)}")
        for data in datasets.values():
            self._teacher(data)

    def samples(self, data: Images) -> int:
        """The number of images to train on."""
        return len(data.labels)

    def loss(
        self, network: nn.Module, data: Images, chosen: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Cross-entropy with the labels, and half of it with the teacher's where there is one."""
        mirror = data.name in self.mirror
        images = _normalise(_crop(data.images[chosen], self.crop, mirror, generator))
        logits, labels = network(images), data.labels[chosen]
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


@dataclass(frozen=True)
class TextRecipe(Recipe[Text]):
    """How language models are trained, those that predict the next token."""

    batch_size: int = 16
    length: int = 64  # of the sequences

    measure = "perplexity"
    higher_is_better = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole("length", self.length, 1)

    def load(self, path: Path, space: SearchSpace) -> Text:
        """A text file, its bytes as tokens of a space."""
        if not isinstance(space, TokenSpace):
            raise TrainingError(f"{space.name} must be trained on images, but got text: {path}")
        if space.objective != "causal":
            rule = "a space must be causal to be trained on text"
            raise TrainingError(f"{rule}, but {space.name} is {space.objective}; {_causal()}")
        if self.length > space.context:
            rule = f"length must be at most the context of {space.name}, {space.context}"
            raise TrainingError(f"{rule}, but got {self.length}")
        return load_text(path, space)

    def check(self, datasets: Mapping[str, Text]) -> None:
        """Raise TrainingError unless there is a sequence to train on and one that is held out."""
        for name, data in datasets.items():
            if len(data.held_out) <= self.length or self.samples(data) < 1:
                raise TrainingError(
                    f"a text must be long enough to hold out more than {self.length} bytes, "
                    f"but {name} has {len(data.tokens) + len(data.held_out)} in all"
                )

    def samples(self, data: Text) -> int:
        """The number of pieces to train on: from every byte of each a sequence fits in the text."""
        return len(data.tokens) // self.length - 1

    def loss(
        self, network: nn.Module, data: Text, chosen: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Cross-entropy with the next tokens."""
        begins = chosen * self.length
        begins += torch.randint(self.length, begins.shape, generator=generator)
        return _next_token_loss(network, data.tokens, begins, self.length)

    def score(self, network: nn.Module, data: Text) -> float:
        """The perplexity of the held-out part, for a byte; whole sequences are counted."""
        return perplexity(network, data.held_out, self.length, self.batch_size)


def _causal() -> str:
    spaces = (s for s in SPACES.values() if isinstance(s, TokenSpace) and s.objective == "causal")
    return f"choose from {', '.join(space.name for space in spaces)}"


@lru_cache(maxsize=8)
def load_teacher(
    reference: str, dataset: str, classes: int, shape: tuple[int, int, int]
) -> Teacher:
    """The teacher for a dataset: what MODULE:FUNCTION returns, called with its name and classes.

    The module may be in the current folder. The teacher is tried on one image.
    """
    module, _, name = reference.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        function = getattr(importlib.import_module(module), name)
        teacher: Teacher = function(dataset, classes)
        with torch.no_grad():
            found = list(teacher(torch.zeros(1, *shape)).shape)
    except Exception as error:  # it isn't our code
        rule = "the teacher must be a function given as MODULE:FUNCTION"
        raise TrainingError(f"{rule}, but {reference!r} gives {first_line(error)}") from error
    if found != [1, classes]:
        rule = f"a teacher's logits of one image of {dataset} must be [1, {classes}]"
        raise TrainingError(f"{rule}, but those of {reference} are {found}")
    return teacher


def first_line(error: Exception) -> str:
    """An error as one line."""
    return f"{type(error).__name__}: {error}".partition("\n")[0]


@torch.no_grad()
def accuracy(network: nn.Module, images: Tensor, labels: Tensor) -> float:
    """The percentage of images [n, height, width, 3] whose class the network ranks first."""
    right = 0
    for begin in range(0, len(labels), EVALUATION_BATCH):
        some = slice(begin, begin + EVALUATION_BATCH)
        right += int((network(_normalise(images[some])).argmax(1) == labels[some]).sum())
    return 100 * right / len(labels)


@torch.no_grad()
def perplexity(network: nn.Module, tokens: Tensor, length: int, batch_size: int) -> float:
    """exp of the mean cross-entropy of the next token, in consecutive sequences of this length."""
    begins = torch.arange(0, len(tokens) - length, length)
    total = 0.0
    for begin in range(0, len(begins), batch_size):
        some = begins[begin : begin + batch_size]
        total += len(some) * _next_token_loss(network, tokens, some, length).item()
    found = math.exp(total / len(begins))
    if not math.isfinite(found):
        raise DivergedError(f"the perplexity became {found}")
    return found


def _next_token_loss(network: nn.Module, tokens: Tensor, begins: Tensor, length: int) -> Tensor:
    """The mean cross-entropy of the tokens after those of sequences that begin there."""
    windows = tokens[begins[:, None] + torch.arange(length + 1)]  # [batch, length + 1]
    logits: Tensor = network(windows[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())


def _crop(images: Tensor, crop: int, mirror: bool, generator: torch.Generator) -> Tensor:
    """Move images [n, height, width, 3] at random, their border repeated; mirror half of them."""
    count, height, width, _ = images.shape
    corner = torch.randint(-crop, crop + 1, (2, count, 1), generator=generator)
    rows = (corner[0] + torch.arange(height)).clamp(0, height - 1)
    columns = (corner[1] + torch.arange(width)).clamp(0, width - 1)
    if mirror:
        turned = torch.rand(count, 1, generator=generator) < 0.5
        columns = torch.where(turned, columns.flip(1), columns)
    return images[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]


def _normalise(images: Tensor) -> Tensor:
    """From uint8 [n, height, width, 3] to what the networks see, as in `inputs`."""
    mean, std = (torch.as_tensor(np.asarray(values, dtype=np.float32)) for values in (MEAN, STD))
    return ((images / 255 - mean) / std).permute(0, 3, 1, 2).contiguous()
