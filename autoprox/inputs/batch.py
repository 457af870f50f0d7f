"""The batch that networks see."""

import hashlib
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from autoprox.errors import AutoproxError

IGNORED = -100  # the label of a token that isn't to be predicted


class InputError(AutoproxError):
    """Images or texts that can't be read, or don't fit the dataset."""


@dataclass(frozen=True)
class Batch:
    """What networks see, and what they should say of it: `labels` int64, below `classes`.

    `inputs` are images [batch, 3, height, width] float32, with labels [batch], or tokens
    [batch, length] int64, with a label for each, IGNORED where there is nothing to predict.
    """

    inputs: Tensor
    labels: Tensor
    classes: int
    source: str

    @cached_property
    def digest(self) -> str:
        """A hash of all that a network sees: the same content, the same digest."""
        content = hashlib.sha256(f"{tuple(self.inputs.shape)} {self.classes}".encode())
        content.update(self.inputs.numpy().tobytes())
        content.update(self.labels.numpy().tobytes())
        return content.hexdigest()
