"""Networks that are measured: architectures of a space with a seed, or any module."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from autoprox.errors import MeasurementError
from autoprox.files.function_import_and_digest import code_digest
from autoprox.language.layer_domains import BLOCK_DOMAINS, DOMAINS, single_domains_of
from autoprox.models.measured_layers import IN_PROJECTION, block_layers, layer_weights
from autoprox.models.model_adapter import evaluation_mode
from autoprox.searchspaces import Architecture, BlockSpec, SearchSpace, TransformerNetwork
from autoprox.searchspaces.shared_draws import SharedDraws, space_draws
from autoprox.searchspaces.transformer import Layer


class BlockShape(NamedTuple):
    """The structure of a block of any module."""

    width: int
    tokens: int
    heads: int


@dataclass(frozen=True)
class NetworkStructure:
    """The layers and blocks of a network; a network that can't be built has none."""

    domains: tuple[tuple[str, ...], ...] = ()  # of each block's linear layers, in depth order
    blocks: tuple[BlockSpec | BlockShape, ...] = ()
    extra: tuple[tuple[int, str], ...] = ()  # other single domains, each before or in a block

    def layers(self, domain: str) -> list[tuple[str, int | None]]:
        """Return the single domain and the block of each of a domain's layers, in depth order."""
        found: list[tuple[str, int | None]] = []
        for block, kinds in enumerate((*self.domains, ())):
            before = [kind for place, kind in self.extra if place == block]
            found += [(kind, block if kind == "qkv" else None) for kind in before]
            found += [(kind, block) for kind in kinds]
        return [layer for layer in found if layer[0] in single_domains_of(domain)]


@dataclass(frozen=True)
class LayerTable:
    """The layers of several networks in one row for each domain."""

    structures: tuple[NetworkStructure, ...]

    @cached_property
    def starts(self) -> dict[str, np.ndarray]:
        """The first index of each network's layers, [networks + 1], for each domain and block."""
        kinds = [
            Counter([*(d for block in s.domains for d in block), *(kind for _, kind in s.extra)])
            for s in self.structures
        ]
        counts = {
            d: [sum(own[part] for part in single_domains_of(d)) for own in kinds] for d in DOMAINS
        }
        counts["block"] = [len(structure.blocks) for structure in self.structures]
        return {domain: np.cumsum([0, *own]) for domain, own in counts.items()}

    def count(self, network: int, domain: str) -> int:
        """Return the number of a network's layers in a domain."""
        return int(np.diff(self.starts[domain][network : network + 2])[0])


class UntrainedNetwork(Protocol):
    """A network to be measured."""

    @property
    def identity(self) -> Sequence[str | int]:
        """Everything that the weights depend on, except the classes of the head."""

    @property
    def seed(self) -> int:
        """The seed of what is random in measuring the network."""

    def structure(self) -> NetworkStructure:
        """Return the layers and blocks, without building the weights."""

    def build(self, device: torch.device) -> Callable[[int], MeasurableNetwork]:
        """Build the network once; the result gives it a head for a number of classes."""


@dataclass(frozen=True)
class SpaceNetwork:
    """An architecture of a space, initialised by the space's rule from a seed.

    If its weights are `shared`, they are slices of the draws of all networks with this run's seed.
    """

    space: SearchSpace
    architecture: Architecture
    run_seed: int = 0
    shared: bool = False

    @property
    def identity(self) -> tuple[str | int, ...]:
        """The space and its source code, the choices, the seed and how weights are drawn."""
        kinds = (type(self.space), *((SharedDraws,) if self.shared else ()))
        names = self.architecture.space, code_digest(*kinds), self.architecture.digest
        return *names, self.run_seed, *(("shared",) if self.shared else ())

    @cached_property
    def seed(self) -> int:
        """The seed of fresh weights and of measuring, which depends on no other network."""
        digest = hashlib.sha256(f"{self.run_seed}:{self.architecture.digest}".encode()).digest()
        return int.from_bytes(digest[:7], "big")

    def structure(self) -> NetworkStructure:
        """Read the structure from a network on torch's meta device."""
        with torch.device("meta"):
            network = self.space.network(self.architecture, classes=1)
        return network_structure(network, self.space.blocks(self.architecture))

    def build(self, device: torch.device) -> Callable[[int], TransformerNetwork]:
        """Build the network; each head is the one that building with these classes would give."""
        draws: Callable[[], AbstractContextManager[object]] = nullcontext
        if self.shared:
            network = self.space.network(self.architecture, classes=1)
            draws = space_draws(self.space, self.architecture, network, self.run_seed)
            with draws():
                network.initialise(self.run_seed)
        else:
            network = self.space.build(self.architecture, classes=1, seed=self.seed)
        network.to(device)

        def prepare(classes: int) -> TransformerNetwork:
            with draws():
                network.reset_head(classes, self.seed)
            return network

        return prepare


def untrained_space_networks(
    space: SearchSpace,
    architectures: Sequence[Architecture],
    seed: int = 0,
    *,
    shared: bool = False,
) -> list[SpaceNetwork]:
    """Return the untrained networks of these architectures, their weights fresh or shared."""
    return [SpaceNetwork(space, architecture, seed, shared) for architecture in architectures]


def layers_with_domains(network: MeasurableNetwork) -> list[tuple[str, Layer]]:
    """Return all layers with their single domains; each domain's are in depth order."""
    return [*network.layers(), *_extra_layers(network)]


def _extra_layers(network: MeasurableNetwork) -> list[tuple[str, Layer]]:
    """Return the layers of the single domains other than msa and mlp."""
    named = []
    for domain, layer in network.extra_layers():
        if domain == "pool":  # whether a layer between stages keeps the width
            rows, columns = layer.weight.shape[:2]
            domain = "keep" if isinstance(layer, nn.Linear) and rows == columns else "widen"
        named.append((domain, layer))
    known = {id(layer) for _, layer in (*network.layers(), *named)}
    every = (module for module in network.modules() if isinstance(module, Layer))
    return [*(("other", layer) for layer in every if id(layer) not in known), *named]


def network_structure(
    network: TransformerNetwork, shapes: tuple[BlockSpec, ...]
) -> NetworkStructure:
    """Return the structure of a network, which may be on the meta device."""
    blocks = network.transformer_blocks
    domains = tuple(tuple(domain for domain, _ in block.linears()) for block in blocks)
    owners = {id(own): i for i, block in enumerate(blocks) for own in block.projections()}
    found, place = [], 0
    for domain, layer in _extra_layers(network):
        index = owners.get(id(layer), place)
        found.append((index, domain))
        place = index + (domain == "qkv")
    return NetworkStructure(domains, shapes, tuple(found))


class ModuleNetwork:
    """Any module with linear layers, measured as it is: its head must fit the classes."""

    def __init__(
        self,
        module: nn.Module,
        layers: Mapping[str, Sequence[str]],
        blocks: Sequence[BlockShape] = (),
        *,
        final_block: str | None = None,
        seed: int = 0,
    ) -> None:
        """`layers` are names of submodules by domain; the `ntk` probe needs the final block's.

        Besides ``msa`` and ``mlp`` there may be ``qkv``, ``stem``, ``pool`` and ``head``.
        """
        self.seed = seed
        self._blocks = tuple(blocks)
        depth = {name: place for place, (name, _) in enumerate(module.named_modules())}
        named = [(domain, name) for domain, names in layers.items() for name in names]
        found = {pair: _find_layer(module, *pair) for pair in named}
        self._named = sorted(named, key=lambda pair: depth[pair[1].removesuffix(IN_PROJECTION)])
        self._network = ModuleWithDomains(
            module,
            [(domain, found[domain, name]) for domain, name in self._named],
            module.get_submodule(final_block) if final_block else module,
        )

    @cached_property
    def identity(self) -> tuple[str | int, ...]:
        """A hash of the module's text and of all its values."""
        module = self._network.module
        digest = hashlib.sha256(repr(module).encode())
        for name, values in module.state_dict().items():
            digest.update(f"{name} {values.dtype} {tuple(values.shape)}".encode())
            digest.update(values.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
        layers = ",".join(f"{domain}:{name}" for domain, name in self._named)
        return digest.hexdigest(), layers, self.seed

    def structure(self) -> NetworkStructure:
        """Return the structure; names of layers tell which are in the same block."""
        kinds = {name: domain for domain, name in self._named if domain in BLOCK_DOMAINS}
        domains = tuple(
            tuple(kinds[name] for name in names) for names in block_layers(kinds).values()
        )
        # The head is after the blocks, other layers are before the first.
        extra = ((len(domains) * (d == "head"), d) for d, _ in _extra_layers(self._network))
        return NetworkStructure(domains, self._blocks, tuple(extra))

    def build(self, device: torch.device) -> Callable[[int], ModuleWithDomains]:
        """Return the module itself, which must be on the device where it is measured."""
        found = next(self._network.parameters()).device
        if found.type != device.type:
            raise MeasurementError(f"the module must be on {device}, but is on {found}")
        return lambda classes: self._network


class ModuleWithDomains(nn.Module):
    """A module and its layers by domain; it runs in evaluation mode, which is then reset."""

    def __init__(
        self, module: nn.Module, layers: list[tuple[str, Layer]], final: nn.Module
    ) -> None:
        super().__init__()
        self.module = module
        self._named = layers
        self._final = [final]  # in a list, so as not to be a submodule again

    @property
    def final_block(self) -> nn.Module:
        return self._final[0]

    def layers(self) -> list[tuple[str, Layer]]:
        return [(domain, layer) for domain, layer in self._named if domain in BLOCK_DOMAINS]

    def extra_layers(self) -> list[tuple[str, Layer]]:
        return [(domain, layer) for domain, layer in self._named if domain not in BLOCK_DOMAINS]

    def ones(self, inputs: Tensor) -> Tensor:
        own: Callable[[Tensor], Tensor] | None = getattr(self.module, "ones", None)
        return torch.ones_like(inputs[:1]) if own is None else own(inputs)

    def forward(self, inputs: Tensor) -> Tensor:
        with evaluation_mode(self.module):
            outputs: Tensor = self.module(inputs)
        return outputs


MeasurableNetwork: TypeAlias = TransformerNetwork | ModuleWithDomains


def _find_layer(module: nn.Module, domain: str, name: str) -> Layer:
    """Return a layer by its name; a fused projection's parameter becomes a linear layer."""
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
