"""Reductions of the singular values of a matrix, computed once for all of them, to one float64.

A layer vector has a single one, its norm: these are operations on matrices alone.
"""

from functools import partial

import torch
from torch import Tensor
from torch.linalg import eigvalsh
from torch.nn.functional import pad

from autoprox.primitives.normalisations import euclidean_norm, infinite_if_zero

from .elementwise import log1p
from .registration import register_operation


def singular_values(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The singular values of each matrix, padded with zeros; NaN where their squares overflow.

    They are the square roots of the eigenvalues of the smaller Gram matrix in float64, which is
    faster than an SVD. An eigenvalue below the rounding error of the largest (a singular value
    below some 1e-7 of the largest) counts as 0, or it would depend on the machine.
    """
    matrix = x.double() if len(dims) == 2 else x.double().unsqueeze(-1)
    rows, columns = matrix.shape[-2:]
    if 1 in (rows, columns):
        return euclidean_norm(matrix, (-2, -1)).unsqueeze(-1)
    # Aligned rows: else a matrix's last bits depend on what is before it in the batch.
    matrix = pad(matrix, (0, -columns % 8, 0, -rows % 8))
    wide = matrix if rows <= columns else matrix.mT
    gram = wide @ wide.mT
    # One matrix that isn't finite would make all of them raise.
    overflow = gram.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True).isfinite().logical_not()
    squares: Tensor = eigvalsh(gram.masked_fill_(overflow.unsqueeze(-1), 0.0))
    noise = squares.amax(-1, keepdim=True) * (min(rows, columns) * torch.finfo(torch.float64).eps)
    return squares.masked_fill_(squares <= noise, 0.0).sqrt_().masked_fill_(overflow, torch.nan)


register_spectral_reduction = partial(
    register_operation,
    "reduce",
    mirrored=True,
    nonnegative=True,
    shared=singular_values,
    levels=("matrix",),
)


@register_spectral_reduction(
    latex=r"\left\Vert <x>\right\Vert_{*}", text="‖<x>‖⋆", formerly=("layers",)
)
def nuclear_norm(values: Tensor) -> Tensor:
    """The sum of singular values."""
    return values.sum(-1)


@register_spectral_reduction(latex=r"\left\Vert <x>\right\Vert_{2}", text="‖<x>‖₂")
def spectral_norm(values: Tensor) -> Tensor:
    """The largest singular value."""
    return values.amax(-1)


@register_spectral_reduction(
    latex=r"\operatorname{erank}\left(<x>\right)", text="effective_rank(<x>)", formerly=("layers",)
)
def effective_rank(values: Tensor) -> Tensor:
    """e to the entropy of the normalised singular values (Roy & Vetterli); 0 for a zero matrix."""
    total = values.sum(-1, keepdim=True)
    rank: Tensor = torch.special.entr(values / infinite_if_zero(total)).sum(-1).exp_()
    return rank.masked_fill_(total.squeeze(-1) == 0, 0.0)


@register_spectral_reduction(latex=r"\operatorname{srank}\left(<x>\right)", text="stable_rank(<x>)")
def stable_rank(values: Tensor) -> Tensor:
    """The sum of squared singular values over the largest of them, and 0 for a zero matrix."""
    largest = infinite_if_zero(values.amax(-1, keepdim=True))
    return (values / largest).square_().sum(-1)


@register_spectral_reduction(
    latex=r"\operatorname{prank}\left(<x>\right)", text="participation_ratio(<x>)"
)
def participation_ratio(values: Tensor) -> Tensor:
    """(sum of s^2)^2 / (sum of s^4) of the singular values s, and 0 for a zero matrix."""
    largest = infinite_if_zero(values.amax(-1, keepdim=True))
    squares = (values / largest).square_()
    return squares.sum(-1).square_() / infinite_if_zero(squares.square().sum(-1))


@register_spectral_reduction(latex=r"\operatorname{logdet}\left(<x>\right)", text="log_det(<x>)")
def log_det(values: Tensor) -> Tensor:
    """ln(det(1 + X X^T)), the sum of ln(1 + s^2) over the singular values s."""
    return log1p(values.square()).sum(-1)
