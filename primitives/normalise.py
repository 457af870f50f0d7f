"""Normalisations: the elements of a matrix, or of a layer vector, relative to one another."""

import math

import torch
from torch import Tensor
from torch.linalg import vector_norm

from .registry import register


def centred(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """x less its mean, and exactly 0 where all elements are equal, whatever the mean's rounding."""
    first = x
    for dim in dims:
        first = first.narrow(dim, 0, 1)
    shifted = x - first
    return shifted.sub_(shifted.mean(-1, keepdim=True).mean(dims, keepdim=True))


def root_mean_square(x: Tensor, dims: tuple[int, ...], keepdim: bool = False) -> Tensor:
    """The root of the mean square in float64, where the squares of any float32 have room."""
    count = math.prod(x.shape[dim] for dim in dims)
    return vector_norm(x, 2, dims, keepdim, dtype=torch.float64) / math.sqrt(count)


def _infinite_if_zero(divisor: Tensor) -> Tensor:
    """What a zero divides becomes zero."""
    return divisor.masked_fill(divisor == 0, torch.inf)


@register("normalise", nonnegative=True, idempotent=True)
def min_max(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """(x - min) / (max - min), and 0 where all elements are equal."""
    low = x.amin(dims, keepdim=True)
    spread = x.amax(dims, keepdim=True) - low
    return (x - low).div_(_infinite_if_zero(spread))


@register("normalise")
def z_score(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """(x - mean) / population standard deviation, and 0 where all elements are equal."""
    deviation = centred(x, dims)
    spread = root_mean_square(deviation, dims, keepdim=True).to(x.dtype)
    return deviation.div_(_infinite_if_zero(spread))


@register(
    "normalise",
    latex=r"\operatorname{softmax}_{<row>}\left(<x>\right)",
    text="softmax<row>(<x>)",
    nonnegative=True,
)
def softmax(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The softmax along the rows of a matrix, or over the layers; shifted, so it can't overflow."""
    return x.softmax(dims[-1])


@register(
    "normalise",
    latex=r"\operatorname{logsoftmax}_{<row>}\left(<x>\right)",
    text="log_softmax<row>(<x>)",
)
def log_softmax(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The logarithm of `softmax`, taken before it can underflow."""
    return x.log_softmax(dims[-1])


@register("normalise")
def unit(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """x / the Frobenius norm of x, and 0 where all elements are 0."""
    norm = vector_norm(x, 2, dims, keepdim=True, dtype=torch.float64)
    return x / _infinite_if_zero(norm.to(x.dtype))
