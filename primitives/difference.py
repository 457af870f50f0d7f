"""The proof that an operation differs from all others: called on random values."""

from collections.abc import Mapping
from functools import cache

import torch
from torch import Tensor

from autoprox.parallel.threads import one_thread

from .base import Level, Primitive, PrimitiveError, apply

SHAPES: Mapping[Level, tuple[int, ...]] = {
    "matrix": (6, 5, 8),
    "layers": (6, 12),
    "network": (6, 12),
}


def prove_different(primitive: Primitive, others: Mapping[str, Primitive]) -> None:
    """Raise `PrimitiveError` where it is constant, changes nothing, or has a twin of its type."""
    with one_thread():
        for level in primitive.levels:
            value, args = _outcome(primitive, level), _arguments(level)[: primitive.arity]
            where = f"`{primitive.name}` on {level}"
            if torch.allclose(value, value.flatten()[0]):
                raise PrimitiveError(f"an operation depends on its values, but not {where}")
            if any(_equal(value, arg) for arg in args):
                raise PrimitiveError(f"an operation changes its values, but not {where}")
            for other in others.values():
                comparable = other.arity == primitive.arity and level in other.levels
                if comparable and _equal(value, _outcome(other, level)):
                    raise PrimitiveError(
                        f"an operation differs from all others, but {where} is `{other.name}`"
                    )


@cache
def _outcome(primitive: Primitive, level: Level) -> Tensor:
    return apply(primitive, _arguments(level)[: primitive.arity], level)


@cache
def _arguments(level: Level) -> list[Tensor]:
    """Two batches of values of either sign, small, ordinary and large."""
    generator = torch.Generator().manual_seed(0)
    shape = SHAPES[level]
    sizes = torch.logspace(-1, 1, shape[0], dtype=torch.float64).view(-1, *[1] * (len(shape) - 1))
    return [sizes * torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2)]


def _equal(x: Tensor, y: Tensor) -> bool:
    return x.shape == y.shape and torch.allclose(x, y)
