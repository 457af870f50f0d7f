"""Scores candidates by slices of one network, as PreNAS does (Wang et al., "PreNAS: Preferred
One-Shot Learning Towards Efficient Neural Architecture Search", ICML 2023).

The largest network of the space is built and measured once. Every matrix of a candidate is a part
of one of its: the first rows and columns of weights and gradients (of qkv: of each third), the
first columns of activations. Equal slices of different candidates are reduced once. The structure
of the blocks is the candidate's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from autoprox.errors import AutoproxError, MeasurementError
from autoprox.language import Statistic
from autoprox.nas.own_weights import measure
from autoprox.nas.proxy import Outcome, Proxy
from autoprox.parallel.threads import run_threads
from autoprox.searchspaces import SPACES, Architecture, Block, SearchSpace
from autoprox.statistics.collector import Measured, Setting
from autoprox.statistics.layers import DOMAINS
from autoprox.statistics.networks import SpaceNetwork, Structure
from autoprox.statistics.sources import FAILURES, explained

BATCH = 500  # candidates that are evaluated together
STANDARD = ("msa", "msa", "mlp", "mlp")  # qkv, proj, fc1, fc2
PER_DOMAIN = 2  # layers of a block

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
        self, proxy: Proxy, space: SearchSpace, setting: Setting, seed: int = 0, workers: int = 1
    ) -> None:
        require_slices(space)
        self.proxy = proxy
        self.space = space
        self.setting = setting
        self.seed = seed
        self.workers = workers
        self._measured: Measured = {}
        self._domains = [domain for domain in DOMAINS if proxy.reductions[domain]]
        self._rows: dict[str, dict[Slice, int]] = {domain: {} for domain in DOMAINS}
        self._tables = {  # [slices, layers of a block, reductions]
            domain: torch.empty(0, PER_DOMAIN, len(proxy.reductions[domain]), dtype=torch.float64)
            for domain in DOMAINS
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
        pairs = [
            pair for own in zip(origins, blocks, strict=True) for pair in zip(*own, strict=True)
        ]
        structures = [Structure((STANDARD,) * len(own), own) for own in blocks]
        reduced = {domain: self._reduced(domain, pairs) for domain in self._domains}
        return self.proxy.outcomes(structures, reduced)

    def _reduced(self, domain: str, blocks: Sequence[tuple[int, Block]]) -> Tensor:
        """[layers of all networks, reductions] from the blocks, and of which each is a slice."""
        slices = [
            (origin, block.width, block.inner if domain == "msa" else block.hidden)
            for origin, block in blocks
        ]
        rows = self._rows[domain]
        if new := dict.fromkeys(part for part in slices if part not in rows):
            self._extend(domain, list(new))
        return self._tables[domain][[rows[part] for part in slices]].flatten(0, 1)

    def _extend(self, domain: str, slices: Sequence[Slice]) -> None:
        """Reduce new slices."""
        largest = self._largest()
        table = self._tables[domain]
        added = torch.empty(len(slices), *table.shape[1:], dtype=table.dtype)

        def reduce(index: int) -> None:
            for layer in range(PER_DOMAIN):
                matrices = {
                    s: _part(values[PER_DOMAIN * slices[index][0] + layer], s, layer, slices[index])
                    for s, values in largest.items()
                    if s.domain == domain
                }
                added[index, layer] = self.proxy.reduce(domain, matrices)

        run_threads(self.workers, (partial(reduce, index) for index in range(len(slices))))
        rows = self._rows[domain]
        rows.update({s: len(rows) + i for i, s in enumerate(slices)})
        self._tables[domain] = torch.cat([table, added])

    def _largest(self) -> Measured:
        if not self._measured:
            run_threads(1, [self._measure_largest])
        return self._measured

    def _measure_largest(self) -> None:
        network = SpaceNetwork(self.space, self.space.largest(), self.seed)
        try:
            domains = network.structure().domains
            self._measured = measure(network, self.setting, self.proxy)
        except FAILURES as error:
            raise MeasurementError(
                f"the largest network of {self.space.name} must be measured, but got "
                f"{explained(error)}"
            ) from error
        if set(domains) != {STANDARD}:
            raise RuntimeError("blocks that are sliced must have qkv, proj, fc1 and fc2")


def _part(matrix: Tensor, statistic: Statistic, layer: int, part: Slice) -> Tensor:
    """The slice of a matrix of layer 0 or 1 of its domain: qkv and proj, or fc1 and fc2."""
    _, width, size = part
    if statistic.type.domain == "act":
        return matrix[:, : (size, width)[layer]].contiguous()
    if statistic.domain == "msa" and layer == 0:
        return torch.cat([third[:size, :width] for third in matrix.chunk(3)])
    rows, columns = ((size, width), (width, size))[layer]
    return matrix[:rows, :columns].contiguous()
