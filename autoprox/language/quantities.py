"""What is measured of a linear layer: an open registry of quantities, read without torch.

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

Capture = Literal["weight", "weight_grad", "input", "output", "output_grad"]
CAPTURES = ("weight", "weight_grad", "input", "output", "output_grad")


class QuantityError(AutoproxError):
    """A quantity that can't be registered, or that doesn't exist."""


@dataclass(frozen=True)
class Quantity:
    """A matrix of each linear layer, made by `matrix` of what it `reads` of the layer.

    `like` says which matrices have its shape: the weights, in both domains, or the outputs of the
    layers of the MLPs, tokens x features.
    """

    name: str
    like: Literal["weight", "activation"]
    reads: tuple[Capture, ...]
    matrix: Callable[..., Tensor]  # takes what is read, in this order

    @property
    def needs(self) -> Literal["none", "forward", "backward"]:
        """The pass that it takes."""
        if any(capture.endswith("_grad") for capture in self.reads):
            return "backward"
        return "none" if set(self.reads) == {"weight"} else "forward"


def _prove(name: str, quantity: Quantity) -> None:
    if name != quantity.name or not name.isidentifier() or not name.islower():
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


QUANTITIES: Registry[Quantity] = Registry("statistics", "quantity", QuantityError, _prove)


def _same(values: Tensor) -> Tensor:
    return values


for _quantity in (
    Quantity("weight", "weight", ("weight",), _same),
    Quantity("grad", "weight", ("weight_grad",), _same),
    Quantity("act", "activation", ("output",), _same),
    Quantity("act_grad", "activation", ("output_grad",), _same),
):
    QUANTITIES.register(_quantity.name, _quantity)
