"""Operations along the depth of a network, on the numbers of its layers in their order."""

import torch
from torch import Tensor

from .registration import register_operation


@register_operation("depth")
def difference(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The number of each layer minus that of the previous layer, and 0 for the first."""
    return x.diff(dim=-1, prepend=x.narrow(-1, 0, 1))


@register_operation("depth")
def cumulative_sum(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The sum over the layers up to each."""
    return torch.cumsum(x, -1)


@register_operation("reduce", levels=("layers",))
def last(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """The number of the last layer."""
    return x.select(-1, -1).double()
