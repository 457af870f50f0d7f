"""Scores candidates by slices of one network, as PreNAS does (Wang et al., "PreNAS: Preferred
One-Shot Learning Towards Efficient Neural Architecture Search", ICML 2023).

The largest network of the space is built and measured once. Every matrix of a candidate is a part
of one of its: the first rows and columns of weights and gradients (of qkv: of each third), the
first columns of activations. Equal slices of different candidates are reduced once. The structure
is the candidate's own.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain

import torch
from torch import Tensor

from autoprox.errors import AutoproxError, MeasurementError, failure_of
from autoprox.language import Statistic
from autoprox.language.domains import BLOCK_DOMAINS, PARTS
from autoprox.nas.own_weights import measure
from autoprox.nas.proxy import Outcome, SplitProxy
from autoprox.parallel.crew import ALONE, Crew
from autoprox.parallel.threads import one_thread, run_threads
from autoprox.searchspaces import (
    SPACES,
    Architecture,
    BlockSpec,
    SearchSpace,
    TransformerNetwork,
)
from autoprox.statistics.collector import Measured, Setting
from autoprox.statistics.networks import SpaceNetwork, Structure, every_layer, structure_of
from autoprox.statistics.sources import FAILURES

BATCH = 500  # candidates that are evaluated together
STANDARD = ("msa", "msa", "mlp", "mlp")  # qkv, proj, fc1, fc2
PER_DOMAIN = {"msa": 2, "mlp": 2, "qkv": 1}  # layers of a block
POOL = PARTS["pool"]

Slice = tuple[int, int, int]  # a block of the largest network; width; inner, or hidden for mlp


class InheritanceError(AutoproxError):
    """A space whose networks aren't slices of one."""


def require_slices(space: SearchSpace) -> None:
    """Raise unless every network of the space is a slice of the largest."""
    if space.origins(space.largest()) is None:
        sliced = [s.name for s in SPACES.values() if s.origins(s.largest()) is not None]
        raise InheritanceError(
            "inherited weights need a space whose networks are slices of the largest, which "
            f"{space.name} is not; choose from {', '.join(sliced)}, or take fresh weights"
        )


class SlicedWeights:
    """Measures the largest network at the first call, and then only looks things up."""

    def __init__(
        self,
        proxy: SplitProxy,
        space: SearchSpace,
        setting: Setting,
        seed: int = 0,
        crew: Crew = ALONE,
    ) -> None:
        require_slices(space)
        self.proxy = proxy
        self.space = space
        self.setting = setting
        self.seed = seed
        self.crew = crew
        self._known: dict[str, dict[Slice, Tensor]] = {  # each [layers of a block, reductions]
            domain: {} for domain, own in proxy.reductions.items() if own
        }

    def measure(
        self, architectures: Sequence[Architecture], record: Callable[[Outcome], None]
    ) -> None:
        """Record the outcome of each, in their order."""
        for start in range(0, len(architectures), BATCH):
            for outcome in self._outcomes(architectures[start : start + BATCH]):
                record(outcome)

    def _outcomes(self, architectures: Sequence[Architecture]) -> list[Outcome]:
        blocks = [self.space.blocks(architecture) for architecture in architectures]
        origins = [self.space.origins(architecture) or () for architecture in architectures]
        pairs = list(zip(chain(*origins), chain(*blocks), strict=True))
        structures = [Structure((STANDARD,) * len(own), own) for own in blocks]
        reduced = {d: self._reduced(d, pairs) for d in self._known if d in PER_DOMAIN}
        if not self._known.keys() <= set(BLOCK_DOMAINS):
            networks = [self._described(architecture) for architecture in architectures]
            pairs_ = zip(networks, blocks, strict=True)
            structures = [structure_of(network, own) for network, own in pairs_]
            outside = (d for d in self._known if d not in PER_DOMAIN)
            reduced |= {d: self._outside(d, networks) for d in outside}
        return self.proxy.outcomes(structures, reduced)

    def _described(self, architecture: Architecture) -> TransformerNetwork:
        """The network without its values."""
        [batch] = self.setting.batches.values()
        with torch.device("meta"):
            return self.space.network(architecture, batch.classes)

    def _outside(self, domain: str, networks: Sequence[TransformerNetwork]) -> Tensor:
        """[layers of all networks, reductions] of a domain of layers outside blocks."""
        family = POOL if domain in POOL else (domain,)
        known = self._known[domain]
        largest = {s: values for s, values in self._largest.items() if s.domain == domain}
        found = [torch.empty(0, len(self.proxy.reductions[domain]), dtype=torch.float64)]
        for network in networks:
            layers = [pair for pair in every_layer(network) if pair[0] in family]
            for index, (kind, layer) in enumerate(layers):
                rows, columns = layer.weight.flatten(1).shape
                part = index, rows, columns
                if kind == domain and part not in known:
                    own = {s: m[index][:rows, :columns].contiguous() for s, m in largest.items()}
                    known[part] = self.proxy.reduce(domain, own)[None]
                if kind == domain:
                    found.append(known[part])
        return torch.cat(found)

    def _reduced(self, domain: str, blocks: Sequence[tuple[int, BlockSpec]]) -> Tensor:
        """[layers of all networks, reductions] from the blocks, and of which each is a slice."""
        slices = [
            (origin, block.width, block.hidden if domain == "mlp" else block.inner)
            for origin, block in blocks
        ]
        known = self._known[domain]
        largest = {s: values for s, values in self._largest.items() if s.domain == domain}

        def reduce(part: Slice) -> None:
            reduced = []
            for layer in range(PER_DOMAIN[domain]):
                place = PER_DOMAIN[domain] * part[0] + layer
                own = {s: _part(values[place], s, layer, part) for s, values in largest.items()}
                reduced.append(self.proxy.reduce(domain, own))
            known[part] = torch.stack(reduced)

        new = dict.fromkeys(part for part in slices if part not in known)
        run_threads(self.crew.workers, [partial(reduce, part) for part in new])
        return torch.cat([known[part] for part in slices])

    @cached_property
    def _largest(self) -> Measured:
        network = SpaceNetwork(self.space, self.space.largest(), self.seed)
        try:
            with one_thread():
                structure = network.structure()
                measured = measure(network, self.setting, _whole_pools(self.proxy.needs))
        except FAILURES as error:
            raise MeasurementError(
                f"the largest network of {self.space.name} must be measured, but got "
                f"{failure_of(error)}"
            ) from error
        if set(structure.domains) != {STANDARD}:
            raise RuntimeError("blocks that are sliced must have qkv, proj, fc1 and fc2")
        return _together(measured, structure)


def _whole_pools(needs: Collection[Statistic]) -> set[Statistic]:
    """A layer that keeps the width may be a slice of one that doesn't, and the other way round."""
    found = set(needs)
    for statistic in needs:
        if statistic.domain in POOL:
            found |= {replace(statistic, domain=domain) for domain in POOL}
    return found


def _together(measured: Measured, structure: Structure) -> Measured:
    """With the matrices of all layers between stages, in depth order, for each of their domains."""
    found = dict(measured)
    for statistic in measured:
        if statistic.domain in POOL:
            own = {d: iter(measured[replace(statistic, domain=d)]) for d in POOL}
            found[statistic] = [next(own[kind]) for kind, _ in structure.layers("pool")]
    return found


def _part(matrix: Tensor, statistic: Statistic, layer: int, part: Slice) -> Tensor:
    """The slice of a matrix of layer 0 or 1 of its domain: qkv and proj, or fc1 and fc2."""
    _, width, size = part
    if statistic.type.domain == "act":
        return matrix[:, : (size, width)[layer]].contiguous()
    if statistic.domain == "qkv" or (statistic.domain == "msa" and layer == 0):
        return torch.cat([third[:size, :width] for third in matrix.chunk(3)])
    rows, columns = ((size, width), (width, size))[layer]
    return matrix[:rows, :columns].contiguous()
