"""Networks whose matrices are slices of one, as in PreNAS (Wang et al., "PreNAS: Preferred One-Shot
Learning Towards Efficient Neural Architecture Search", ICML 2023).

The largest network of a space is built and measured once. Every matrix of another network is a part
of one of its matrices: the first rows and columns of weights and gradients (of qkv: of each third),
the first columns of activations. The structure is the network's own.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import torch
from torch import Tensor

from autoprox.errors import AutoproxError, MeasurementError, failure_of
from autoprox.language import Statistic
from autoprox.language.layer_domains import DOMAIN_PARTS
from autoprox.parallel.threads import run_threads, single_torch_thread
from autoprox.parallel.worker_pool import WorkerPool
from autoprox.searchspaces import SPACES, Architecture, SearchSpace, TransformerNetwork
from autoprox.statistics.collector import MeasuredMatrices, MeasurementSetting
from autoprox.statistics.matrix_sources import (
    FAILURES,
    MatrixSource,
    Programs,
    StatisticGroup,
    Take,
)
from autoprox.statistics.packed_matrices import MatrixChunk
from autoprox.statistics.untrained_networks import (
    NetworkStructure,
    SpaceNetwork,
    layers_with_domains,
    network_structure,
)

STANDARD_BLOCK = ("msa", "msa", "mlp", "mlp")  # qkv, proj, fc1, fc2
LAYERS_PER_BLOCK = {"msa": 2, "mlp": 2, "qkv": 1}
STAGE_DOMAINS = DOMAIN_PARTS["pool"]

SliceProgram = Callable[[MatrixChunk], Tensor]  # returns [expressions, matrices]
# The index of a layer, and its width and inner or hidden size, or its rows and columns.
Slice = tuple[int, int, int]


class InheritanceError(AutoproxError):
    """A space whose networks aren't slices of one."""


def require_sliceable_space(space: SearchSpace) -> None:
    """Raise unless every network of the space is a slice of the largest."""
    if space.origins(space.largest()) is None:
        sliced = [s.name for s in SPACES.values() if s.origins(s.largest()) is not None]
        raise InheritanceError(
            "inherited weights need a space whose networks are slices of the largest, which "
            f"{space.name} is not; choose from {', '.join(sliced)}, or take fresh weights"
        )


class LargestNetwork:
    """The largest network of a space, measured once, and the outputs of programs for its slices."""

    def __init__(
        self,
        space: SearchSpace,
        setting: MeasurementSetting,
        needs: Collection[Statistic],
        seed: int = 0,
    ) -> None:
        self.space, self.setting, self.needs, self.seed = space, setting, needs, seed
        self.known: dict[SliceProgram, dict[Slice, Tensor]] = defaultdict(dict)

    @cached_property
    def matrices(self) -> MeasuredMatrices:
        """The matrices by statistic; for domains between stages, those of all such layers.

        A layer that keeps the width may be a slice of one that doesn't, and the other way round.
        """
        network = SpaceNetwork(self.space, self.space.largest(), self.seed)
        between = {s for s in self.needs if s.domain in STAGE_DOMAINS}
        needs = {*self.needs, *(replace(s, domain=d) for s in between for d in STAGE_DOMAINS)}
        [dataset] = self.setting.batches
        try:
            with single_torch_thread():
                structure = network.structure()
                [(_, measured)] = self.setting.measure(network, {dataset: needs})
        except FAILURES as error:
            raise MeasurementError(
                f"the largest network of {self.space.name} must be measured, but got "
                f"{failure_of(error)}"
            ) from error
        if set(structure.domains) != {STANDARD_BLOCK}:
            raise RuntimeError("blocks that are sliced must have qkv, proj, fc1 and fc2")
        found = dict(measured)
        for statistic in between:
            own = {d: iter(measured[replace(statistic, domain=d)]) for d in STAGE_DOMAINS}
            found[statistic] = [next(own[kind]) for kind, _ in structure.layers("pool")]
        return found

    def run(
        self, program: SliceProgram, group: StatisticGroup, device: torch.device, part: Slice
    ) -> None:
        """Run a program on a slice of the matrices of a group, and keep its output."""
        matrices = {
            s: cut_slice(self.matrices[s][part[0]], s, part)[None].to(device) for s in group
        }
        self.known[program][part] = program(MatrixChunk.of(matrices))


@dataclass(frozen=True)
class SlicedNetwork(SpaceNetwork):
    """An architecture whose matrices are slices of the largest network's."""

    classes: int = 1
    blocks_only: bool = False  # whether no layers outside the blocks are read

    @cached_property
    def unbuilt(self) -> TransformerNetwork:
        """The network on the meta device."""
        with torch.device("meta"):
            return self.space.network(self.architecture, self.classes)

    def structure(self) -> NetworkStructure:
        """Return the structure, without building anything if only blocks are read."""
        blocks = self.space.blocks(self.architecture)
        if self.blocks_only:
            return NetworkStructure((STANDARD_BLOCK,) * len(blocks), blocks)
        return network_structure(self.unbuilt, blocks)

    def slices(self, domain: str) -> list[Slice]:
        """Return the slice of the largest network that each layer of a single domain is."""
        if domain in LAYERS_PER_BLOCK:
            count, arch = LAYERS_PER_BLOCK[domain], self.architecture
            found: list[Slice] = []
            origins = self.space.origins(arch) or ()
            for origin, block in zip(origins, self.space.blocks(arch), strict=True):
                size = block.hidden if domain == "mlp" else block.inner
                found += [(count * origin + layer, block.width, size) for layer in range(count)]
            return found
        family = STAGE_DOMAINS if domain in STAGE_DOMAINS else (domain,)
        layers = [own for own in layers_with_domains(self.unbuilt) if own[0] in family]
        return [
            (index, *layer.weight.flatten(1).shape)
            for index, (kind, layer) in enumerate(layers)
            if kind == domain
        ]


class SlicedMatrices(MatrixSource):
    """Architectures as slices of the largest network; programs run once for equal slices."""

    def __init__(
        self, largest: LargestNetwork, architectures: Sequence[Architecture], pool: WorkerPool
    ) -> None:
        blocks_only = {s.domain for s in largest.needs} <= {"msa", "mlp"}
        classes = max((batch.classes for batch in largest.setting.batches.values()), default=1)
        networks = [
            SlicedNetwork(
                largest.space, architecture, largest.seed, classes=classes, blocks_only=blocks_only
            )
            for architecture in architectures
        ]
        super().__init__(largest.setting, networks, pool, max_failed=1.0)
        self._largest, self._sliced = largest, networks

    def visit(self, programs: Programs, take: Take) -> None:
        largest = self._largest
        _ = largest.matrices  # on this thread, before others begin
        for group, program in programs.items():
            [domain] = {statistic.domain for statistic in group}
            slices = [part for network in self._sliced for part in network.slices(domain)]
            known = largest.known[program]
            new = dict.fromkeys(part for part in slices if part not in known)
            run = partial(largest.run, program, group, self.device)
            run_threads(self.pool.workers, [partial(run, part) for part in new])
            if slices:
                values = torch.cat([known[part] for part in slices], dim=1)
                take(group, [0], np.arange(len(slices)), values)


def cut_slice(matrix: Tensor, statistic: Statistic, part: Slice) -> Tensor:
    """Cut a slice out of a matrix of the largest network."""
    index, rows, columns = part
    if statistic.domain in LAYERS_PER_BLOCK:
        (_, width, size), layer = part, index % LAYERS_PER_BLOCK[statistic.domain]
        if statistic.type.domain == "act":
            return matrix[:, : (size, width)[layer]].contiguous()
        if statistic.domain != "mlp" and layer == 0:  # queries, keys and values
            return torch.cat([third[:size, :width] for third in matrix.chunk(3)])
        rows, columns = ((size, width), (width, size))[layer]
    return matrix[:rows, :columns].contiguous()
