"""Measures an untrained network: the eight statistics, from only those passes that are asked for.

Probes (which pass a statistic comes from):

- ``data``: cross-entropy on a mini-batch, as in SNIP (Lee et al., 2019) and Auto-Prox; of a
  language model, over the tokens that it should predict.
- ``ones``: parameters replaced by their absolute values, one all-ones input (for a language model
  all-ones embeddings), the sum of the outputs as loss, as in SynFlow (Tanaka et al., 2020) and DSS
  (Zhou et al., 2022).
- ``ntk``: the last block's output dotted with a Rademacher vector, so that the squared norm of
  the gradient is an unbiased estimate of ETAS's equation 13.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from autoprox.inputs.batch import IGNORED, Batch
from autoprox.language import Statistic
from autoprox.searchspaces import Architecture, SearchSpace, TransformerNetwork

CPU = torch.device("cpu")
FORMAT = 1  # of what is measured: raised when the same network would give other values
Measured = dict[Statistic, list[Tensor]]  # one 2-D float32 matrix a layer, in depth order


def collect(
    network: TransformerNetwork,
    batch: Batch,
    needs: Collection[Statistic],
    *,
    seed: int = 0,
    thin: int = 1,
) -> Measured:
    """Measure `needs` on `network`, which is left as it was found.

    `thin` keeps every thin-th row and column of each matrix. Statistics of domain ``all`` are
    asked for as their two parts, ``msa`` and ``mlp``.
    """
    measured: Measured = {}
    for probe in sorted({statistic.probe for statistic in needs}):
        wanted = [statistic for statistic in needs if statistic.probe == probe]
        values = _Pass(network, probe, wanted).run(batch, seed)
        for statistic, matrices in values.items():
            measured[statistic] = [_as_matrix(matrix, thin) for matrix in matrices]
    return measured


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean over a batch: of images, logits [batch, classes], or of the tokens of sequences."""
    return functional.cross_entropy(logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORED)


def _as_matrix(values: Tensor, thin: int) -> Tensor:
    """The tokens of all samples are rows; a copy, so that the network's memory can be freed."""
    kept = values.detach()[..., ::thin, ::thin]
    return kept.to(torch.float32, memory_format=torch.contiguous_format, copy=True).flatten(0, -2)


class _Pass:
    """One probe's pass: nothing for weights, forward for activations, backward for gradients."""

    def __init__(self, network: TransformerNetwork, probe: str, wanted: list[Statistic]) -> None:
        self.network = network
        self.probe = probe
        self.wanted = wanted
        self.quantities: set[tuple[str, str]] = {(s.domain, s.quantity) for s in wanted}
        self.modules: dict[str, list[nn.Linear]] = {"msa": [], "mlp": []}
        for domain, layer in network.layers():
            self.modules[domain].append(layer)
        names = {id(p): name for name, p in network.named_parameters()}
        self.names = {d: [names[id(m.weight)] for m in ms] for d, ms in self.modules.items()}
        self.outputs: list[Tensor] = []
        self.final_output: Tensor | None = None

    def run(self, batch: Batch, seed: int) -> Measured:
        parameters = self._parameters()
        backward = {q for q in self.quantities if q[1] in ("grad", "act_grad")}
        gradients: dict[tuple[str, str], list[Tensor]] = {}
        if backward or ("mlp", "act") in self.quantities:
            with self._hooks(), torch.set_grad_enabled(bool(backward)):
                loss = self._loss(parameters, batch, seed)
                gradients = self._gradients(loss, parameters, backward)
        values = {("mlp", "act"): self.outputs, **gradients}
        for domain, names in self.names.items():
            values[domain, "weight"] = [parameters[name] for name in names]
        return {s: values[s.domain, s.quantity] for s in self.wanted}

    def _parameters(self) -> dict[str, Tensor]:
        """Detached parameters; only those whose gradient is wanted take part in autograd."""
        magnitude = self.probe == "ones"
        detached = {
            name: parameter.detach().abs() if magnitude else parameter.detach()
            for name, parameter in self.network.named_parameters()
        }
        for domain, names in self.names.items():
            if (domain, "grad") in self.quantities:
                for name in names:
                    detached[name].requires_grad_()
        return detached

    @contextlib.contextmanager
    def _hooks(self) -> Iterator[None]:
        handles = [self.network.final_block.register_forward_hook(self._keep_final)]
        if {"act", "act_grad"} & {quantity for _, quantity in self.quantities}:
            handles += [m.register_forward_hook(self._keep) for m in self.modules["mlp"]]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _keep(self, module: nn.Module, inputs: object, output: Tensor) -> None:
        if torch.is_grad_enabled() and not output.requires_grad:
            output.requires_grad_()  # the first activation, where no weight's gradient is wanted
        self.outputs.append(output)

    def _keep_final(self, module: nn.Module, inputs: object, output: Tensor) -> None:
        self.final_output = output

    def _loss(self, parameters: dict[str, Tensor], batch: Batch, seed: int) -> Tensor:
        device = self.network.device
        inputs = batch.inputs.to(device)
        if self.probe == "ones":
            output: Tensor = functional_call(self.network, parameters, (self.network.ones(inputs),))
            return output.sum()
        output = functional_call(self.network, parameters, (inputs,))
        if self.probe == "data":
            return cross_entropy(output, batch.labels.to(device))
        if self.final_output is None:
            raise RuntimeError("the forward pass must run the network's final block")
        generator = torch.Generator().manual_seed(seed)
        signs = torch.randint(0, 2, self.final_output.shape, generator=generator) * 2.0 - 1.0
        return (self.final_output * signs.to(device)).sum()

    def _gradients(
        self, loss: Tensor, parameters: dict[str, Tensor], wanted: set[tuple[str, str]]
    ) -> dict[tuple[str, str], list[Tensor]]:
        sources = {
            (domain, quantity): self.outputs
            if quantity == "act_grad"
            else [parameters[name] for name in self.names[domain]]
            for domain, quantity in sorted(wanted)
        }
        flat = [tensor for tensors in sources.values() for tensor in tensors]
        if not flat:
            return {}
        gradients = iter(torch.autograd.grad(loss, flat, materialize_grads=True))
        return {key: [next(gradients) for _ in tensors] for key, tensors in sources.items()}


@dataclass(frozen=True)
class Setting:
    """All that statistics depend on besides the architecture: one untrained network for each."""

    space: SearchSpace
    batches: Mapping[str, Batch]  # a mini-batch of each dataset
    seed: int = 0
    thin: int = 1
    device: torch.device = CPU
    _digests: dict[str, tuple[str, str]] = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        digests = {d: (_digest(b.inputs), _digest(b.labels)) for d, b in self.batches.items()}
        object.__setattr__(self, "_digests", digests)

    def measure(
        self, architecture: Architecture, needs: Mapping[str, Collection[Statistic]]
    ) -> Iterator[tuple[str, Measured]]:
        """What is needed of one dataset after another, all from one build of the network."""
        seed = self.network_seed(architecture)
        network = self.space.build(architecture, classes=1, seed=seed).to(self.device)
        for dataset, statistics in needs.items():
            batch = self.batches[dataset]
            network.reset_head(batch.classes, seed)
            yield dataset, collect(network, batch, statistics, seed=seed, thin=self.thin)

    def network_seed(self, architecture: Architecture) -> int:
        """Seeds the weights: a network is the same whichever others it is compared with."""
        digest = hashlib.sha256(f"{self.seed}:{architecture.digest}".encode()).digest()
        return int.from_bytes(digest[:7], "big")

    def key(self, architecture: Architecture, dataset: str, statistic: Statistic) -> str:
        """Hash of everything that the statistic depends on, and of nothing else."""
        depends: list[object] = [
            FORMAT,
            torch.__version__,
            self.device.type,
            architecture.space,
            architecture.digest,
            self.seed,
            self.thin,
            *dataclasses.astuple(statistic),
        ]
        if statistic.quantity != "weight":
            inputs, labels = self._digests[dataset]
            loss = statistic.quantity != "act"
            if statistic.probe != "ones":
                depends.append(inputs)
            if statistic.probe == "data" and loss:
                depends.append(labels)
            if statistic.probe != "ntk" and loss:
                depends.append(self.batches[dataset].classes)
        return hashlib.sha256(json.dumps(depends).encode()).hexdigest()


def _digest(tensor: Tensor) -> str:
    return hashlib.sha256(tensor.cpu().contiguous().numpy().tobytes()).hexdigest()
