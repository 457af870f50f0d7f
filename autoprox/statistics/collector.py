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
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import version

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from autoprox.errors import ConfigError, nearest
from autoprox.files.code import code_digest
from autoprox.inputs.batch import IGNORED_LABEL, Batch
from autoprox.language import Statistic
from autoprox.language.quantities import QUANTITIES
from autoprox.searchspaces.tokens import LanguageNetwork
from autoprox.statistics.networks import Layered, UntrainedNetwork, every_layer

CPU = torch.device("cpu")
DEVICES = ("auto", "cpu", "cuda", "mps")
VERSION = version("autoprox")
FORMAT = 2  # of what is measured: raised when the same network would give other values
Capture = tuple[str, str]  # a domain, and what of its layers: see `quantities.CAPTURES`
Captured = dict[Capture, list[Tensor]]  # a tensor a layer, in depth order
Measured = dict[Statistic, list[Tensor]]  # one 2-D float32 matrix a layer, in depth order


def collect(
    network: Layered,
    batch: Batch,
    needs: Collection[Statistic],
    *,
    seed: int = 0,
    thin: int = 1,
    passes: Passes | None = None,
) -> Measured:
    """Measure `needs` on `network`, which is left as it was found.

    `thin` keeps every thin-th row and column of each matrix. Statistics of domains of several, as
    ``all``, are asked for as those of their parts. `passes` are those of the same trunk, if other
    datasets or functions share them.
    """
    shared = passes or Passes(needs)
    measured: Measured = {}
    for probe in sorted({statistic.probe for statistic in needs}):
        wanted = [statistic for statistic in needs if statistic.probe == probe]
        values = shared.run(network, batch, probe, captures_of(wanted), seed)
        for statistic in wanted:
            quantity = QUANTITIES[statistic.quantity]
            read = [values.get((statistic.domain, capture), []) for capture in quantity.reads]
            if quantity.of_parameters:  # a convolution's become matrices
                read = [[value.flatten(1) for value in own] for own in read]
            matrices = [quantity.matrix(*own) for own in zip(*read, strict=True)]
            measured[statistic] = [_as_matrix(matrix, thin) for matrix in matrices]
    return measured


def captures_of(statistics: Iterable[Statistic]) -> set[Capture]:
    """What these statistics read of the layers."""
    return {(s.domain, own) for s in statistics for own in QUANTITIES[s.quantity].reads}


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """The mean over a batch: of images, logits [batch, classes], or of the tokens of sequences."""
    return functional.cross_entropy(
        logits.flatten(0, -2), labels.flatten(), ignore_index=IGNORED_LABEL
    )


def _as_matrix(values: Tensor, thin: int) -> Tensor:
    """The tokens of all samples are rows; a copy, so that the network's memory can be freed."""
    kept = values.detach()[..., ::thin, ::thin]
    return kept.to(torch.float32, memory_format=torch.contiguous_format, copy=True).flatten(0, -2)


class Passes:
    """The passes through one build of a network, which its probes and datasets share.

    The probes `data` and `ntk` have one forward pass. Datasets of the same inputs differ in their
    heads alone, so that the trunk's forward pass is run once for all of them.
    """

    def __init__(self, needs: Iterable[Statistic], captures: Collection[Capture] = ()) -> None:
        """`needs` are the statistics of all datasets, `captures` what else is read of `data`."""
        self._captures: dict[bool, set[Capture]] = {False: set(captures), True: set()}
        for statistic in needs:
            self._captures[statistic.probe == "ones"] |= captures_of([statistic])
        self._forwards: dict[bool, Forward] = {}
        self._planned: dict[str, set[Capture]] = {}
        self._known: dict[str, Captured] = {}

    def plan(self, needs: Iterable[Statistic], captures: Collection[Capture] = ()) -> None:
        """Say what several readers need of the next dataset, so that they share its passes.

        Their gradients are kept until the next plan.
        """
        read = {own for own in captures if own != ("source", "output_grad")}
        self._known, self._planned = {}, defaultdict(set, {"data": read})
        for statistic in needs:
            self._planned[statistic.probe] |= captures_of([statistic])

    def run(
        self, network: Layered, batch: Batch, probe: str, captures: Collection[Capture], seed: int
    ) -> Captured:
        """What is captured of a probe's pass: without one for weights, forward for activations."""
        if self._known.get(probe, {}).keys() >= set(captures):
            return self._known[probe]
        found = self._run(network, batch, probe, {*captures, *self._planned.get(probe, ())}, seed)
        if self._planned:
            self._known[probe] = found
        return found

    def _run(
        self, network: Layered, batch: Batch, probe: str, captures: set[Capture], seed: int
    ) -> Captured:
        kinds = {capture for _, capture in captures}
        if kinds <= {"weight"}:
            names = layer_names(network, {domain for domain, _ in captures})
            parameters = parameters_of(network, probe == "ones")
            return {(d, "weight"): [parameters[name] for name in own] for d, own in names.items()}
        forward = self.forward(network, batch, probe == "ones")
        found = {key: forward.captured.get(key, []) for key in captures}
        if any(kind.endswith("_grad") for kind in kinds):
            with torch.enable_grad():
                loss = _loss(probe, forward, batch, seed)
            found |= forward.gradients(loss, captures)
        return found

    def forward(self, network: Layered, batch: Batch, ones: bool = False) -> Forward:
        """The forward pass of a batch, or of the all-ones input, with the network's head."""
        inputs = batch.inputs.to(next(network.parameters()).device)
        inputs = network.ones(inputs) if ones else inputs
        known = self._forwards.get(ones)
        if known is None or not known.take_head(network, inputs):
            self._forwards.pop(ones, None)  # before another takes its memory
            known = self._forwards[ones] = Forward(network, inputs, self._captures[ones], ones)
        return known


class Forward:
    """A forward pass with plain parameters or their magnitudes, and its autograd graph.

    `captured` has the weights, inputs and outputs of the layers that are read, by domain, and as
    the output of ``source`` the batch as real numbers: the images, or the embeddings of the tokens.
    """

    def __init__(
        self, network: Layered, inputs: Tensor, captures: Collection[Capture], magnitude: bool
    ) -> None:
        self._captures, self._inputs, self._magnitude = set(captures), inputs, magnitude
        self._grad = any(capture.endswith("_grad") for _, capture in captures)
        self.captured: Captured = {}
        self.final_output: Tensor | None = None
        self._head = getattr(network, "head", None)
        self._trunk: tuple[Tensor, Tensor] | None = None  # what the head took and gave
        names = layer_names(network, {domain for domain, _ in captures})
        parameters = self._parameters(parameters_of(network, magnitude), names)
        for domain, own in names.items():
            self.captured[domain, "weight"] = [parameters[name] for name in own]
        # Copies of the buffers: running averages change in a pass.
        state = parameters | {name: b.clone() for name, b in network.named_buffers()}
        with self._hooks(network), torch.set_grad_enabled(self._grad):
            if ("source", "output") in captures:
                inputs = source_of(network, inputs).detach().requires_grad_(self._grad)
                self.captured["source", "output"] = [inputs]
            self.output: Tensor = functional_call(network, state, (inputs,))

    def _parameters(
        self, parameters: dict[str, Tensor], names: Mapping[str, list[str]]
    ) -> dict[str, Tensor]:
        """Only those whose gradient is wanted take part in autograd."""
        for domain, own in names.items():
            if (domain, "weight_grad") in self._captures:
                for name in own:
                    parameters[name].requires_grad_()
        return parameters

    def take_head(self, network: Layered, inputs: Tensor) -> bool:
        """Go on from the same trunk and inputs to the network's present head, if that can be."""
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
        names = {"head": ["weight"]} if measured else {}
        parameters = self._parameters(parameters_of(head, self._magnitude), names)
        with torch.set_grad_enabled(self._grad):
            self.output = functional_call(head, parameters, (self._trunk[0],))
            self._require_grad(self.output)
        self._head, self._trunk = head, (self._trunk[0], self.output)
        if measured:
            new = {"weight": parameters["weight"], "input": self._trunk[0], "output": self.output}
            self.captured |= {("head", name): [value] for name, value in new.items()}
        return True

    def gradients(self, loss: Tensor, wanted: Collection[Capture]) -> Captured:
        """Those of the loss that are wanted; the graph stays."""
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
    def _hooks(self, network: Layered) -> Iterator[None]:
        handles = [network.final_block.register_forward_hook(self._keep_final)]
        if self._head is not None:
            handles.append(self._head.register_forward_hook(self._keep_head))
        read = {domain for domain, capture in self._captures if not capture.startswith("weight")}
        for domain, layer in every_layer(network):
            if domain in read:
                handles.append(layer.register_forward_hook(partial(self._keep, domain)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _keep(
        self, domain: str, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor
    ) -> None:
        self._require_grad(output)
        self.captured.setdefault((domain, "input"), []).append(inputs[0])
        self.captured.setdefault((domain, "output"), []).append(output)

    def _require_grad(self, output: Tensor) -> None:
        if torch.is_grad_enabled() and not output.requires_grad:
            output.requires_grad_()  # the first activation, where no weight's gradient is wanted

    def _keep_head(self, module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        self._trunk = inputs[0], output

    def _keep_final(
        self, module: nn.Module, inputs: object, output: Tensor | tuple[Tensor, ...]
    ) -> None:
        self.final_output = output[0] if isinstance(output, tuple) else output


def layer_names(network: Layered, domains: Collection[str]) -> dict[str, list[str]]:
    """The names of the weights of each domain's layers, in depth order."""
    names = {id(p): name for name, p in network.named_parameters()}
    found: dict[str, list[str]] = defaultdict(list)
    for domain, layer in every_layer(network):
        if domain in domains:
            found[domain].append(names[id(layer.weight)])
    return found


def source_of(network: Layered, inputs: Tensor) -> Tensor:
    """A batch as real numbers: the images, or the embeddings of the tokens."""
    if isinstance(network, LanguageNetwork):
        return functional.embedding(inputs, network.embedding.weight.detach())
    return inputs


def parameters_of(module: nn.Module, magnitude: bool) -> dict[str, Tensor]:
    """The detached parameters, or their magnitudes."""
    return {
        name: parameter.detach().abs() if magnitude else parameter.detach()
        for name, parameter in module.named_parameters()
    }


def _loss(probe: str, forward: Forward, batch: Batch, seed: int) -> Tensor:
    if probe == "ones":
        return forward.output.sum()
    if probe == "data":
        return cross_entropy(forward.output, batch.labels.to(forward.output.device))
    if forward.final_output is None:
        raise RuntimeError("the forward pass must run the network's final block")
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, forward.final_output.shape, generator=generator) * 2.0 - 1.0
    return (forward.final_output * signs.to(forward.final_output.device)).sum()


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
        passes = Passes(statistic for own in needs.values() for statistic in own)
        for dataset, statistics in needs.items():
            batch = self.batches[dataset]
            built = prepare(batch.classes)
            options = {"seed": network.seed, "thin": self.thin}
            yield dataset, collect(built, batch, statistics, **options, passes=passes)

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
