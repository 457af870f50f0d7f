"""Trains language models: every next byte in sequences of a text.

Each sequence begins at a random byte of its piece of the text.
"""

import math
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.declared_options import Positive
from autoprox.inputs.datasets import Text, load_text
from autoprox.searchspaces import SPACES, SearchSpace
from autoprox.searchspaces.language_models import TokenSpace
from autoprox.training.recipes import DivergedError, TrainingError, TrainingRecipe


class TextRecipe(TrainingRecipe[Text]):
    """How language models are trained, those that predict the next token."""

    batch_size: Positive = 16
    length: Positive = 64  # of the sequences

    measure = "perplexity"
    higher_is_better = False

    def load(self, path: Path, space: SearchSpace) -> Text:
        if not isinstance(space, TokenSpace):
            raise TrainingError(f"{space.name} must be trained on images, but got text: {path}")
        if space.objective != "causal":
            spaces = (own for own in SPACES.values() if isinstance(own, TokenSpace))
            names = ", ".join(own.name for own in spaces if own.objective == "causal")
            got = f"{space.name} is {space.objective}; choose from {names}"
            raise TrainingError(f"a space must be causal to be trained on text, but {got}")
        if self.length > space.context:
            rule = f"length must be at most the context of {space.name}, {space.context}"
            raise TrainingError(f"{rule}, but got {self.length}")
        return load_text(path, space)

    def check(self, datasets: Mapping[str, Text]) -> None:
        """There must be a sequence to train on and one that is held out."""
        for name, data in datasets.items():
            if len(data.held_out) <= self.length or self.samples(data) < 1:
                rule = f"a text must be long enough to hold out more than {self.length} bytes"
                raise TrainingError(f"{rule}, but {name} has {sum(data.sizes.values())} in all")

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
        """The perplexity per byte of the held-out part, of which whole sequences are counted."""
        return perplexity(network, data.held_out, self.length, self.batch_size)


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
