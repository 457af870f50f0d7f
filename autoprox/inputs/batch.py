"""A mini-batch, and the error of inputs that can't be read."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from autoprox.errors import AutoproxError

IGNORED_LABEL = -100  # of a token that isn't to be predicted


class InputError(AutoproxError):
    """Images or texts that can't be read, or don't fit the dataset."""


@dataclass(frozen=True)
class Batch:
    """The inputs of networks with their labels, int64 and below `classes`.

    `inputs` are images [batch, 3, height, width] float32, with labels [batch], or tokens
    [batch, length] int64, with a label for each, which may be IGNORED_LABEL.
    """

    inputs: Tensor
    labels: Tensor
    classes: int
    source: str

    @cached_property
    def digest(self) -> str:
        """A hash of everything that a network sees."""
        content = hashlib.sha256(f"{tuple(self.inputs.shape)} {self.classes}".encode())
        content.update(self.inputs.numpy().tobytes())
        content.update(self.labels.numpy().tobytes())
        return content.hexdigest()
