"""The networks that are measured: architectures of a space with their seed, or any module."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from autoprox.errors import MeasurementError
from autoprox.models.foreign import evaluating
from autoprox.models.layers import IN_PROJECTION, blocks, weights
from autoprox.searchspaces import Architecture, Block, SearchSpace, TransformerNetwork


class Shape(NamedTuple):
    """The structure of a block of any module."""

    width: int
    tokens: int
    heads: int


@dataclass(frozen=True)
class Structure:
    """What is known of a network before its weights: of one that can't be built, nothing."""

    domains: tuple[tuple[str, ...], ...] = ()  # of each block's linear layers, in depth order
    blocks: tuple[Block | Shape, ...] = ()


class UntrainedNetwork(Protocol):
    """A network to be measured."""

    @property
    def identity(self) -> Sequence[str | int]:
        """All that its weights depend on, but for the classes of its head."""

    @property
    def seed(self) -> int:
        """Seeds what is random in measuring it."""

    def structure(self) -> Structure:
        """Its layers and blocks, without building the weights."""

    def build(self, device: torch.device) -> Callable[[int], Layered]:
        """Build it once; the result gives it a head for so many classes."""


@dataclass(frozen=True)
class SpaceNetwork:
    """An architecture of a space, initialised by the space's rule from a seed."""

    space: SearchSpace
    architecture: Architecture
    run_seed: int = 0

    @property
    def identity(self) -> tuple[str | int, ...]:
        """The space, the choices and the seed."""
        return self.architecture.space, self.architecture.digest, self.run_seed

    @cached_property
    def seed(self) -> int:
        """Seeds the weights: a network is the same whichever others it is compared with."""
        digest = hashlib.sha256(f"{self.run_seed}:{self.architecture.digest}".encode()).digest()
        return int.from_bytes(digest[:7], "big")

    def structure(self) -> Structure:
        """From a network on torch's meta device."""
        with torch.device("meta"):
            blocks = self.space.build(self.architecture, classes=1).transformer_blocks
        domains = tuple(tuple(domain for domain, _ in block.linears()) for block in blocks)
        return Structure(domains, self.space.blocks(self.architecture))

    def build(self, device: torch.device) -> Callable[[int], TransformerNetwork]:
        """The network; each head is the one that building with these classes would give."""
        network = self.space.build(self.architecture, classes=1, seed=self.seed).to(device)

        def prepare(classes: int) -> TransformerNetwork:
            network.reset_head(classes, self.seed)
            return network

        return prepare


def space_networks(
    space: SearchSpace, architectures: Sequence[Architecture], seed: int = 0
) -> list[SpaceNetwork]:
    """The untrained networks of these architectures."""
    return [SpaceNetwork(space, architecture, seed) for architecture in architectures]


class ModuleNetwork:
    """Any module with linear layers, measured as it is: its head must fit the classes."""

    def __init__(
        self,
        module: nn.Module,
        layers: Mapping[str, Sequence[str]],
        blocks: Sequence[Shape] = (),
        *,
        final_block: str | None = None,
        seed: int = 0,
    ) -> None:
        """`layers` are names of submodules by domain; the `ntk` probe needs the final block's."""
        self.seed = seed
        self._module = module
        self._blocks = tuple(blocks)
        named = {name: domain for domain, names in layers.items() for name in names}
        linear = {name: _linear(module, name) for name in named}
        depth = {name: place for place, name in enumerate(weights(module))}
        self._domains = {name: named[name] for name in sorted(named, key=depth.__getitem__)}
        self._layers = [(domain, linear[name]) for name, domain in self._domains.items()]
        self._final = module.get_submodule(final_block) if final_block else module

    @cached_property
    def identity(self) -> tuple[str | int, ...]:
        """A hash of the module's text and of all its values."""
        digest = hashlib.sha256(repr(self._module).encode())
        for name, values in self._module.state_dict().items():
            digest.update(f"{name} {values.dtype} {tuple(values.shape)}".encode())
            digest.update(values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        layers = ",".join(f"{domain}:{name}" for name, domain in self._domains.items())
        return digest.hexdigest(), layers, self.seed

    def structure(self) -> Structure:
        """Layers are of the same block where their names say so."""
        groups = blocks(self._domains).values()
        domains = tuple(tuple(self._domains[name] for name in names) for names in groups)
        return Structure(domains, self._blocks)

    def build(self, device: torch.device) -> Callable[[int], NamedLayers]:
        """The module itself, which must be where it is measured."""
        found = next(self._module.parameters()).device
        if found.type != device.type:
            raise MeasurementError(f"the module must be on {device}, but is on {found}")
        return lambda classes: NamedLayers(self._module, self._layers, self._final)


class NamedLayers(nn.Module):
    """A module, and its layers by domain; without dropout while it runs, its mode put back."""

    def __init__(
        self, module: nn.Module, layers: list[tuple[str, nn.Linear]], final: nn.Module
    ) -> None:
        super().__init__()
        self.module = module
        self._named = layers
        self._final = [final]  # listed, so as not to be a submodule again

    @property
    def final_block(self) -> nn.Module:
        return self._final[0]

    def layers(self) -> list[tuple[str, nn.Linear]]:
        return self._named

    def ones(self, inputs: Tensor) -> Tensor:
        """The module's own, where it has one."""
        own: Callable[[Tensor], Tensor] | None = getattr(self.module, "ones", None)
        return torch.ones_like(inputs[:1]) if own is None else own(inputs)

    def forward(self, inputs: Tensor) -> Tensor:
        with evaluating(self.module):
            outputs: Tensor = self.module(inputs)
        return outputs


Layered = TransformerNetwork | NamedLayers  # what can be measured


def _linear(module: nn.Module, name: str) -> nn.Linear:
    """A linear layer by its name; one that only has the weight where that has no layer."""
    matrices = weights(module)
    if name.endswith(IN_PROJECTION) and name in matrices:
        rows, columns = matrices[name].shape
        layer = nn.Linear(columns, rows, bias=False, device="meta")
        layer.weight = matrices[name]
        return layer
    found = dict(module.named_modules()).get(name)
    if not isinstance(found, nn.Linear):
        linear = [n for n, part in module.named_modules() if isinstance(part, nn.Linear)]
        raise MeasurementError(
            f"a measured layer must be a linear layer of the module, but got {name!r}; "
            f"choose from {', '.join(linear)}"
        )
    return found
