"""Scores each candidate by its own network: built, initialised and measured for it alone."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from autoprox.errors import failure_of
from autoprox.language import Statistic
from autoprox.nas.proxy import Outcome, SplitProxy
from autoprox.parallel.crew import ALONE, Crew
from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.statistics.collector import CPU, Measured, Setting
from autoprox.statistics.networks import SpaceNetwork, Structure, UntrainedNetwork
from autoprox.statistics.sources import FAILURES


@dataclass(frozen=True)
class OwnWeights:
    """Measures candidates, each by itself; one that fails stops nothing."""

    proxy: SplitProxy
    space: SearchSpace
    setting: Setting
    seed: int = 0
    crew: Crew = ALONE

    def measure(
        self, architectures: Sequence[Architecture], record: Callable[[Outcome], None]
    ) -> None:
        """Record the outcome of each, in their order, as soon as it is known."""
        alone = replace(self, crew=ALONE)  # who measures one has no crew
        self.crew.each(OwnWeights.outcome, architectures, record, alone)

    def outcome(self, architecture: Architecture) -> Outcome:
        """Of one candidate."""
        network = SpaceNetwork(self.space, architecture, self.seed)
        try:
            structure = self._structure(network)
            measured = measure(network, self.setting, self.proxy.needs)
        except FAILURES as error:
            return Outcome(failure=failure_of(error))
        [outcome] = self.proxy.outcomes([structure], self._reduced(measured))
        return outcome

    def _structure(self, network: SpaceNetwork) -> Structure:
        """Nothing is built for a proxy of structure alone."""
        if self.proxy.needs:
            return network.structure()
        return Structure(blocks=self.space.blocks(network.architecture))

    def _reduced(self, measured: Measured) -> dict[str, Tensor]:
        """[layers, reductions] of each domain."""
        reduced: dict[str, Tensor] = {}
        for domain in {statistic.domain for statistic in measured}:
            own = {s: matrices for s, matrices in measured.items() if s.domain == domain}
            layers = [
                self.proxy.reduce(domain, dict(zip(own, matrices, strict=True)))
                for matrices in zip(*own.values(), strict=True)
            ]
            none = torch.empty(0, len(self.proxy.reductions[domain]), dtype=torch.float64)
            reduced[domain] = torch.stack(layers) if layers else none
        return reduced


def measure(network: UntrainedNetwork, setting: Setting, needs: Collection[Statistic]) -> Measured:
    """The statistics that are needed of an untrained network, where they can be reduced."""
    if not needs:
        return {}  # nothing is built for a proxy of structure
    [dataset] = setting.batches
    [(_, measured)] = setting.measure(network, {dataset: needs})
    if setting.device.type == "mps":  # reductions are in float64, which MPS has not
        measured = {s: [m.to(CPU) for m in matrices] for s, matrices in measured.items()}
    return measured
