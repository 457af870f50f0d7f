"""A supernet, whose weights all networks of a space share, in memory and in a checkpoint.

As in Chen et al., "AutoFormer", ICCV 2021, the supernet is the largest network of a space, with the
parameters of its blocks in entangled order: every parameter of every network of the space is then
the leading slice, in every dimension, of the supernet's parameter of the same name. A subnet is a
plain network whose parameters are views of these slices, so that a pass copies no weight. The
backward pass adds each gradient to the supernet's as soon as it is complete, and frees it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from autoprox.errors import AutoproxError
from autoprox.files.atomic_writes import atomic_file
from autoprox.searchspaces import SPACES, Architecture, SearchSpace, TransformerNetwork

CHECKPOINT_FORMAT = 1
CHECKPOINT_FILE = "supernet.safetensors"
MOST_CLASSES = 10**6


class SupernetError(AutoproxError):
    """A supernet that can't be made, or can't be used in this way."""


def require_entangled(space: SearchSpace) -> None:
    """Raise unless the networks of the space are slices of its largest."""
    if not space.entangled:
        names = ", ".join(name for name, other in SPACES.items() if other.entangled)
        rule = "a supernet needs a space whose networks are slices of the largest"
        raise SupernetError(f"{rule}, which {space.name} is not; choose from {names}")


def leading_slice(tensor: Tensor, like: Tensor) -> Tensor:
    """Return the view of a tensor's first entries that has the shape of another."""
    return tensor[tuple(map(slice, like.shape))]


class Supernet:
    """The largest network of a space, and all the others as slices of it.

    `gradients` holds the gradients of all parameters in one flat tensor.
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
        for parameter, gradient in pairs:
            parameter.grad = gradient.view_as(parameter)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (self.space, self.classes, self.network.state_dict())

    def subnet(self, arch: Architecture) -> TransformerNetwork:
        """Return a network of the space that shares the supernet's weights and gradients."""
        network = self._unset_network(arch)
        for module_name, module in network.named_modules():
            for name, unset in list(module.named_parameters(recurse=False)):
                whole = f"{module_name}.{name}".lstrip(".")
                weight = nn.Parameter(leading_slice(self.parameters[whole].detach(), unset))
                move = partial(_move_gradient, leading_slice(self.gradient(whole), unset))
                weight.register_post_accumulate_grad_hook(move)  # type: ignore[no-untyped-call]
                setattr(module, name, weight)
        return network.to(self.gradients.device)

    def gradient(self, name: str) -> Tensor:
        """Return a parameter's gradient, summed over the backward passes since it was zeroed."""
        gradient = self.parameters[name].grad
        if gradient is None:
            raise RuntimeError("the gradients of a supernet must not be replaced")
        return gradient

    @torch.no_grad()
    def extract(self, arch: Architecture) -> TransformerNetwork:
        """Return a plain network of the space with a copy of these weights."""
        network = self._unset_network(arch)
        for name, weight in network.named_parameters():
            weight.copy_(leading_slice(self.parameters[name], weight))
        for block in network.transformer_blocks:
            block.reorder(False)
        return network

    def _unset_network(self, arch: Architecture) -> TransformerNetwork:
        """Return a network whose parameters are to be set in the entangled order."""
        self.space.validate(arch)
        network = self.space.network(arch, self.classes)
        for block in network.transformer_blocks:
            block.entangled = True
        return network


def _unpickle(space: SearchSpace, classes: int, state: Mapping[str, Tensor]) -> Supernet:
    supernet = Supernet(space, classes, device=next(iter(state.values())).device)
    supernet.network.load_state_dict(state)
    return supernet


def _move_gradient(gradient: Tensor, weight: Tensor) -> None:
    if weight.grad is not None:
        gradient.add_(weight.grad)
        weight.grad = None


@dataclass(frozen=True)
class SupernetCheckpointHeader:
    """The space and classes of a saved supernet, and the epochs and steps of its training."""

    space: str
    classes: int
    epoch: int
    steps: int
    format: int = CHECKPOINT_FORMAT


def write_supernet_checkpoint(
    path: Path, state: Mapping[str, Tensor], header: SupernetCheckpointHeader
) -> None:
    """Write weights and moments to a safetensors file, atomically."""
    tensors = {name: tensor.cpu().contiguous() for name, tensor in state.items()}
    metadata = {name: str(value) for name, value in asdict(header).items()}
    with atomic_file(path) as file:
        file.write(save(tensors, metadata))


def read_supernet_checkpoint(
    path: Path, space: SearchSpace
) -> tuple[dict[str, Tensor], SupernetCheckpointHeader]:
    """Read the state of a supernet of this space, whose options must not have changed since."""
    try:
        with safe_open(path, framework="pt") as file:
            header = _checked_header(path, file.metadata() or {}, space)
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise SupernetError(f"{path} must be a supernet's checkpoint, but {error}") from error
    with torch.device("meta"):
        network = space.network(space.largest(), header.classes)
    for name, parameter in network.named_parameters():
        weight = state.get(f"weight.{name}")
        if weight is None or weight.shape != parameter.shape:
            got = "none" if weight is None else list(weight.shape)
            rule = f"must have {name} of {list(parameter.shape)}, as {space.name} has it now"
            raise SupernetError(f"{path} {rule}, but has {got}")
    return state, header


def _checked_header(
    path: Path, metadata: Mapping[str, str], space: SearchSpace
) -> SupernetCheckpointHeader:
    for name, value in (("format", CHECKPOINT_FORMAT), ("space", space.name)):
        if metadata.get(name) != str(value):
            got = metadata.get(name, "none")
            raise SupernetError(f"{path} must be a checkpoint of {name} {value}, but is of {got}")
    try:
        numbers = {name: int(metadata[name]) for name in ("classes", "epoch", "steps")}
        if min(numbers.values()) < 0 or not 1 <= numbers["classes"] <= MOST_CLASSES:
            raise ValueError(numbers)
    except (KeyError, ValueError) as error:
        rule = f"a checkpoint must say classes, 1 to {MOST_CLASSES}, epoch and steps"
        raise SupernetError(f"{rule}, but {path} says {dict(metadata)}") from error
    return SupernetCheckpointHeader(space.name, **numbers)


def read_supernet(path: Path, space: SearchSpace) -> Supernet:
    """Read the supernet of a checkpoint."""
    state, header = read_supernet_checkpoint(path, space)
    supernet = Supernet(space, header.classes)
    with torch.no_grad():
        for name, parameter in supernet.parameters.items():
            parameter.copy_(state[f"weight.{name}"])
    return supernet
