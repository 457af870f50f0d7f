"""A supernet with entangled weights, as in Chen et al., "AutoFormer", ICCV 2021.

The supernet is the largest network of a space, the parameters of its blocks in the entangled order:
there every parameter of every network of the space is the first entries, in every dimension, of the
parameter of the same name. A subnet is the plain network whose parameters are these views: passes
copy no weight. A gradient is added to the supernet's as soon as a backward pass has it, and let go.
"""

from collections.abc import Iterator
from functools import partial

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
        pairs = zip(self.parameters.values(), self.gradients.split(sizes), strict=True)
        self._gradient_of = {whole: part.view_as(whole) for whole, part in pairs}
        for parameter, gradient in self._gradient_of.items():
            parameter.grad = gradient

    def subnet(self, arch: Architecture) -> TransformerNetwork:
        """A network of the space, its parameters views of the supernet's, gradients added there."""
        self.space.validate(arch)
        network = entangled_network(self.space, arch, self.classes)
        for owner, name, whole, own in self._shared(network):
            part = nn.Parameter(first_entries(whole.detach(), own))
            place = first_entries(self._gradient_of[whole], own)
            part.register_post_accumulate_grad_hook(partial(_move_gradient, place))
            setattr(owner, name, part)
        return network.to(self.gradients.device)

    @torch.no_grad()
    def extract(self, arch: Architecture) -> TransformerNetwork:
        """A plain network of the space with these weights, its own."""
        self.space.validate(arch)
        network = entangled_network(self.space, arch, self.classes)
        for _, _, whole, own in self._shared(network):
            own.copy_(first_entries(whole, own))
        for block in network.transformer_blocks:
            block.reorder(False)
        return network

    def _shared(
        self, network: nn.Module
    ) -> Iterator[tuple[nn.Module, str, nn.Parameter, nn.Parameter]]:
        """Of each parameter the module, its name there, the supernet's parameter, and itself."""
        for place, module in network.named_modules():
            for name, own in list(module.named_parameters(recurse=False)):
                yield module, name, self.parameters[f"{place}.{name}".strip(".")], own


def _move_gradient(place: Tensor, part: Tensor) -> None:
    """Add a parameter's gradient where it belongs."""
    if part.grad is not None:
        place.add_(part.grad)
        part.grad = None
