"""Stochastic depth: Huang et al., "Deep Networks with Stochastic Depth", ECCV 2016."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from autoprox.searchspaces import TransformerNetwork
from autoprox.searchspaces.transformer import TransformerBlock


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


def kept_branches(
    network: TransformerNetwork, rates: Mapping[str, float], count: int, generator: torch.Generator
) -> dict[nn.Module, Tensor]:
    """What each branch of so many inputs is multiplied by, drawn in the order of a pass."""
    return {
        branch: _kept(rates[name], count, generator)
        for name, block in network.named_modules()
        if isinstance(block, TransformerBlock) and rates[name] > 0
        for branch in block.branches()
    }


@contextmanager
def weighted_branches(weights: Mapping[nn.Module, Tensor]) -> Iterator[None]:
    """Multiply the outputs of branches, a weight for each input."""
    hooks = [branch.register_forward_hook(partial(_weigh, own)) for branch, own in weights.items()]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _drop(
    rate: float, generator: torch.Generator, branch: nn.Module, inputs: object, output: Tensor
) -> Tensor:
    if not branch.training:
        return output
    return _weigh(_kept(rate, len(output), generator).to(output), branch, inputs, output)


def _weigh(weights: Tensor, branch: nn.Module, inputs: object, output: Tensor) -> Tensor:
    return output * weights.view(-1, *[1] * (output.dim() - 1))


def _kept(rate: float, count: int, generator: torch.Generator) -> Tensor:
    return torch.rand(count, generator=generator).ge(rate) / (1 - rate)
