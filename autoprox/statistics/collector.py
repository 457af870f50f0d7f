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

import contextlib
import dataclasses
import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import version

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from autoprox.errors import ConfigError, nearest
from autoprox.files.code import code_digest
from autoprox.inputs.batch import IGNORED, Batch
from autoprox.language import Statistic
from autoprox.language.quantities import QUANTITIES
from autoprox.searchspaces.blocks import Layer
from autoprox.statistics.networks import Layered, UntrainedNetwork, every_layer

CPU = torch.device("cpu")
DEVICES = ("auto", "cpu", "cuda", "mps")
VERSION = version("autoprox")
FORMAT = 2  # of what is measured: raised when the same network would give other values
Measured = dict[Statistic, list[Tensor]]  # one 2-D float32 matrix a layer, in depth order


def collect(
    network: Layered,
    batch: Batch,
    needs: Collection[Statistic],
    *,
    seed: int = 0,
    thin: int = 1,
) -> Measured:
    """Measure `needs` on `network`, which is left as it was found.

    `thin` keeps every thin-th row and column of each matrix. Statistics of domains of several, as
    ``all``, are asked for as those of their parts.
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

    def __init__(self, network: Layered, probe: str, wanted: list[Statistic]) -> None:
        self.network = network
        self.probe = probe
        self.wanted = wanted
        self.modules: dict[str, list[Layer]] = defaultdict(list)
        domains = {statistic.domain for statistic in wanted}
        for domain, layer in every_layer(network):
            if domain in domains:
                self.modules[domain].append(layer)
        names = {id(p): name for name, p in network.named_parameters()}
        self.names = {d: [names[id(m.weight)] for m in ms] for d, ms in self.modules.items()}
        self.passes = {QUANTITIES[s.quantity].needs for s in wanted}
        self.captures = {(s.domain, c) for s in wanted for c in QUANTITIES[s.quantity].reads}
        self.captured: dict[tuple[str, str], list[Tensor]] = {}  # by domain and capture
        self.final_output: Tensor | None = None

    def run(self, batch: Batch, seed: int) -> Measured:
        parameters = self._parameters()
        for domain, names in self.names.items():
            self.captured[domain, "weight"] = [parameters[name] for name in names]
        backward = "backward" in self.passes
        if backward or "forward" in self.passes:
            with self._hooks(), torch.set_grad_enabled(backward):
                loss = self._loss(parameters, batch, seed)
                self._capture_gradients(loss)
        return {statistic: self._matrices(statistic) for statistic in self.wanted}

    def _matrices(self, statistic: Statistic) -> list[Tensor]:
        quantity = QUANTITIES[statistic.quantity]
        read = [self.captured.get((statistic.domain, c), []) for c in quantity.reads]
        if quantity.of_parameters:  # a convolution's become matrices
            read = [[values.flatten(1) for values in own] for own in read]
        return [quantity.matrix(*values) for values in zip(*read, strict=True)]

    def _parameters(self) -> dict[str, Tensor]:
        """Detached parameters; only those whose gradient is wanted take part in autograd."""
        magnitude = self.probe == "ones"
        detached = {
            name: parameter.detach().abs() if magnitude else parameter.detach()
            for name, parameter in self.network.named_parameters()
        }
        for domain, names in self.names.items():
            if (domain, "weight_grad") in self.captures:
                for name in names:
                    detached[name].requires_grad_()
        return detached

    @contextlib.contextmanager
    def _hooks(self) -> Iterator[None]:
        handles = [self.network.final_block.register_forward_hook(self._keep_final)]
        for domain, modules in self.modules.items():
            if {(domain, "output"), (domain, "output_grad"), (domain, "input")} & self.captures:
                self.captured.update({(domain, "input"): [], (domain, "output"): []})
                keep = partial(self._keep, domain)
                handles += [module.register_forward_hook(keep) for module in modules]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _keep(
        self, domain: str, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor
    ) -> None:
        if torch.is_grad_enabled() and not output.requires_grad:
            output.requires_grad_()  # the first activation, where no weight's gradient is wanted
        if (domain, "input") in self.captures:
            self.captured[domain, "input"].append(inputs[0])
        self.captured[domain, "output"].append(output)

    def _keep_final(
        self, module: nn.Module, inputs: object, output: Tensor | tuple[Tensor, ...]
    ) -> None:
        self.final_output = output[0] if isinstance(output, tuple) else output

    def _loss(self, parameters: dict[str, Tensor], batch: Batch, seed: int) -> Tensor:
        device = next(iter(parameters.values())).device
        inputs = batch.inputs.to(device)
        # Copies of the buffers: running averages change in a pass.
        state = parameters | {name: b.clone() for name, b in self.network.named_buffers()}
        if self.probe == "ones":
            output: Tensor = functional_call(self.network, state, (self.network.ones(inputs),))
            return output.sum()
        output = functional_call(self.network, state, (inputs,))
        if self.probe == "data":
            return cross_entropy(output, batch.labels.to(device))
        if self.final_output is None:
            raise RuntimeError("the forward pass must run the network's final block")
        generator = torch.Generator().manual_seed(seed)
        signs = torch.randint(0, 2, self.final_output.shape, generator=generator) * 2.0 - 1.0
        return (self.final_output * signs.to(device)).sum()

    def _capture_gradients(self, loss: Tensor) -> None:
        sources = {
            (domain, capture): self.captured.get((domain, capture.removesuffix("_grad")), [])
            for domain, capture in sorted(self.captures)
            if capture.endswith("_grad")
        }
        flat = [tensor for tensors in sources.values() for tensor in tensors]
        if flat:
            gradients = iter(torch.autograd.grad(loss, flat, materialize_grads=True))
            for key, tensors in sources.items():
                self.captured[key] = [next(gradients) for _ in tensors]


@dataclass(frozen=True)
class Setting:
    """All that statistics depend on besides the network."""

    batches: Mapping[str, Batch]  # a mini-batch of each dataset
    thin: int = 1
    device: torch.device = CPU

    @cached_property
    def _digests(self) -> dict[str, tuple[str, str]]:
        return {d: (_digest(b.inputs), _digest(b.labels)) for d, b in self.batches.items()}

    def measure(
        self, network: UntrainedNetwork, needs: Mapping[str, Collection[Statistic]]
    ) -> Iterator[tuple[str, Measured]]:
        """What is needed of one dataset after another, all from one build of the network."""
        prepare = network.build(self.device)
        for dataset, statistics in needs.items():
            batch = self.batches[dataset]
            built = prepare(batch.classes)
            yield dataset, collect(built, batch, statistics, seed=network.seed, thin=self.thin)

    def key(self, network: UntrainedNetwork, dataset: str, statistic: Statistic) -> str:
        """Hash of everything that the statistic depends on, and of nothing else."""
        quantity = QUANTITIES[statistic.quantity]
        depends: list[object] = [
            FORMAT,
            VERSION,
            torch.__version__,
            self.device.type,
            torch.backends.cpu.get_cpu_capability(),  # other instructions add in another order
            *network.identity,
            self.thin,
            *dataclasses.astuple(statistic),
            code_digest(quantity.matrix),
        ]
        needs = quantity.needs
        inputs, labels = self._digests[dataset]
        if needs != "none" and statistic.probe != "ones":
            depends.append(inputs)
        if needs == "backward" and statistic.probe == "data":
            depends.append(labels)
        if (needs == "backward" and statistic.probe != "ntk") or statistic.domain == "head":
            depends.append(self.batches[dataset].classes)
        return hashlib.sha256(json.dumps(depends).encode()).hexdigest()


def _digest(tensor: Tensor) -> str:
    return hashlib.sha256(tensor.cpu().contiguous().numpy().tobytes()).hexdigest()


def resolve_device(name: str) -> str:
    """The device that is meant: `auto` is CUDA, else MPS, else the CPU."""
    usable = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return next(device for device, found in usable.items() if found)
    if name not in DEVICES:
        raise ConfigError(f"unknown device {name!r}{nearest(name, DEVICES)}")
    if not usable[name]:
        here = ", ".join(["auto", *(device for device, found in usable.items() if found)])
        raise ConfigError(f"a device must be there, but {name!r} is not; choose from {here}")
    return name
