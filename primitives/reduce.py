"""Reductions: the elements of a matrix, or of a layer vector, to one float64."""

import math

import torch
from torch import Tensor
from torch.linalg import eigvalsh
from torch.nn.functional import pad

from .maps import exp
from .normalise import centred, count, euclidean
from .notation import Binding
from .registry import register


def _total(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The sum, partial sums in x's own type; on one thread the same whatever shares the call."""
    return x.sum(dims).double()


def _singular_values(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The singular values of each matrix, padded with zeros; NaN where their squares overflow.

    They are the square roots of the eigenvalues of the smaller Gram matrix in float64, which is
    faster than an SVD. An eigenvalue below the rounding error of the largest (a singular value
    below some 1e-7 of the largest) counts as 0, or it would depend on the machine.
    """
    matrix = x.double() if len(dims) == 2 else x.double().unsqueeze(-1)
    rows, columns = matrix.shape[-2:]
    if 1 in (rows, columns):
        return euclidean(matrix, (-2, -1)).unsqueeze(-1)
    # Aligned rows: else a matrix's last bits depend on what is before it in the batch.
    matrix = pad(matrix, (0, -columns % 8, 0, -rows % 8))
    wide = matrix if rows <= columns else matrix.mT
    gram = wide @ wide.mT
    # One matrix that isn't finite would make all of them raise.
    overflow = gram.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True).isfinite().logical_not()
    squares: Tensor = eigvalsh(gram.masked_fill_(overflow.unsqueeze(-1), 0.0))
    noise = squares.amax(-1, keepdim=True) * (min(rows, columns) * torch.finfo(torch.float64).eps)
    return squares.masked_fill_(squares <= noise, 0.0).sqrt_().masked_fill_(overflow, torch.nan)


@register("reduce", latex=r"\sum_{<axis>} <x:SERIES>", text="∑<axis> <x>", binding=Binding.SERIES)
def sum_(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The sum of all elements."""
    return _total(x, dims)


@register("reduce")
def mean(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The mean of all elements."""
    return _total(x, dims) / count(x, dims)


@register("reduce", mirrored=True, nonnegative=True)
def std(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The population standard deviation of all elements."""
    return euclidean(centred(x, dims), dims) / math.sqrt(count(x, dims))


@register(
    "reduce",
    latex=r"\left\Vert <x>\right\Vert_{1}",
    text="‖<x>‖₁",
    even=True,
    nonnegative=True,
    of_magnitude=_total,
)
def l1_norm(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The sum of |x|."""
    return _total(x.abs(), dims)


@register(
    "reduce", latex=r"\left\Vert <x>\right\Vert_{F}", text="‖<x>‖_F", even=True, nonnegative=True
)
def frobenius_norm(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The square root of the sum of squares, which can't overflow from float32."""
    return euclidean(x, dims)


@register(
    "reduce", latex=r"\left\Vert <x>\right\Vert_{*}", text="‖<x>‖⋆", mirrored=True, nonnegative=True
)
def nuclear_norm(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The sum of singular values; a layer vector counts as a matrix of one column."""
    return _singular_values(x, dims).sum(-1)


@register("reduce")
def logsumexp(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The natural logarithm of the sum of e^x; shifted by the largest x, so it can't overflow."""
    peak = x.amax(dims, keepdim=True)
    return _total(exp(x - peak), dims).log_().add_(peak.double().squeeze(dims))


@register(
    "reduce",
    latex=r"\operatorname{erank}\left(<x>\right)",
    text="effective_rank(<x>)",
    mirrored=True,
    nonnegative=True,
)
def effective_rank(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """e to the entropy of the normalised singular values (Roy & Vetterli), and 0 for zeros only."""
    values = _singular_values(x, dims)
    total = values.sum(-1, keepdim=True)
    share = values / total.masked_fill(total == 0, torch.inf)
    rank: Tensor = torch.special.entr(share).sum(-1).exp_()
    return rank.masked_fill_(total.squeeze(-1) == 0, 0.0)
