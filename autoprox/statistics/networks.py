"""The networks that are measured: architectures of a space with their seed, or any module."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn

from autoprox.errors import MeasurementError
from autoprox.language.domains import BLOCK_DOMAINS, parts_of
from autoprox.searchspaces import Architecture, Block, SearchSpace, TransformerNetwork
from autoprox.searchspaces.blocks import Layer


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
    extra: tuple[tuple[int, str], ...] = ()  # single domains beside, each before a block or in it

    def layers(self, domain: str) -> list[tuple[str, int | None]]:
        """Of a domain's layers, in depth order: the single domain of each, the block it is in."""
        wanted, found = parts_of(domain), []
        for block, kinds in enumerate((*self.domains, ())):
            before = [kind for place, kind in self.extra if place == block]
            found += [(kind, block if kind == "qkv" else None) for kind in before]
            found += [(kind, block) for kind in kinds]
        return [layer for layer in found if layer[0] in wanted]


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
            network = self.space.build(self.architecture, classes=1)
        return structure_of(network, self.space.blocks(self.architecture))

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


def every_layer(network: Layered) -> list[tuple[str, Layer]]:
    """The layers of each single domain, in depth order."""
    return [*network.layers(), *_extra_layers(network)]


def _extra_layers(network: Layered) -> list[tuple[str, Layer]]:
    """Those of the single domains beside msa and mlp."""
    named = [(_single(domain, layer), layer) for domain, layer in network.extra_layers()]
    known = {id(layer) for _, layer in (*network.layers(), *named)}
    every = (module for module in network.modules() if isinstance(module, Layer))
    return [*(("other", layer) for layer in every if id(layer) not in known), *named]


def _single(domain: str, layer: Layer) -> str:
    """Whether a layer between stages keeps the width, as far as that is a question."""
    if domain != "pool":
        return domain
    rows, columns = layer.weight.shape[:2]
    return "keep" if isinstance(layer, nn.Linear) and rows == columns else "widen"


def structure_of(network: TransformerNetwork, shapes: tuple[Block, ...]) -> Structure:
    """The layers of a network, which may be without values, and its blocks."""
    blocks = network.transformer_blocks
    domains = tuple(tuple(domain for domain, _ in block.linears()) for block in blocks)
    owners = {id(own): i for i, block in enumerate(blocks) for own in block.projections()}
    found, place = [], 0
    for domain, layer in _extra_layers(network):
        index = owners.get(id(layer), place)
        found.append((index, domain))
        place = index + (domain == "qkv")
    return Structure(domains, shapes, tuple(found))


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
        """`layers` are names of submodules by domain; the `ntk` probe needs the final block's.

        Beside ``msa`` and ``mlp`` there may be ``qkv``, ``stem``, ``pool`` and ``head``.
        """
        self.seed = seed
        self._module = module
        self._blocks = tuple(blocks)
        self._layers = [
            (domain, _layer(module, name, domain))
            for domain, names in layers.items()
            for name in names
        ]
        self._final = module.get_submodule(final_block) if final_block else module

    @cached_property
    def identity(self) -> tuple[str | int, ...]:
        """A hash of the module's text and of all its values."""
        digest = hashlib.sha256(repr(self._module).encode())
        for name, values in self._module.state_dict().items():
            digest.update(f"{name} {values.dtype} {tuple(values.shape)}".encode())
            digest.update(values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        names = {id(module): name for name, module in self._module.named_modules()}
        layers = ",".join(f"{domain}:{names[id(layer)]}" for domain, layer in self._layers)
        return digest.hexdigest(), layers, self.seed

    def structure(self) -> Structure:
        """All layers as of one block, unless there are as many of each domain in every block."""
        domains = [domain for domain, _ in self._layers if domain in BLOCK_DOMAINS]
        count = len(self._blocks)
        if not count or any(domains.count(d) % count for d in dict.fromkeys(domains)):
            return Structure((tuple(domains),), self._blocks, self._extra(1))
        own = tuple(d for d in dict.fromkeys(domains) for _ in range(domains.count(d) // count))
        return Structure((own,) * count, self._blocks, self._extra(count))

    def _extra(self, blocks: int) -> tuple[tuple[int, str], ...]:
        """The head after the blocks, the others before the first."""
        named = NamedLayers(self._module, self._layers, self._final)
        kinds = [kind for kind, _ in _extra_layers(named)]
        return tuple((blocks if kind == "head" else 0, kind) for kind in kinds)

    def build(self, device: torch.device) -> Callable[[int], NamedLayers]:
        """The module itself, which must be where it is measured."""
        found = next(self._module.parameters()).device
        if found.type != device.type:
            raise MeasurementError(f"the module must be on {device}, but is on {found}")
        return lambda classes: NamedLayers(self._module, self._layers, self._final)


class NamedLayers(nn.Module):
    """A module, and its layers by domain; without dropout while it runs, its mode put back."""

    def __init__(
        self, module: nn.Module, layers: list[tuple[str, Layer]], final: nn.Module
    ) -> None:
        super().__init__()
        self.module = module
        self._named = layers
        self._final = [final]  # listed, so as not to be a submodule again

    @property
    def final_block(self) -> nn.Module:
        return self._final[0]

    def layers(self) -> list[tuple[str, Layer]]:
        return [(domain, layer) for domain, layer in self._named if domain in BLOCK_DOMAINS]

    def extra_layers(self) -> list[tuple[str, Layer]]:
        return [(domain, layer) for domain, layer in self._named if domain not in BLOCK_DOMAINS]

    def ones(self, inputs: Tensor) -> Tensor:
        return torch.ones_like(inputs[:1])

    def forward(self, inputs: Tensor) -> Tensor:
        with _evaluating(self.module):
            outputs: Tensor = self.module(inputs)
        return outputs


Layered = TransformerNetwork | NamedLayers  # what can be measured


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """Without dropout, and without fused paths, which hooks don't see."""
    modes = {part: part.training for part in module.modules()}
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    module.eval()
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
        for part, training in modes.items():
            part.training = training


def _layer(module: nn.Module, name: str, domain: str) -> Layer:
    try:
        layer = module.get_submodule(name)
    except AttributeError:
        layer = None
    in_block = domain in BLOCK_DOMAINS
    kind = nn.Linear if in_block else Layer
    if not isinstance(layer, kind):
        choices = [n for n, part in module.named_modules() if isinstance(part, kind)]
        raise MeasurementError(
            f"a measured layer must be a linear layer{'' if in_block else ' or a convolution'} "
            f"of the module, but got {name!r}; choose from {', '.join(choices)}"
        )
    return layer
