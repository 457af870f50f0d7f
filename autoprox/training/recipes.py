"""How every network of a table is trained: AdamW, linear warm-up and cosine decay."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor, nn

from autoprox.declared_options import Options, Positive
from autoprox.errors import AutoproxError
from autoprox.inputs.datasets import Dataset
from autoprox.searchspaces import SearchSpace
from autoprox.shortfalls import Shortfall

Data = TypeVar("Data", bound=Dataset)


class TrainingError(AutoproxError):
    """A table that can't be built from what was given."""


class DivergedError(ArithmeticError):
    """A training whose loss is no longer finite."""


class TrainingRecipe(Options, ABC, Generic[Data]):
    """How every network of a table is trained and scored."""

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
        """The dataset at a path, as the networks of a space see it."""

    @abstractmethod
    def check(self, datasets: Mapping[str, Data]) -> None:
        """Raise TrainingError unless the recipe can be followed on these datasets."""

    def counts(self, data: Data) -> list[Shortfall]:
        """Return what a dataset may have less of than its networks are made for."""
        return []

    @abstractmethod
    def samples(self, data: Data) -> int:
        """The number of samples in an epoch."""

    @abstractmethod
    def loss(
        self, network: nn.Module, data: Data, chosen: Tensor, generator: torch.Generator
    ) -> Tensor:
        """The loss of a batch, the chosen samples."""

    @abstractmethod
    def score(self, network: nn.Module, data: Data) -> float:
        """What a trained network is worth on the part that was held out."""

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
        """What the learning rate is multiplied by at a step: linear warm-up below a cosine."""
        warm = (step + 1) / max(1, round(self.warmup * steps))
        return min(warm, (1 + math.cos(math.pi * step / steps)) / 2)

    def batches(self, count: int, size: int, generator: torch.Generator) -> Iterator[Tensor]:
        """The indices of the samples of each step, in an order that differs by epoch."""
        for _ in range(self.epochs):
            order = torch.randperm(count, generator=generator)
            yield from order[: count // size * size].view(-1, size)
