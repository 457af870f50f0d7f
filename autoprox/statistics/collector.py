"""Measures an untrained network: the eight statistics, from only those passes that are needed.

Probes (the passes that statistics come from):

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
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from autoprox.errors import ConfigError, nearest
from autoprox.files.function_import_and_digest import code_digest
from autoprox.inputs.batch import IGNORED_LABEL, Batch
from autoprox.language import Statistic
from autoprox.language.quantities import QUANTITIES
from autoprox.searchspaces import TransformerNetwork
from autoprox.searchspaces.language_model_bases import LanguageNetwork
from autoprox.statistics.untrained_networks import (
    MeasurableNetwork,
    UntrainedNetwork,
    layers_with_domains,
)

CPU = torch.device("cpu")
DEVICES = ("auto", "cpu", "cuda", "mps")
CODE_VERSION = version("autoprox")
MEASUREMENT_FORMAT = 2  # raised when the same network would give other values
LayerCapture = tuple[str, str]  # a domain, and what of its layers: see `quantities.CAPTURES`
Captured = dict[LayerCapture, list[Tensor]]  # a tensor per layer, in depth order
MeasuredMatrices = dict[Statistic, list[Tensor]]  # a 2-D float32 matrix per layer, in depth order


def collect_statistics(
    network: MeasurableNetwork,
    batch: Batch,
    needs: Collection[Statistic],
    *,
    seed: int = 0,
    stride: int = 1,
    passes: SharedStatisticPasses | None = None,
) -> MeasuredMatrices:
    """Measure `needs` on `network`, which is left as it was found.

    Matrices are subsampled by `stride` in rows and columns. Statistics of composite domains, such
    as ``all``, are requested as those of their parts. `passes` are those of the same trunk, if
    other datasets or functions share them.
    """
    passes = passes or SharedStatisticPasses(needs)
    measured: MeasuredMatrices = {}
    for probe in sorted({statistic.probe for statistic in needs}):
        wanted = [statistic for statistic in needs if statistic.probe == probe]
        values = passes.run(network, batch, probe, captures_of(wanted), seed)
        for statistic in wanted:
            quantity = QUANTITIES[statistic.quantity]
            read = [values.get((statistic.domain, capture), []) for capture in quantity.reads]
            if quantity.of_parameters:  # a convolution's become matrices
                read = [[value.flatten(1) for value in own] for own in read]
            matrices = [quantity.matrix(*own) for own in zip(*read, strict=True)]
            measured[statistic] = [_as_matrix(matrix, stride) for matrix in matrices]
    return measured


def captures_of(statistics: Iterable[Statistic]) -> set[LayerCapture]:
    """Return what these statistics read of the layers."""
    return {(s.domain, own) for s in statistics for own in QUANTITIES[s.quantity].reads}


def batch_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean over a batch of images, [batch, classes], or over the tokens of sequences."""
    return functional.cross_entropy(
        logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORED_LABEL
    )


def _as_matrix(values: Tensor, stride: int) -> Tensor:
    """Make the tokens of all samples rows, in a copy, so that the network's memory can be freed."""
    kept = values.detach()[..., ::stride, ::stride]
    return kept.to(torch.float32, memory_format=torch.contiguous_format, copy=True).flatten(0, -2)


class SharedStatisticPasses:
    """The passes through one build of a network, which its probes and datasets share.

    The probes `data` and `ntk` have one forward pass. Datasets of the same inputs differ in their
    heads alone, so that the trunk's forward pass is run once for all of them.
    """

    def __init__(self, needs: Iterable[Statistic], captures: Collection[LayerCapture] = ()) -> None:
        """`needs` are the statistics of all datasets, `captures` what else is read of `data`."""
        self._captures: dict[bool, set[LayerCapture]] = {False: set(captures), True: set()}
        for statistic in needs:
            self._captures[statistic.probe == "ones"] |= captures_of([statistic])
        self._forwards: dict[bool, StatisticForwardPass] = {}
        self._planned: dict[str, set[LayerCapture]] = {}
        self._known: dict[str, Captured] = {}

    def plan(self, needs: Iterable[Statistic], captures: Collection[LayerCapture] = ()) -> None:
        """Announce what several readers need of the next dataset, so that they share its passes.

        Their gradients are kept until the next plan.
        """
        read = {own for own in captures if own != ("source", "output_grad")}
        self._known, self._planned = {}, defaultdict(set, {"data": read})
        for statistic in needs:
            self._planned[statistic.probe] |= captures_of([statistic])

    def run(
        self,
        network: MeasurableNetwork,
        batch: Batch,
        probe: str,
        captures: Collection[LayerCapture],
        seed: int,
    ) -> Captured:
        """Capture tensors of a probe's pass; weights need no pass, and activations no backward."""
        if self._known.get(probe, {}).keys() >= set(captures):
            return self._known[probe]
        wanted = {*captures, *self._planned.get(probe, ())}
        if all(kind == "weight" for _, kind in wanted):
            names = layer_names(network, {domain for domain, _ in wanted})
            weights = detached_parameters(network, probe == "ones")
            found = {(d, "weight"): [weights[name] for name in own] for d, own in names.items()}
        else:
            forward = self.forward(network, batch, probe == "ones")
            found = {key: forward.captured.get(key, []) for key in wanted}
            if any(kind.endswith("_grad") for _, kind in wanted):
                with torch.enable_grad():
                    loss = _loss(probe, forward, batch, seed)
                found |= forward.gradients(loss, wanted)
        if self._planned:
            self._known[probe] = found
        return found

    def forward(
        self, network: MeasurableNetwork, batch: Batch, ones: bool = False
    ) -> StatisticForwardPass:
        """Return the forward pass of a batch, or of the all-ones input, with the network's head."""
        inputs = batch.inputs.to(next(network.parameters()).device)
        inputs = network.ones(inputs) if ones else inputs
        known = self._forwards.get(ones)
        if known is None or not known.take_head(network, inputs):
            self._forwards.pop(ones, None)  # before another takes its memory
            known = self._forwards[ones] = StatisticForwardPass(
                network, inputs, self._captures[ones], ones
            )
        return known


class StatisticForwardPass:
    """A forward pass with plain parameters or their magnitudes, and its autograd graph.

    `captured` has the weights, inputs and outputs of the layers that are read, by domain, and as
    the output of ``source`` the batch as real numbers: the images, or the embeddings of the tokens.
    """

    def __init__(
        self,
        network: MeasurableNetwork,
        inputs: Tensor,
        captures: Collection[LayerCapture],
        magnitude: bool,
    ) -> None:
        self._captures, self._inputs, self._magnitude = set(captures), inputs, magnitude
        self._grad = any(capture.endswith("_grad") for _, capture in captures)
        self.captured: Captured = {}
        self.final_output: Tensor | None = None
        self._head = getattr(network, "head", None)
        self._trunk: tuple[Tensor, Tensor] | None = None  # the head's input and output
        names = layer_names(network, {domain for domain, _ in captures})
        parameters = self._parameters(network, names)
        self.captured |= {(d, "weight"): [parameters[n] for n in own] for d, own in names.items()}
        # Copies of the buffers: running averages change in a pass.
        state = parameters | {name: b.clone() for name, b in network.named_buffers()}
        with self._hooks(network), torch.set_grad_enabled(self._grad):
            if ("source", "output") in captures:
                inputs = differentiable_input(network, inputs).detach().requires_grad_(self._grad)
                self.captured["source", "output"] = [inputs]
            self.output: Tensor = functional_call(network, state, (inputs,))

    def _parameters(self, module: nn.Module, names: Mapping[str, list[str]]) -> dict[str, Tensor]:
        """Return the parameters; only those whose gradient is wanted take part in autograd."""
        parameters = detached_parameters(module, self._magnitude)
        for domain, own in names.items():
            if (domain, "weight_grad") in self._captures:
                for name in own:
                    parameters[name].requires_grad_()
        return parameters

    def take_head(self, network: MeasurableNetwork, inputs: Tensor) -> bool:
        """Continue from the same trunk and inputs to the network's present head, if possible."""
        if inputs is not self._inputs and (inputs.is_meta or not torch.equal(inputs, self._inputs)):
            return False
        head = getattr(network, "head", None)
        if head is self._head:
            return True
        if not isinstance(head, nn.Module) or self._trunk is None:
            return False
        if self._trunk[1] is not self.output:
            return False  # something follows the head
        measured = any(domain == "head" for domain, _ in self._captures)
        parameters = self._parameters(head, {"head": ["weight"]} if measured else {})
        with torch.set_grad_enabled(self._grad):
            self.output = functional_call(head, parameters, (self._trunk[0],))
            self._require_grad(self.output)
        self._head, self._trunk = head, (self._trunk[0], self.output)
        if measured:
            new = {"weight": parameters["weight"], "input": self._trunk[0], "output": self.output}
            self.captured |= {("head", name): [value] for name, value in new.items()}
        return True

    def gradients(self, loss: Tensor, wanted: Collection[LayerCapture]) -> Captured:
        """Return the wanted gradients of the loss; the graph is kept."""
        sources = {
            (domain, capture): self.captured.get((domain, capture.removesuffix("_grad")), [])
            for domain, capture in sorted(wanted)
            if capture.endswith("_grad")
        }
        flat = [tensor for tensors in sources.values() for tensor in tensors]
        if not flat:
            return {key: [] for key in sources}
        found = iter(torch.autograd.grad(loss, flat, retain_graph=True, materialize_grads=True))
        return {key: [next(found) for _ in tensors] for key, tensors in sources.items()}

    @contextlib.contextmanager
    def _hooks(self, network: MeasurableNetwork) -> Iterator[None]:
        def keep_final(module: nn.Module, inputs: Any, output: Any) -> None:
            self.final_output = output[0] if isinstance(output, tuple) else output

        def keep_head(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            self._trunk = inputs[0], output

        def keep(domain: str, module: nn.Module, inputs: Any, output: Tensor) -> None:
            self._require_grad(output)
            self.captured.setdefault((domain, "input"), []).append(inputs[0])
            self.captured.setdefault((domain, "output"), []).append(output)

        read = {domain for domain, capture in self._captures if not capture.startswith("weight")}
        with contextlib.ExitStack() as stack:
            stack.callback(network.final_block.register_forward_hook(keep_final).remove)
            if self._head is not None:
                stack.callback(self._head.register_forward_hook(keep_head).remove)
            modules: list[tuple[str, nn.Module]] = list(layers_with_domains(network))
            if isinstance(network, TransformerNetwork):
                modules += [("block", block) for block in network.transformer_blocks]
            for domain, module in modules:
                if domain in read:
                    stack.callback(module.register_forward_hook(partial(keep, domain)).remove)
            yield

    def _require_grad(self, output: Tensor) -> None:
        if torch.is_grad_enabled() and not output.requires_grad:
            output.requires_grad_()  # the first activation, if no weight's gradient is wanted


def layer_names(network: MeasurableNetwork, domains: Collection[str]) -> dict[str, list[str]]:
    """Return the names of the weights of each domain's layers, in depth order."""
    names = {id(p): name for name, p in network.named_parameters()}
    found: dict[str, list[str]] = defaultdict(list)
    for domain, layer in layers_with_domains(network):
        if domain in domains:
            found[domain].append(names[id(layer.weight)])
    return found


def differentiable_input(network: MeasurableNetwork, inputs: Tensor) -> Tensor:
    """Return a batch as real numbers: the images, or the embeddings of the tokens."""
    if isinstance(network, LanguageNetwork):
        return network.embed(inputs).detach()
    return inputs


def detached_parameters(module: nn.Module, magnitude: bool) -> dict[str, Tensor]:
    """Return the detached parameters, or their magnitudes."""
    detached = {name: parameter.detach() for name, parameter in module.named_parameters()}
    return {name: own.abs() for name, own in detached.items()} if magnitude else detached


def _loss(probe: str, forward: StatisticForwardPass, batch: Batch, seed: int) -> Tensor:
    if probe == "ones":
        return forward.output.sum()
    if probe == "data":
        return batch_cross_entropy(forward.output, batch.labels.to(forward.output.device))
    if forward.final_output is None:
        raise RuntimeError("the forward pass must run the network's final block")
    output, generator = forward.final_output, torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, output.shape, generator=generator) * 2.0 - 1.0
    return (output * signs.to(output.device)).sum()


@dataclass(frozen=True)
class MeasurementSetting:
    """All that statistics depend on besides the network."""

    batches: Mapping[str, Batch]  # a mini-batch of each dataset
    stride: int = 1
    device: torch.device = CPU

    @cached_property
    def _digests(self) -> dict[str, tuple[str, str]]:
        return {d: (_digest(b.inputs), _digest(b.labels)) for d, b in self.batches.items()}

    def measure(
        self, network: UntrainedNetwork, needs: Mapping[str, Collection[Statistic]]
    ) -> Iterator[tuple[str, MeasuredMatrices]]:
        """Measure one dataset after another, all from one build of the network."""
        prepare = network.build(self.device)
        passes = SharedStatisticPasses(statistic for own in needs.values() for statistic in own)
        for dataset, statistics in needs.items():
            batch = self.batches[dataset]
            built = prepare(batch.classes)
            options = {"seed": network.seed, "stride": self.stride}
            yield dataset, collect_statistics(built, batch, statistics, **options, passes=passes)

    def key(self, network: UntrainedNetwork, dataset: str, statistic: Statistic) -> str:
        """Return a hash of everything that the statistic depends on, and of nothing else."""
        quantity = QUANTITIES[statistic.quantity]
        depends: list[object] = [
            MEASUREMENT_FORMAT,
            CODE_VERSION,
            torch.__version__,
            self.device.type,
            torch.backends.cpu.get_cpu_capability(),  # other instructions add in another order
            *network.identity,
            self.stride,
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
    """Return the device that a name stands for: `auto` is CUDA, else MPS, else the CPU."""
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    available = [*(["cuda"] if cuda else []), *(["mps"] if mps else []), "cpu"]
    if name not in DEVICES:
        raise ConfigError(f"unknown device {name!r}{nearest(name, DEVICES)}")
    if name not in ("auto", *available):
        choices = ", ".join(["auto", *available])
        raise ConfigError(f"a device must be available, but {name!r} is not; choose from {choices}")
    return available[0] if name == "auto" else name
