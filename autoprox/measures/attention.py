"""Attention in the open: what a call of the fused kernel computes, and its calls caught.

The fused kernel gives neither its weights nor derivatives of second order or in forward mode.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode


class CaughtAttention(TorchFunctionMode):
    """Hands every call of `scaled_dot_product_attention` to a function of the same arguments."""

    def __init__(self, attend: Callable[..., Tensor]) -> None:
        super().__init__()
        self.attend = attend

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Every call of a torch function, in place of which this one's value is taken."""
        called = self.attend if func is functional.scaled_dot_product_attention else func
        return called(*args, **(kwargs or {}))


def attention_weights(
    query: Tensor,
    key: Tensor,
    attn_mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """The part of each key [..., keys] in what each query [..., queries, dim] is given."""
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None:
        is_bool = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -torch.inf) if is_bool else scores + attn_mask
    return scores.softmax(-1)


def explicit_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """`scaled_dot_product_attention` by operations that have all derivatives."""
    return attention_weights(query, key, attn_mask, is_causal=is_causal, scale=scale) @ value
