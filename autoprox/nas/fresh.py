"""Scores each candidate by its own network: built, initialised and measured for it alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from autoprox.nas.proxy import Layout, Outcome, Proxy
from autoprox.parallel.threads import run_threads
from autoprox.searchspaces import Architecture
from autoprox.statistics.collector import CPU, Measured, Setting, collect

FAILURES = (ArithmeticError, MemoryError, RuntimeError, ValueError)


class Fresh:
    """Measures candidates in threads; one that fails stops nothing."""

    def __init__(self, proxy: Proxy, setting: Setting, workers: int = 1) -> None:
        self.proxy = proxy
        self.setting = setting
        self.workers = workers

    def measure(
        self, architectures: Sequence[Architecture], record: Callable[[Outcome], None]
    ) -> None:
        """Record the outcome of each, in their order, as soon as it is known."""
        outcomes: dict[int, Outcome] = {}
        lock, following = threading.Lock(), iter(range(len(architectures)))
        waiting = next(following, -1)

        def run(index: int) -> None:
            nonlocal waiting
            outcome = self._outcome(architectures[index])
            with lock:
                outcomes[index] = outcome
                while waiting in outcomes:
                    record(outcomes.pop(waiting))
                    waiting = next(following, -1)

        run_threads(self.workers, (partial(run, index) for index in range(len(architectures))))

    def _outcome(self, architecture: Architecture) -> Outcome:
        try:
            layers, layout = self._layers(architecture)
        except FAILURES as error:
            return Outcome(failure=explained(error))
        blocks = self.setting.space.blocks(architecture)
        [outcome] = self.proxy.outcomes(layers, [blocks], layout)
        return outcome

    def _layers(self, architecture: Architecture) -> tuple[dict[str, Tensor], Layout]:
        """[1, layers, reductions] of each domain; nothing is built for a proxy of structure."""
        if not self.proxy.needs:
            return {}, Layout(tuple(() for _ in self.setting.space.blocks(architecture)))
        measured, layout = measure(self.setting, architecture, self.proxy)
        layers: dict[str, Tensor] = {}
        for domain in {statistic.domain for statistic in measured}:
            own = {s: matrices for s, matrices in measured.items() if s.domain == domain}
            reduced = [
                self.proxy.reduce(domain, dict(zip(own, matrices, strict=True)))
                for matrices in zip(*own.values(), strict=True)
            ]
            layers[domain] = torch.stack(reduced)[None]
        return layers, layout


def measure(setting: Setting, architecture: Architecture, proxy: Proxy) -> tuple[Measured, Layout]:
    """The statistics that a proxy needs of an untrained network, where they can be reduced."""
    [batch] = setting.batches.values()
    seed = setting.network_seed(architecture)
    network = setting.space.build(architecture, classes=batch.classes, seed=seed)
    network.to(setting.device)
    measured = collect(network, batch, proxy.needs, seed=seed)
    if setting.device.type == "mps":  # reductions are in float64, which MPS has not
        measured = {s: [m.to(CPU) for m in matrices] for s, matrices in measured.items()}
    blocks = network.transformer_blocks
    return measured, Layout(tuple(tuple(d for d, _ in block.linears()) for block in blocks))


def explained(error: Exception) -> str:
    """An error in one line."""
    reason = str(error).strip().partition("\n")[0] or "no message"
    return f"{type(error).__name__}: {reason}"
