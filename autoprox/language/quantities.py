"""Quantities that are measured of a linear layer: an open registry, read without torch.

A package adds its own by an entry point of the group `autoprox.statistics`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from autoprox.errors import AutoproxError
from autoprox.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

CapturePoint = Literal["weight", "weight_grad", "input", "output", "output_grad"]
Like = Literal["weight", "activation"]
CAPTURES = ("weight", "weight_grad", "input", "output", "output_grad")


class QuantityError(AutoproxError):
    """A quantity that can't be registered, or that doesn't exist."""


@dataclass(frozen=True)
class Quantity:
    """A matrix of each linear layer, made by `matrix` of what it `reads` of the layer.

    `like` says which matrices have its shape: the weights, in every domain, or the outputs of the
    layers of the MLPs, tokens x features. In formulas it is a `letter`, Latin or a Greek one's
    English name, or by default its name; legends say its `meaning`.
    """

    name: str
    like: Like
    reads: tuple[CapturePoint, ...]
    matrix: Callable[..., Tensor]  # takes what is read, in this order
    letter: str = ""
    meaning: str = ""

    @property
    def needs(self) -> Literal["none", "forward", "backward"]:
        """The pass that it takes."""
        if any(capture.endswith("_grad") for capture in self.reads):
            return "backward"
        return "none" if set(self.reads) == {"weight"} else "forward"

    @property
    def of_parameters(self) -> bool:
        """Whether it takes nothing but the weights and their gradients."""
        return set(self.reads) <= {"weight", "weight_grad"}

    @property
    def symbol(self) -> str:
        """Its letter in formulas: a word of letters and digits."""
        return self.letter or self.name.replace("_", "")


def _prove(name: str, quantity: Quantity) -> None:
    if not isinstance(quantity, Quantity):
        raise QuantityError(f"a quantity must be a `Quantity`, but {name} is {quantity!r}")
    if name != quantity.name or not (name.isascii() and name.isidentifier() and name.islower()):
        raise QuantityError(
            "a quantity's name must be a word of small letters, the one it is registered by, "
            f"but got {quantity.name!r} for {name!r}"
        )
    if unknown := [capture for capture in quantity.reads if capture not in CAPTURES]:
        raise QuantityError(f"a quantity must read {', '.join(CAPTURES)}, but got {unknown[0]!r}")
    if not quantity.reads or quantity.like not in ("weight", "activation"):
        raise QuantityError(
            "a quantity must read something, and be like weight or activation, "
            f"but {name!r} reads {quantity.reads} and is like {quantity.like!r}"
        )
    if not (quantity.symbol.isascii() and quantity.symbol.isalnum()):
        raise QuantityError(
            f"a quantity's letter must be of ASCII letters and digits, but got {quantity.letter!r}"
        )


QUANTITIES: Registry[Quantity] = Registry("statistics", "quantity", QuantityError, _prove)


def _register(name: str, like: Like, reads: CapturePoint, letter: str, meaning: str) -> None:
    QUANTITIES.register(name, Quantity(name, like, (reads,), lambda x: x, letter, meaning))


_register("weight", "weight", "weight", "W", "weights of a layer")
_register("grad", "weight", "weight_grad", "G", "gradient of the loss with respect to the weights")
_register("act", "activation", "output", "A", "outputs of a layer")
_register(
    "act_grad",
    "activation",
    "output_grad",
    "Delta",
    "gradient of the loss with respect to the outputs",
)
