"""Combinators: operations on the scores of all networks compared."""

import torch
from torch import Tensor

from .registry import register


@register("combinator", nonnegative=True, idempotent=True)
def rank(x: Tensor) -> Tensor:
    """The rank from 1 up among the networks compared, the average of its ranks for a tie.

    A score that isn't finite has no rank (NaN) and takes none from the others.
    """
    unranked = x.isfinite().logical_not()
    scores = x.masked_fill(unranked, torch.inf).contiguous()
    ordered = scores.sort(-1).values
    lower = torch.searchsorted(ordered, scores)
    upper = torch.searchsorted(ordered, scores, right=True)
    return (lower + upper + 1).to(x.dtype).div_(2).masked_fill_(unranked, torch.nan)
