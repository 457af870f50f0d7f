"""Reductions of the elements of a matrix, or of a layer vector, to one float64.

The last ones, of the kind `pair`, reduce two matrices of a layer, or two layer vectors.
"""

import math

import numpy as np
import torch
from torch import Tensor

from autoprox.primitives.elementwise import apply_by_numpy, exp
from autoprox.primitives.normalisations import (
    element_count,
    euclidean_norm,
    infinite_if_zero,
    subtract_mean,
    unit,
    z_score,
)
from autoprox.primitives.notation import BindingStrength

from .registration import register_operation


def thread_safe_sum(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The sum, partial sums in x's own type; on one thread it doesn't depend on the batch."""
    return x.sum(dims).double()


@register_operation(
    "reduce", latex=r"\sum_{<axis>} <x:SERIES>", text="∑<axis> <x>", binding=BindingStrength.SERIES
)
def sum_(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The sum of all elements."""
    return thread_safe_sum(x, dims)


@register_operation("reduce")
def mean(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The mean of all elements."""
    return thread_safe_sum(x, dims) / element_count(x, dims)


@register_operation("reduce", mirrored=True, nonnegative=True)
def std(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The population standard deviation of all elements."""
    return euclidean_norm(subtract_mean(x, dims), dims) / math.sqrt(element_count(x, dims))


@register_operation("reduce", mirrored=True, nonnegative=True)
def var(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The population variance of all elements."""
    return std(x, dims).square_()


@register_operation("reduce")
def skewness(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The mean of the cubes of `z_score`."""
    return mean(z_score(x, dims).pow_(3), dims)


@register_operation("reduce", mirrored=True, nonnegative=True)
def kurtosis(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The mean of the fourth powers of `z_score`: 3 for a normal distribution."""
    return mean(z_score(x, dims).square_().square_(), dims)


@register_operation(
    "reduce",
    latex=r"\left\Vert <x>\right\Vert_{1}",
    text="‖<x>‖₁",
    even=True,
    nonnegative=True,
    of_magnitude=thread_safe_sum,
)
def l1_norm(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The sum of |x|."""
    return thread_safe_sum(x.abs(), dims)


@register_operation(
    "reduce", latex=r"\left\Vert <x>\right\Vert_{F}", text="‖<x>‖_F", even=True, nonnegative=True
)
def frobenius_norm(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The square root of the sum of squares, which can't overflow from float32."""
    return euclidean_norm(x, dims)


@register_operation("reduce")
def logsumexp(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The natural logarithm of the sum of e^x; shifted by the largest x, so it can't overflow."""
    peak = x.amax(dims, keepdim=True)
    return thread_safe_sum(exp(x - peak), dims).log_().add_(peak.double().squeeze(dims))


@register_operation("reduce", latex=r"\max_{<axis>}\left(<x>\right)")
def max_(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The largest element."""
    return x.amax(dims).double()


@register_operation("reduce", latex=r"\min_{<axis>}\left(<x>\right)")
def min_(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The smallest element."""
    return x.amin(dims).double()


@register_operation(
    "reduce",
    plain=lambda x, dims: (
        x.double()
        .flatten(-len(dims))
        .sort(-1)
        .values[..., [(element_count(x, dims) - 1) // 2, element_count(x, dims) // 2]]
        .mean(-1)
    ),
)
def median(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The middle element in order, or the mean of the two in the middle."""
    elements = x.flatten(-len(dims))
    if x.device.type == "cpu":  # one selection by numpy is faster than two by torch
        with np.errstate(invalid="ignore"):
            return torch.as_tensor(np.median(elements.numpy(), -1), dtype=torch.float64)
    lower, upper = elements.median(-1).values, -(-elements).median(-1).values
    return (lower.double() + upper.double()) / 2


@register_operation(
    "reduce",
    even=True,
    nonnegative=True,
    plain=lambda x, dims: (
        torch.special.entr((x.abs() / x.abs().sum(dims, keepdim=True)).nan_to_num(0.0))
        .sum(dims)
        .double()
    ),
)
def entropy(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """-sum(p ln p), where p is |x| over the sum of |x|; 0 if all elements are 0."""
    part = x.abs()
    part /= infinite_if_zero(part.sum(dims, keepdim=True))
    logarithm = part + torch.finfo(x.dtype).tiny
    return thread_safe_sum(apply_by_numpy(np.log, logarithm, logarithm).mul_(part).neg_(), dims)


@register_operation("reduce", even=True, nonnegative=True)
def sparsity(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Hoyer's (√n - l1 / l2) / (√n - 1) of n elements: 0 for equal |x|, 1 for a single nonzero x.

    It is 0 if all elements are 0, or if n is 1.
    """
    root = math.sqrt(element_count(x, dims))
    norm = euclidean_norm(x, dims)
    if root == 1:
        return norm * 0
    spread = x.abs().sum(dims, dtype=torch.float64) / infinite_if_zero(norm)
    return ((root - spread) / (root - 1)).clamp_(min=0.0).masked_fill_(norm == 0, 0.0)


@register_operation(
    "pair", latex=r"\left\langle <x>, <y>\right\rangle", text="dot<axis>(<x>)", commutative=True
)
def dot(x: Tensor, y: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The sum of the products of elements."""
    return thread_safe_sum(x * y, dims)


@register_operation("pair", latex=r"\cos\left(<x>, <y>\right)", commutative=True)
def cosine(x: Tensor, y: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The `dot` of both divided by their norms, and 0 if one of them is all zeros."""
    return dot(unit(x, dims), unit(y, dims), dims)


@register_operation(
    "pair",
    latex=r"\left\Vert <x> - <y:SERIES>\right\Vert_{F}",
    text="distance<axis>(<x>)",
    commutative=True,
    nonnegative=True,
)
def distance(x: Tensor, y: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The Frobenius norm of x - y."""
    return euclidean_norm(x - y, dims)


@register_operation("pair", latex=r"\operatorname{corr}\left(<x>, <y>\right)", commutative=True)
def correlation(x: Tensor, y: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Pearson's correlation of the elements, and 0 if all elements of one are equal."""
    return cosine(subtract_mean(x, dims), subtract_mean(y, dims), dims)
