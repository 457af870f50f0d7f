"""Normalisations: the elements of a matrix, or of a layer vector, relative to one another."""

import math

import torch
from torch import Tensor
from torch.linalg import vector_norm

from .registration import register_operation


def subtract_mean(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """x less its mean: exactly 0 where all elements are equal, however the mean is rounded."""
    first = x
    for dim in dims:
        first = first.narrow(dim, 0, 1)
    shifted = x - first
    return shifted.sub_(shifted.mean(-1, keepdim=True).mean(dims, keepdim=True))


def element_count(x: Tensor, dims: tuple[int, ...]) -> int:
    """The number of elements of each value."""
    return math.prod(x.shape[dim] for dim in dims)


def euclidean_norm(x: Tensor, dims: tuple[int, ...], keepdim: bool = False) -> Tensor:
    """The root of the sum of squares in float64, where the squares of any float32 have room."""
    norm: Tensor = vector_norm(x, 2, dims, keepdim, dtype=torch.float64)
    return norm


def infinite_if_zero(divisor: Tensor) -> Tensor:
    """Replace zeros by infinity: what they divide becomes zero."""
    return divisor.masked_fill(divisor == 0, torch.inf)


@register_operation("normalise", nonnegative=True, idempotent=True)
def min_max(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """(x - min) / (max - min), and 0 where all elements are equal."""
    low = x.amin(dims, keepdim=True)
    spread = x.amax(dims, keepdim=True) - low
    return (x - low).div_(infinite_if_zero(spread))


@register_operation("normalise")
def z_score(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """(x - mean) / population standard deviation, and 0 where all elements are equal."""
    deviation = subtract_mean(x, dims)
    spread = euclidean_norm(deviation, dims, keepdim=True) / math.sqrt(element_count(x, dims))
    return deviation.div_(infinite_if_zero(spread.to(x.dtype)))


@register_operation(
    "normalise",
    latex=r"\operatorname{softmax}_{<row>}\left(<x>\right)",
    text="softmax<row>(<x>)",
    nonnegative=True,
)
def softmax(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The softmax along the rows of a matrix, or over the layers; shifted, so it can't overflow."""
    return x.softmax(dims[-1])


@register_operation(
    "normalise",
    latex=r"\operatorname{logsoftmax}_{<row>}\left(<x>\right)",
    text="log_softmax<row>(<x>)",
)
def log_softmax(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The logarithm of `softmax`, taken before it can underflow."""
    return x.log_softmax(dims[-1])


@register_operation("normalise")
def unit(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """x / the Frobenius norm of x, and 0 where all elements are 0."""
    return x / infinite_if_zero(euclidean_norm(x, dims, keepdim=True).to(x.dtype))
