"""Operations in their plainest form, for people to read in exported proxies.

Each is that of the same name in `autoprox.primitives`, where speed has shaped some of them.
"""

import torch
from torch import Tensor

from autoprox.primitives.base import EPSILON, EXPONENT_LIMIT


def neg(x: Tensor) -> Tensor:
    """-x."""
    return -x


def abs_(x: Tensor) -> Tensor:
    """|x|."""
    return x.abs()


def sign(x: Tensor) -> Tensor:
    """-1, 0 or 1 as x is negative, zero or positive."""
    return x.sign()


def square(x: Tensor) -> Tensor:
    """x to the power of 2."""
    return x.square()


def sqrt(x: Tensor) -> Tensor:
    """The square root of |x|."""
    return x.abs().sqrt()


def log(x: Tensor) -> Tensor:
    """The natural logarithm of |x| + 1e-12."""
    return (x.abs() + EPSILON).log()


def exp(x: Tensor) -> Tensor:
    """e to the power of x, where an x above 30 counts as 30."""
    return x.clamp(max=EXPONENT_LIMIT).exp()


def inverse(x: Tensor) -> Tensor:
    """1 / x, and 0 where |x| <= 1e-12."""
    return torch.where(x.abs() <= EPSILON, 0.0, 1 / x)


def relu(x: Tensor) -> Tensor:
    """x where x is positive, else 0."""
    return x.clamp(min=0.0)


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e^-x)."""
    return x.sigmoid()


def tanh(x: Tensor) -> Tensor:
    """The hyperbolic tangent of x."""
    return x.tanh()


def div(x: Tensor, y: Tensor) -> Tensor:
    """x / y, and 0 where |y| <= 1e-12."""
    return torch.where(y.abs() <= EPSILON, 0.0, x / y)
