"""The four terms of AZ-NAS, measured of the blocks' outputs, and their combination.

The paper's primary blocks are the transformer blocks here; its code for AutoFormer also takes the
features between a block's attention and its MLP.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from autoprox.zoo.functions.activation_proxies import principal_variances
from autoprox.zoo.functions.function_proxy_registration import register_function
from autoprox.zoo.functions.rank_combinations import register_rank_combination
from autoprox.zoo.functions.shared_network_passes import SharedNetworkPasses, UnfusedAttention

AZ_NAS = (
    "Lee and Ham, AZ-NAS: Assembling Zero-Cost Proxies for Network Architecture Search, CVPR 2024"
)
ZERO_NORM = 1e-6  # keeps the score of a spectral norm of zero finite, as in the published code


def _block_entropies(passes: SharedNetworkPasses) -> list[float]:
    """Return the entropy of the principal components of each block's output features."""
    entropies = []
    for _, output in passes.forward.block_values:
        variances = principal_variances(output.detach().flatten(0, -2))
        total = variances.sum()
        shares = variances / total if total else variances
        entropies.append(float(torch.special.entr(shares).sum()))
    return entropies


@register_function(
    "az-nas-expressivity",
    f"{AZ_NAS}, eq. 3 and 4",
    "∑ₗ -∑ᵢ λₗᵢ log λₗᵢ, λₗ the shares of the variance of block l's features along their principal "
    "components",
    needs=("forward",),
    trunk=True,
)
def expressivity(passes: SharedNetworkPasses) -> float:
    """How evenly the features of all tokens fill the dimensions of each block's output.

    The entropy of a block whose features don't vary is 0.
    """
    return sum(_block_entropies(passes))


@register_function(
    "az-nas-progressivity",
    f"{AZ_NAS}, eq. 5",
    "minₗ Eₗ - Eₗ₋₁, Eₗ the entropy of block l in az-nas-expressivity",
    needs=("forward",),
    trunk=True,
)
def progressivity(passes: SharedNetworkPasses) -> float:
    """The smallest growth of the entropy from a block to the next; a single block has none.

    The paper doesn't use it for vision transformers, so `az-nas` doesn't include it.
    """
    entropies = _block_entropies(passes)
    growth = [after - before for before, after in pairwise(entropies)]
    return min(growth, default=math.nan)


@register_function(
    "az-nas-trainability",
    f"{AZ_NAS}, eq. 11",
    "Eₗ -σₗ - 1 / σₗ + 2, σₗ the spectral norm of E gᵢₙ gₒᵤₜᵀ, gᵢₙ = Jₗᵀ gₒᵤₜ",
    needs=("forward",),
    trunk=True,
)
def trainability(passes: SharedNetworkPasses) -> float:
    """How close to 1 the spectral norm of each block's Jacobian is; 0 is best.

    The Jacobian Jₗ of a token's output by its input is estimated from random signs gₒᵤₜ, drawn by
    the seed; the expectation is the mean over all tokens of all samples. The paper starts with the
    second block, and counts the pooling between stages as part of the block after it. Here each
    block is measured by itself, from its own input, so networks with one block have a score too.
    Blocks that merge tokens are left out.
    """
    generator = torch.Generator().manual_seed(passes.seed)
    scores = []
    for input_, output in passes.forward.block_values:
        if input_.shape[:-1] == output.shape[:-1]:
            signs = torch.randint(0, 2, output.shape, generator=generator) * 2.0 - 1.0
            signs = signs.to(output)
            (gradient,) = torch.autograd.grad(output, input_, signs, retain_graph=True)
            scores.append(_closeness_to_one(gradient.flatten(0, -2), signs.flatten(0, -2)))
    return sum(scores) / len(scores) if scores else math.nan


def _closeness_to_one(before: Tensor, after: Tensor) -> float:
    """Return a block's score from gradients [tokens, features] by its input and its output."""
    jacobian = before.double().mT @ after.double() / len(before)
    norm = float(torch.linalg.matrix_norm(jacobian, 2))
    return 2 - norm - 1 / (norm + ZERO_NORM)


@register_function(
    "az-nas-complexity",
    f"{AZ_NAS}, section 3.1",
    "FLOPs, the multiply-accumulates of a forward pass of one sample",
)
def complexity(passes: SharedNetworkPasses) -> float:
    """The multiply-accumulates of linear layers, convolutions and products of attention.

    They are counted for a sample of the batch; `flops` counts those of a sequence of full length.
    """
    with torch.no_grad(), UnfusedAttention(), _FlopCounter() as counter:
        functional_call(passes.network, passes.parameters, (passes.source[:1],))
    return float(counter.total / 2)


class _FlopCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts what this thread computes, by torch's formulas; its own counter hooks all threads."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Called for every operation."""
        value = func(*args, **(kwargs or {}))
        if (count := flop_registry.get(func._overloadpacket)) is not None:
            self.total += count(*args, **(kwargs or {}), out_val=value)
        return value


register_rank_combination(
    "az-nas",
    f"{AZ_NAS}, eq. 12",
    "∑ₖ log(rank(sₖ) / n), sₖ the expressivity, the trainability and the complexity",
    ("az-nas-expressivity", "az-nas-trainability", "az-nas-complexity"),
    "Networks that rank high by all terms score high; n networks are compared. As in the paper for "
    "vision transformers, the progressivity is left out.",
)
