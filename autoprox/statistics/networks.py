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
from autoprox.files.code import code_digest
from autoprox.language.domains import BLOCK_DOMAINS, parts_of
from autoprox.models.measured_layers import IN_PROJECTION, block_layers, layer_weights
from autoprox.models.model_adapter import evaluating
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
        """The space and how it is written, the choices and the seed."""
        written = code_digest(type(self.space))
        return self.architecture.space, written, self.architecture.digest, self.run_seed

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
        depth = {name: place for place, (name, _) in enumerate(module.named_modules())}
        named = [(name, domain) for domain, names in layers.items() for name in names]
        found = {pair: _layer(module, *pair) for pair in named}
        named.sort(key=lambda pair: depth[pair[0].removesuffix(IN_PROJECTION)])
        self._domains = {name: d for name, d in named if d in BLOCK_DOMAINS}
        self._layers = [(domain, found[name, domain]) for name, domain in named]
        self._named = named
        self._final = module.get_submodule(final_block) if final_block else module

    @cached_property
    def identity(self) -> tuple[str | int, ...]:
        """A hash of the module's text and of all its values."""
        digest = hashlib.sha256(repr(self._module).encode())
        for name, values in self._module.state_dict().items():
            digest.update(f"{name} {values.dtype} {tuple(values.shape)}".encode())
            digest.update(values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        layers = ",".join(f"{domain}:{name}" for name, domain in self._named)
        return digest.hexdigest(), layers, self.seed

    def structure(self) -> Structure:
        """Layers are of the same block where their names say so."""
        groups = block_layers(self._domains).values()
        domains = tuple(tuple(self._domains[name] for name in names) for names in groups)
        return Structure(domains, self._blocks, self._extra(len(domains)))

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
        """The module's own, where it has one."""
        own: Callable[[Tensor], Tensor] | None = getattr(self.module, "ones", None)
        return torch.ones_like(inputs[:1]) if own is None else own(inputs)

    def forward(self, inputs: Tensor) -> Tensor:
        with evaluating(self.module):
            outputs: Tensor = self.module(inputs)
        return outputs


Layered = TransformerNetwork | NamedLayers  # what can be measured


def _layer(module: nn.Module, name: str, domain: str) -> Layer:
    """A layer by its name; one that only has the weight where that has no layer."""
    matrices = layer_weights(module)
    if name.endswith(IN_PROJECTION) and name in matrices:
        rows, columns = matrices[name].shape
        layer = nn.Linear(columns, rows, bias=False, device="meta")
        layer.weight = matrices[name]
        return layer
    found = dict(module.named_modules()).get(name)
    in_block = domain in BLOCK_DOMAINS
    kind = nn.Linear if in_block else Layer
    if not isinstance(found, kind):
        choices = [n for n, part in module.named_modules() if isinstance(part, kind)]
        raise MeasurementError(
            f"a measured layer must be a linear layer{'' if in_block else ' or a convolution'} "
            f"of the module, but got {name!r}; choose from {', '.join(choices)}"
        )
    return found
