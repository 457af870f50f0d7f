"""A supernet with entangled weights, as in Chen et al., "AutoFormer", ICCV 2021.

The supernet is the largest network of a space, the parameters of its blocks in the entangled order:
there every parameter of every network of the space is the first entries, in every dimension, of the
parameter of the same name. A subnet is the plain network whose parameters are these views: passes
copy no weight. A gradient is added to the supernet's as soon as a backward pass has it, and let go.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from autoprox.errors import AutoproxError
from autoprox.searchspaces import SPACES, Architecture, SearchSpace, TransformerNetwork


class SupernetError(AutoproxError):
    """A supernet that can't be made, or not be used so."""


def require_entangled(space: SearchSpace) -> None:
    """Raise unless the networks of the space are slices of one."""
    if not space.entangled:
        names = ", ".join(name for name, other in SPACES.items() if other.entangled)
        rule = "a supernet needs a space whose networks are slices of the largest"
        raise SupernetError(f"{rule}, which {space.name} is not; choose from {names}")


def entangled_network(space: SearchSpace, arch: Architecture, classes: int) -> TransformerNetwork:
    """A network whose parameters are unset, and to be set in the entangled order."""
    network = space.network(arch, classes)
    for block in network.transformer_blocks:
        block.entangled = True
    return network


def first_entries(whole: Tensor, part: Tensor) -> Tensor:
    """As many of the first entries as the part has, in every dimension: a view."""
    return whole[tuple(map(slice, part.shape))]


class Supernet:
    """The largest network of a space, and all the others in it.

    `gradients` holds the gradients of all parameters, one after the other.
    """

    def __init__(
        self, space: SearchSpace, classes: int, seed: int = 0, device: torch.device | str = "cpu"
    ) -> None:
        require_entangled(space)
        self.space = space
        self.classes = classes
        self.network = space.build(space.largest(), classes, seed)
        for block in self.network.transformer_blocks:
            block.reorder(True)
        self.network.to(device)
        self.parameters = dict(self.network.named_parameters())
        sizes = [parameter.numel() for parameter in self.parameters.values()]
        self.gradients = torch.zeros(sum(sizes), device=device)
        pairs = zip(self.parameters.values(), torch.split(self.gradients, sizes), strict=True)
        for parameter, part in pairs:
            parameter.grad = part.view_as(parameter)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.space, self.classes, self.network.state_dict())

    def subnet(self, arch: Architecture) -> TransformerNetwork:
        """A network of the space, its parameters views of the supernet's, gradients added there."""
        self.space.validate(arch)
        network = entangled_network(self.space, arch, self.classes)
        for place, name, own in _named(network):
            whole = f"{place}.{name}".lstrip(".")
            part = nn.Parameter(first_entries(self.parameters[whole].detach(), own))
            gradient = first_entries(self.gradient(whole), own)
            move = partial(_move_gradient, gradient)
            part.register_post_accumulate_grad_hook(move)  # type: ignore[no-untyped-call]
            setattr(network.get_submodule(place), name, part)
        return network.to(self.gradients.device)

    def gradient(self, name: str) -> Tensor:
        """The gradient of a parameter, as the backward passes since it was last zero add up."""
        gradient = self.parameters[name].grad
        if gradient is None:
            raise RuntimeError("the gradients of a supernet must not be replaced")
        return gradient

    @torch.no_grad()
    def extract(self, arch: Architecture) -> TransformerNetwork:
        """A plain network of the space with these weights, its own."""
        self.space.validate(arch)
        network = entangled_network(self.space, arch, self.classes)
        for name, own in network.named_parameters():
            own.copy_(first_entries(self.parameters[name], own))
        for block in network.transformer_blocks:
            block.reorder(False)
        return network


def _restored(space: SearchSpace, classes: int, state: Mapping[str, Tensor]) -> Supernet:
    """A supernet with these weights, in another process."""
    supernet = Supernet(space, classes, device=next(iter(state.values())).device)
    supernet.network.load_state_dict(state)
    return supernet


def _named(network: nn.Module) -> list[tuple[str, str, nn.Parameter]]:
    """Each parameter with the name of its module, and its own there."""
    return [
        (place, name, parameter)
        for place, module in network.named_modules()
        for name, parameter in module.named_parameters(recurse=False)
    ]


def _move_gradient(gradient: Tensor, part: Tensor) -> None:
    """Add a parameter's gradient where it belongs."""
    if part.grad is not None:
        gradient.add_(part.grad)
        part.grad = None
