"""Stochastic depth: Huang et al., "Deep Networks with Stochastic Depth", ECCV 2016."""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor, nn

from autoprox.searchspaces import TransformerNetwork
from autoprox.searchspaces.blocks import TransformerBlock


def drop_rates(network: TransformerNetwork, greatest: float) -> dict[str, float]:
    """How often the branches of each block are left out: the later, the more often."""
    names = [name for name, part in network.named_modules() if isinstance(part, TransformerBlock)]
    last = max(1, len(names) - 1)
    return {name: greatest * place / last for place, name in enumerate(names)}


def drop_branches(
    network: TransformerNetwork, rates: Mapping[str, float], generator: torch.Generator
) -> None:
    """Let a network in training leave out the branches of its blocks, for each input anew."""
    for name, block in network.named_modules():
        if isinstance(block, TransformerBlock) and rates[name] > 0:
            for branch in block.branches():
                branch.register_forward_hook(partial(_drop, rates[name], generator))


def _drop(
    rate: float, generator: torch.Generator, branch: nn.Module, inputs: object, output: Tensor
) -> Tensor:
    if not branch.training:
        return output
    kept = torch.rand(len(output), generator=generator).ge(rate).to(output) / (1 - rate)
    return output * kept.view(-1, *[1] * (output.dim() - 1))
