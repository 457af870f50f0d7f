"""Where the engine reads matrices from: the untrained networks that are compared."""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch

from autoprox.errors import MeasurementError, failure_of
from autoprox.language import Statistic
from autoprox.parallel.crew import ALONE, Crew
from autoprox.statistics.chunks import MatrixChunk
from autoprox.statistics.collector import CPU, Measured, Setting
from autoprox.statistics.layers import LayerTable
from autoprox.statistics.networks import Structure, UntrainedNetwork

Group = frozenset[Statistic]  # what one matrix expression reads: one domain, one kind of shape
Programs = Mapping[Group, Callable[[MatrixChunk], Any]]  # what is computed from a group's matrices
# Takes a group, datasets of equal matrices, where among the layers of their domain these stand, and
# what was computed from them.
Take = Callable[[Group, list[int], np.ndarray, Any], None]
Needs = dict[str, set[Statistic]]  # by dataset
MEMO_BYTES = 2**28  # of values of layers that whoever reads the matrices may keep
FAILURES = (ArithmeticError, MemoryError, RuntimeError, ValueError)


Do = Callable[[str, Measured], None]  # takes what was measured on a dataset


class Along(Protocol):
    """What else is to be measured of networks, in the passes for their statistics."""

    @property
    def measure(self) -> "MeasureAlong":
        """How it is measured."""

    def wants(self, network: UntrainedNetwork) -> bool:
        """Whether it isn't known of a network."""

    def keep(self, network: UntrainedNetwork, found: Any) -> None:
        """Keep what was measured of a network."""


class MeasureAlong(Protocol):
    """Measures a network as `measured_alone` does, and something else, which is returned too."""

    def __call__(
        self, setting: Setting, network: UntrainedNetwork, needs: Needs, do: Do
    ) -> tuple[str | None, Any]: ...


class MatrixSource(ABC):
    """The untrained networks that are compared, and a way to read their matrices."""

    def __init__(
        self,
        setting: Setting,
        networks: Sequence[UntrainedNetwork],
        crew: Crew = ALONE,
        max_failed: float = 0.1,
    ) -> None:
        self.setting = setting
        self.networks = tuple(networks)
        self.datasets = tuple(setting.batches)
        self.crew = crew
        # Reductions are in float64, which MPS has not.
        self.device = CPU if setting.device.type == "mps" else setting.device
        self.memo = MEMO_BYTES
        self.failures: dict[int, str] = {}
        self._max_failed = max_failed
        self._variants: dict[Group, list[list[int]]] = {}

    @property
    def alive(self) -> list[int]:
        """The networks that could be measured so far."""
        return [n for n in range(len(self.layers.structures)) if n not in self.failures]

    @cached_property
    def layers(self) -> LayerTable:
        """The layers of every network; one that can't be built has none."""
        return LayerTable(tuple(map(self._structure, range(len(self.networks)))))

    def variants(self, statistics: Iterable[Statistic]) -> list[list[int]]:
        """Datasets for which the statistics are the same, such as all of them for weights."""
        group = frozenset(statistics)
        if group not in self._variants:
            same: dict[frozenset[str], list[int]] = defaultdict(list)
            for index, dataset in enumerate(self.datasets):
                keys = (self.setting.key(self.networks[0], dataset, s) for s in group)
                same[frozenset(keys)].append(index)
            self._variants[group] = list(same.values())
        return self._variants[group]

    @abstractmethod
    def visit(self, programs: Programs, take: Take) -> None:
        """Run the programs over every matrix of their groups, in pieces, in any order."""

    def fail(self, network: int, reason: str | None) -> None:
        """Put on record why a network failed, if it did; some may."""
        if reason is None:
            return
        self.failures[network] = reason
        failed, total = len(self.failures), len(self.networks)
        if failed > self._max_failed * total:
            raise MeasurementError(
                f"at most {self._max_failed:.0%} of the networks may fail, "
                f"but {failed} of {total} did: {next(iter(self.failures.values()))}"
            )

    def _structure(self, network: int) -> Structure:
        found: list[Structure] = []
        self.fail(network, attempt(lambda: found.append(self.networks[network].structure())))
        return found[0] if found else Structure()


def attempt(call: Callable[[], object]) -> str | None:
    """Do something with a network; returns why it failed, if it did."""
    try:
        call()
    except FAILURES as error:
        return failure_of(error)
    return None


class StreamedMatrices(MatrixSource):
    """Builds and measures each network at every visit, and keeps nothing.

    What is wanted `along` with it is measured at the first visit.
    """

    along: Along | None = None

    def visit(self, programs: Programs, take: Take) -> None:
        needs: Needs = defaultdict(set)
        wanted: dict[str, list[tuple[Group, list[int]]]] = defaultdict(list)
        for group in programs:
            for datasets in self.variants(group):
                needs[self.datasets[datasets[0]]] |= group
                wanted[self.datasets[datasets[0]]].append((group, datasets))
        items = [(self.networks[n], wants_along(self.along, self.networks[n])) for n in self.alive]
        numbers = iter(self.alive)

        def keep(found: Computed) -> None:
            network = next(numbers)
            for group, datasets, layers in found.layers:
                start = self.layers.starts[next(iter(group)).domain][network]
                for layer, values in enumerate(layers):
                    take(group, datasets, np.array([start + layer]), values)
            if self.along is not None and found.along is not None:
                self.along.keep(self.networks[network], found.along)
            self.fail(network, found.failure)

        shared = (self.setting, self.device, needs, programs, wanted)
        self.crew.each(_computed, items, keep, *shared)


class Computed(NamedTuple):
    """What programs computed of each layer of a network, and why it failed, if it did."""

    layers: list[tuple[Group, list[int], list[Any]]]
    failure: str | None
    along: Any


def wants_along(along: Along | None, network: UntrainedNetwork) -> MeasureAlong | None:
    """How a network is measured where more than its statistics is wanted of it."""
    return along.measure if along is not None and along.wants(network) else None


def _computed(
    setting: Setting,
    device: torch.device,
    needs: Needs,
    programs: Programs,
    wanted: Mapping[str, Sequence[tuple[Group, list[int]]]],
    item: tuple[UntrainedNetwork, MeasureAlong | None],
) -> Computed:
    """Dataset after dataset, so that only one's matrices are held."""
    network, along = item
    found: list[tuple[Group, list[int], list[Any]]] = []

    def of_dataset(dataset: str, measured: Measured) -> None:
        for group, datasets in wanted[dataset]:
            layers = [
                {s: measured[s][layer][None].to(device) for s in group}
                for layer in range(len(measured[next(iter(group))]))
            ]
            values = [programs[group](MatrixChunk.of(matrices)) for matrices in layers]
            found.append((group, datasets, values))

    failure, more = (along or measured_alone)(setting, network, needs, of_dataset)
    return Computed(found, failure, more)


def measured_alone(
    setting: Setting, network: UntrainedNetwork, needs: Needs, do: Do
) -> tuple[str | None, Any]:
    """Measure a network for one dataset after another; why it failed, if it did, and nothing else.

    No more than one dataset's matrices are held.
    """

    def measure() -> None:
        for dataset, measured in setting.measure(network, needs):
            do(dataset, measured)
            del measured

    return attempt(measure), None
