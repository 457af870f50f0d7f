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


def cbrt(x: Tensor) -> Tensor:
    """The cube root of x, which has its sign."""
    return x.sign() * x.abs().pow(1 / 3)


def log1p(x: Tensor) -> Tensor:
    """The natural logarithm of 1 + |x|."""
    return x.abs().log1p()


def median(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The middle element in order, or the mean of the two in the middle."""
    ordered = x.double().flatten(-len(dims)).sort(-1).values
    count = ordered.shape[-1]
    return (ordered[..., (count - 1) // 2] + ordered[..., count // 2]) / 2


def entropy(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """-sum(p ln p), where p is |x| over the sum of |x|; 0 for zeros only."""
    part = x.abs() / x.abs().sum(dims, keepdim=True)
    entropies: Tensor = torch.special.entr(part.nan_to_num(0.0))
    return entropies.sum(dims).double()


def softplus(x: Tensor) -> Tensor:
    """ln(1 + e^x), as max(0, x) + ln(1 + e^-|x|), so that it can't overflow."""
    return relu(x) + x.abs().neg().exp().log1p()


def power(x: Tensor, y: Tensor) -> Tensor:
    """|x| to the power of y, by way of `exp` and `log`: e^(y ln(|x| + 1e-12)), at most e^30."""
    return exp(log(x) * y)


def pow_(x: Tensor, y: Tensor) -> Tensor:
    """|x| to the power of y, and 0 where |x| <= 1e-12 and y is negative; finite where x and y are.

    A power beyond the largest number of the format is that number.
    """
    raised = x.abs().pow(y).clamp(max=torch.finfo(x.dtype).max)
    return torch.where((x.abs() <= EPSILON) & (y < 0), 0.0, raised)
