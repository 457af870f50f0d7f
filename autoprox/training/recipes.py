"""Recipes that train and score the networks of a table: image classifiers and language models."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.declared_options import Names, Options, Positive, Whole
from autoprox.errors import AutoproxError, nearest, one_line
from autoprox.files.function_import_and_digest import load_function
from autoprox.inputs.batch_loading import IMAGENET_MEAN, IMAGENET_STD
from autoprox.inputs.training_datasets import (
    ImageDataset,
    TextDataset,
    TrainingDataset,
    load_images,
    load_text,
)
from autoprox.searchspaces import SPACES, SearchSpace
from autoprox.searchspaces.language_model_bases import TokenSpace
from autoprox.shortfalls import Shortfall

EVALUATION_BATCH = 500

Data = TypeVar("Data", bound=TrainingDataset)
Teacher = Callable[[Tensor], Tensor]  # images [batch, 3, height, width] to logits


class TrainingError(AutoproxError):
    """A table that can't be built as asked."""


class DivergedError(ArithmeticError):
    """A training whose loss is no longer finite."""


class TrainingRecipe(Options, ABC, Generic[Data]):
    """How networks are trained and scored: by AdamW, with linear warm-up and cosine decay."""

    noun = "a recipe"

    epochs: Positive = 8
    batch_size: Positive = 64
    learning_rate: float = 3e-3
    weight_decay: float = 0.05
    warmup: float = 0.1  # of all steps

    measure: ClassVar[str]
    higher_is_better: ClassVar[bool]

    @abstractmethod
    def load(self, path: Path, space: SearchSpace) -> Data:
        """Load the dataset at a path, as the networks of a space see it."""

    @abstractmethod
    def check(self, datasets: Mapping[str, Data]) -> None:
        """Raise TrainingError unless the recipe can be followed on these datasets."""

    def counts(self, data: Data) -> list[Shortfall]:
        """Return what a dataset may have less of than its networks are made for."""
        return []

    @abstractmethod
    def samples(self, data: Data) -> int:
        """Return the number of samples in an epoch."""

    @abstractmethod
    def loss(
        self, network: nn.Module, data: Data, chosen: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Return the loss of a batch, the chosen samples."""

    @abstractmethod
    def score(self, network: nn.Module, data: Data) -> float:
        """Measure a trained network on the held-out part."""

    def train(self, network: nn.Module, data: Data, seed: int) -> float:
        """Train the network in place; returns the last loss, and raises if it isn't finite."""
        generator = torch.Generator().manual_seed(seed)
        optimizer = torch.optim.AdamW(
            network.parameters(), weight_decay=self.weight_decay, fused=True
        )
        samples = self.samples(data)
        size = min(self.batch_size, samples)
        steps = self.epochs * (samples // size)
        loss = torch.zeros(())
        network.train()
        for step, chosen in enumerate(self.batches(samples, size, generator)):
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
        """Return the learning rate's factor at a step: a linear warm-up, capped by a cosine."""
        warm = (step + 1) / max(1, round(self.warmup * steps))
        return min(warm, (1 + math.cos(math.pi * step / steps)) / 2)

    def batches(self, count: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
        """Yield the indices of the samples of each step, shuffled in every epoch."""
        for _ in range(self.epochs):
            order = torch.randperm(count, generator=generator)
            yield from order[: count // size * size].view(-1, size)


class ImageRecipe(TrainingRecipe[ImageDataset]):
    """How image classifiers are trained: label smoothing, random crops, mirrored images.

    With a `teacher`, MODULE:FUNCTION, DeiT's hard distillation (Touvron et al., 2021, eq. 3), but
    without a head of its own.
    """

    label_smoothing: float = 0.1
    crop: Whole = 2  # pixels by which an image is moved at most, its border repeated
    mirror: Names = ()  # the datasets whose images may be mirrored
    teacher: str | None = None

    measure = "accuracy"
    higher_is_better = True

    def load(self, path: Path, space: SearchSpace) -> ImageDataset:
        if isinstance(space, TokenSpace):
            raise TrainingError(f"{space.name} must be trained on text, but got images: {path}")
        return load_images(path, space.input_shape)

    def check(self, datasets: Mapping[str, ImageDataset]) -> None:
        for name in self.mirror:
            if name not in datasets:
                raise TrainingError(f"unknown dataset {name!r} to mirror{nearest(name, datasets)}")
        for data in datasets.values():
            self._teacher(data)

    def counts(self, data: ImageDataset) -> list[Shortfall]:
        """Count the classes that have images, and the files that are images."""
        read = len(data.labels) + len(data.held_out_labels)
        of = f"files of {data.name}"
        counts = [Shortfall(of, read + data.passed_over, read, "are images that are read")]
        parts = {"classes": data.labels, "held-out classes": data.held_out_labels}
        for part, labels in parts.items():
            of = f"{part} of {data.name}"
            counts.append(Shortfall(of, data.classes, len(set(labels.tolist())), "have images"))
        return counts

    def samples(self, data: ImageDataset) -> int:
        return len(data.labels)

    def prepare(
        self, data: ImageDataset, chosen: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Return images as the networks see them, moved at random, and their labels."""
        mirror = data.name in self.mirror
        images = random_crop_and_flip(data.images[chosen], self.crop, mirror, generator)
        return normalise_images(images), data.labels[chosen]

    def loss(
        self, network: nn.Module, data: ImageDataset, chosen: Tensor, generator: torch.Generator
    ) -> Tensor:
        """Cross-entropy with the labels, averaged with that of the teacher's if there is one."""
        images, labels = self.prepare(data, chosen, generator)
        logits = network(images)
        loss = functional.cross_entropy(logits, labels, label_smoothing=self.label_smoothing)
        teacher = self._teacher(data)
        if teacher is None:
            return loss
        with torch.no_grad():
            taught = teacher(images).argmax(1)
        return (loss + functional.cross_entropy(logits, taught)) / 2

    def score(self, network: nn.Module, data: ImageDataset) -> float:
        return accuracy(network, data.held_out_images, data.held_out_labels)

    def _teacher(self, data: ImageDataset) -> Teacher | None:
        if self.teacher is None:
            return None
        _, height, width, channels = data.images.shape
        return load_teacher(self.teacher, data.name, data.classes, (channels, height, width))


@lru_cache(maxsize=8)
def load_teacher(
    reference: str, dataset: str, classes: int, shape: tuple[int, int, int]
) -> Teacher:
    """Call MODULE:FUNCTION with a dataset's name and classes; returns the teacher for it.

    The module may be in the current folder. The teacher is tried on one image.
    """
    function = load_function(reference, "the teacher", TrainingError)
    try:
        teacher: Teacher = function(dataset, classes)
        with torch.no_grad():
            logits = list(teacher(torch.zeros(1, *shape)).shape)
    except Exception as error:  # it isn't our code
        rule = "the teacher must be a function given as MODULE:FUNCTION"
        raise TrainingError(f"{rule}, but {reference!r} gives {one_line(error)}") from error
    if logits != [1, classes]:
        rule = f"a teacher's logits of one image of {dataset} must be [1, {classes}]"
        raise TrainingError(f"{rule}, but those of {reference} are {logits}")
    return teacher


@torch.no_grad()
def accuracy(network: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Return the percentage of images [n, height, width, 3] whose class the network ranks first."""
    right, device = 0, next(network.parameters(), labels).device
    for begin in range(0, len(labels), EVALUATION_BATCH):
        some = slice(begin, begin + EVALUATION_BATCH)
        predicted = network(normalise_images(images[some]).to(device)).argmax(1).cpu()
        right += int((predicted == labels[some]).sum())
    return 100 * right / len(labels)


def random_crop_and_flip(
    images: Tensor, crop: int, mirror: bool, generator: torch.Generator
) -> Tensor:
    """Move images [n, height, width, 3] at random, their border repeated; mirror half of them."""
    count, height, width, _ = images.shape
    corner = torch.randint(-crop, crop + 1, (2, count, 1), generator=generator)
    rows = (corner[0] + torch.arange(height)).clamp(0, height - 1)
    columns = (corner[1] + torch.arange(width)).clamp(0, width - 1)
    if mirror:
        mirrored = torch.rand(count, 1, generator=generator) < 0.5
        columns = torch.where(mirrored, columns.flip(1), columns)
    return images[torch.arange(count)[:, None, None], rows[:, :, None], columns[:, None, :]]


def normalise_images(images: Tensor) -> Tensor:
    """Convert uint8 [n, height, width, 3] to the networks' inputs, as `inputs` does."""
    mean, std = torch.from_numpy(IMAGENET_MEAN), torch.from_numpy(IMAGENET_STD)
    return ((images / 255 - mean) / std).permute(0, 3, 1, 2).contiguous()


class TextRecipe(TrainingRecipe[TextDataset]):
    """How causal language models are trained, on every next byte in sequences of a text.

    Each sequence begins at a random byte of its piece of the text.
    """

    batch_size: Positive = 16
    length: Positive = 64  # of the sequences

    measure = "perplexity"
    higher_is_better = False

    def load(self, path: Path, space: SearchSpace) -> TextDataset:
        if not isinstance(space, TokenSpace):
            raise TrainingError(f"{space.name} must be trained on images, but got text: {path}")
        if space.objective != "causal":
            spaces = (other for other in SPACES.values() if isinstance(other, TokenSpace))
            names = ", ".join(other.name for other in spaces if other.objective == "causal")
            got = f"{space.name} is {space.objective}; choose from {names}"
            raise TrainingError(f"a space must be causal to be trained on text, but {got}")
        if self.length > space.context:
            rule = f"length must be at most the context of {space.name}, {space.context}"
            raise TrainingError(f"{rule}, but got {self.length}")
        return load_text(path, space)

    def check(self, datasets: Mapping[str, TextDataset]) -> None:
        for name, data in datasets.items():
            if len(data.held_out) <= self.length or self.samples(data) < 1:
                rule = f"a text must be long enough to hold out more than {self.length} bytes"
                raise TrainingError(f"{rule}, but {name} has {sum(data.sizes.values())} in all")

    def samples(self, data: TextDataset) -> int:
        """Return the number of pieces: a sequence may begin at any byte of each."""
        return len(data.tokens) // self.length - 1

    def loss(
        self, network: nn.Module, data: TextDataset, chosen: Tensor, generator: torch.Generator
    ) -> Tensor:
        begins = chosen * self.length
        begins += torch.randint(self.length, begins.shape, generator=generator)
        return _next_token_loss(network, data.tokens, begins, self.length)

    def score(self, network: nn.Module, data: TextDataset) -> float:
        return perplexity(network, data.held_out, self.length, self.batch_size)


@torch.no_grad()
def perplexity(network: nn.Module, tokens: Tensor, length: int, batch_size: int) -> float:
    """Return exp of the mean cross-entropy of the next token, over consecutive sequences."""
    begins = torch.arange(0, len(tokens) - length, length)
    total = sum(
        len(some) * _next_token_loss(network, tokens, some, length).item()
        for some in torch.split(begins, batch_size)
    )
    result = math.exp(total / len(begins))
    if not math.isfinite(result):
        raise DivergedError(f"the perplexity became {result}")
    return result


def _next_token_loss(network: nn.Module, tokens: Tensor, begins: Tensor, length: int) -> Tensor:
    windows = tokens[begins[:, None] + torch.arange(length + 1)]  # [batch, length + 1]
    logits: Tensor = network(windows[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
