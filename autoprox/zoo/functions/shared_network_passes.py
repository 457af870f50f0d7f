"""The passes through one untrained network that measures share, each run once and when needed."""

import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from autoprox.errors import AutoproxError
from autoprox.inputs.batch import IGNORED_LABEL, Batch
from autoprox.searchspaces import TransformerNetwork
from autoprox.statistics import collector

LINEAR_DOMAINS = ("msa", "mlp")  # of the linear layers in blocks
SHARED_PASSES = ("forward", "loss_gradients", "weight_gradients", "logit_gradients", "kernel")
BLOCK_CAPTURES = (("block", "input"), ("block", "output"))
# Inputs and outputs of linear layers and of blocks, in depth order.
_LayerValues = dict[nn.Module, tuple[Tensor, Tensor]]


class FunctionProxyError(AutoproxError):
    """A measure that doesn't exist, or that can't be computed for this network or batch."""


def proxy_captures(needs: Collection[str]) -> set[collector.LayerCapture]:
    """The values that measures with these needs read of the passes for statistics."""
    if not needs:
        return set()
    kinds = ("input", "output", *(["output_grad"] if "loss_gradients" in needs else []))
    # The gradient of the source is taken of the logits alone, from the forward pass's graph.
    found = {("source", "output"), ("source", "output_grad"), *BLOCK_CAPTURES}
    return found | {(domain, kind) for domain in LINEAR_DOMAINS for kind in kinds}


class UnfusedAttention(TorchFunctionMode):
    """Computes attention by operations that can be differentiated twice: the fused kernel can't."""

    def __torch_function__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Called for every torch function, whose value it replaces."""
        fused = func is functional.scaled_dot_product_attention
        return (unfused_attention if fused else func)(*args, **(kwargs or {}))


def unfused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    *,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Compute `scaled_dot_product_attention` without dropout."""
    scores = query @ key.mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if attn_mask is not None:
        is_bool = attn_mask.dtype == torch.bool
        scores = scores.masked_fill(~attn_mask, -torch.inf) if is_bool else scores + attn_mask
    return scores.softmax(-1) @ value


@dataclass(frozen=True)
class MeasuredLayer:
    """A linear layer in a forward pass; input and output are [samples, tokens, features].

    `name` is that of the attribute of its block.
    """

    name: str
    domain: str
    weight: Tensor
    input: Tensor
    output: Tensor


@dataclass(frozen=True)
class MeasuredForwardPass:
    """A forward pass with its autograd graph: from the source by the layers' outputs to logits.

    `block_values` are the input and the output of each block, in the graph as well.
    """

    source: Tensor
    outputs: list[Tensor]
    logits: Tensor
    blocks: list[list[MeasuredLayer]]
    block_values: list[tuple[Tensor, Tensor]]

    @property
    def layers(self) -> list[MeasuredLayer]:
        """The linear layers of all blocks, in depth order."""
        return [layer for block in self.blocks for layer in block]


class SharedNetworkPasses:
    """The passes of one network and one batch that measures read, run when they are first read.

    The network stays as it was: its parameters take part detached, its hooks are removed. A sample
    is an image or a sequence. Samples mustn't influence each other, as they would by batch norm in
    training mode. `seed` draws what is random in a measure, the curve of `ld` and the weights of
    `naswot`: networks to be compared are given the same. `shared` are passes of the network, of
    which `proxy_captures` were read.
    """

    def __init__(
        self,
        network: TransformerNetwork,
        batch: Batch,
        seed: int = 0,
        shared: collector.SharedStatisticPasses | None = None,
    ) -> None:
        self._batch, self._shared = batch, shared
        self.network = network
        self.inputs = batch.inputs.to(network.device)
        self.labels = batch.labels.to(network.device)
        self.seed = seed
        self.parameters = {name: p.detach() for name, p in network.named_parameters()}
        self._source: Tensor | None = None

    def changed(
        self, parameters: Mapping[str, Tensor], source: Tensor | None = None
    ) -> "SharedNetworkPasses":
        """The same passes with other values of some parameters, and of another source."""
        other = copy.copy(self)
        other.release(())
        other._shared = None
        other.parameters = {**self.parameters, **parameters}
        other._source = self._source if source is None else source
        return other

    def redrawn(self) -> "SharedNetworkPasses":
        """The same passes with linear layers and convolutions redrawn from N(0, 1), biases 0."""
        drawn: dict[str, Tensor] = {}
        generator = torch.Generator().manual_seed(self.seed)
        for name, module in self.network.named_modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                weight = torch.randn(module.weight.shape, generator=generator)
                drawn[f"{name}.weight"] = weight.to(module.weight)
                if module.bias is not None:
                    drawn[f"{name}.bias"] = torch.zeros_like(module.bias)
        return self.changed(drawn)

    @property
    def samples(self) -> int:
        """The number of images or sequences in the batch."""
        return len(self.inputs)

    def require_samples(self, name: str) -> None:
        """Raise the error of a measure that compares samples if there is only one."""
        if self.samples < 2:
            raise FunctionProxyError(
                f"{name} compares samples: the batch must have at least 2, but has {self.samples}"
            )

    def release(self, needed: Collection[str]) -> None:
        """Forget the shared passes that aren't needed any more, and free their memory."""
        for name in SHARED_PASSES:
            if name not in needed:
                self.__dict__.pop(name, None)

    @property
    def source(self) -> Tensor:
        """The batch as real numbers: the images, or the embeddings of the tokens."""
        if self._source is not None:
            return self._source
        return collector.differentiable_input(self.network, self.inputs)

    @cached_property
    def forward(self) -> MeasuredForwardPass:
        """A forward pass of the batch."""
        if self._shared is None:
            seen, source, logits = self._own_forward()
        else:
            seen, source, logits = self._shared_forward(self._shared)
        names = {module: name.split(".")[-1] for name, module in self.network.named_modules()}
        weights = iter(self.weight_names)

        def layer(domain: str, linear: nn.Linear) -> MeasuredLayer:
            input_, output = map(self._by_sample, seen[linear])
            weight = self.parameters[next(weights)]
            return MeasuredLayer(names[linear], domain, weight, input_, output)

        own = self.network.transformer_blocks
        return MeasuredForwardPass(
            source,
            outputs=[seen[linear][1] for _, linear in self.network.layers()],
            logits=logits,
            blocks=[[layer(domain, linear) for domain, linear in block.linears()] for block in own],
            block_values=[seen[block] for block in own],
        )

    def _own_forward(self) -> tuple[_LayerValues, Tensor, Tensor]:
        seen: _LayerValues = {}

        def keep(module: nn.Module, inputs: tuple[Tensor], output: Tensor) -> None:
            seen[module] = (inputs[0], output)

        source = self.source.detach().requires_grad_()
        with ExitStack() as stack, torch.enable_grad():
            for _, linear in self.network.layers():
                stack.callback(linear.register_forward_hook(keep).remove)
            for block in self.network.transformer_blocks:
                stack.callback(block.register_forward_hook(keep).remove)
            logits: Tensor = functional_call(self.network, self.parameters, (source,))
        return seen, source, logits

    def _shared_forward(
        self, shared: collector.SharedStatisticPasses
    ) -> tuple[_LayerValues, Tensor, Tensor]:
        """The forward pass from which the network's statistics were read."""
        forward = shared.forward(self.network, self._batch)
        read = forward.captured
        pairs = {d: zip(read[d, "input"], read[d, "output"], strict=True) for d in LINEAR_DOMAINS}
        seen: _LayerValues = {
            linear: next(pairs[domain]) for domain, linear in self.network.layers()
        }
        block_values = zip(*(read[capture] for capture in BLOCK_CAPTURES), strict=True)
        seen |= dict(zip(self.network.transformer_blocks, block_values, strict=True))
        return seen, read["source", "output"][0], forward.output

    @cached_property
    def finite(self) -> bool:
        """Whether all logits are finite."""
        return bool(self.forward.logits.isfinite().all())

    def _by_sample(self, values: Tensor) -> Tensor:
        """[samples, tokens, features] of a layer that may see each sample in several parts."""
        return values.detach().reshape(self.samples, -1, values.shape[-1])

    @cached_property
    def loss_gradients(self) -> list[Tensor]:
        """Gradients of the mean cross-entropy by layers' outputs [samples, tokens, features]."""
        if self._shared is not None:
            wanted = [(domain, "output_grad") for domain in LINEAR_DOMAINS]
            found = self._shared.run(self.network, self._batch, "data", wanted, 0)
            each = {domain: iter(found[domain, "output_grad"]) for domain in LINEAR_DOMAINS}
            gradients = [next(each[domain]) for domain, _ in self.network.layers()]
            return list(map(self._by_sample, gradients))
        with torch.enable_grad():
            loss = collector.batch_cross_entropy(self.forward.logits, self.labels)
        return list(map(self._by_sample, _backward(loss, self.forward.outputs)))

    @cached_property
    def logit_gradients(self) -> tuple[list[Tensor], Tensor]:
        """Gradients of the sum of all logits, by layers' outputs and by the source."""
        with torch.enable_grad():
            total = self.forward.logits.sum()
        *deltas, source = _backward(total, [*self.forward.outputs, self.forward.source])
        return list(map(self._by_sample, deltas)), source

    @cached_property
    def weight_gradients(self) -> list[Tensor]:
        """Gradients of the batch's mean cross-entropy by each layer's weight."""
        pairs = zip(self.loss_gradients, self.forward.layers, strict=True)
        return [delta.flatten(0, 1).mT @ layer.input.flatten(0, 1) for delta, layer in pairs]

    def sample_gradients(self) -> Iterator[Tensor]:
        """Gradients of each sample's mean cross-entropy by a layer's weight: [samples, out, in]."""
        counts = self.labels.ne(IGNORED_LABEL).reshape(self.samples, -1).sum(1)
        share = (counts / counts.sum()).view(-1, 1, 1)
        for delta, layer in zip(self.loss_gradients, self.forward.layers, strict=True):
            yield (delta / share).mT @ layer.input

    @cached_property
    def kernel(self) -> Tensor:
        """The neural tangent kernel [samples, samples] float64.

        Its function is the sum of a sample's logits, its parameters are the layers' weights.
        """
        kernel = torch.zeros(self.samples, self.samples, dtype=torch.float64)
        for delta, layer in zip(self.logit_gradients[0], self.forward.layers, strict=True):
            gradients = (delta.mT @ layer.input).flatten(1).double()
            kernel += (gradients @ gradients.mT).cpu()
        return kernel

    def loss(self, weights: dict[str, Tensor]) -> Tensor:
        """The batch's mean cross-entropy with these weights, twice differentiable by them."""
        with UnfusedAttention():
            logits = functional_call(self.network, self.parameters | weights, (self.source,))
        return collector.batch_cross_entropy(logits, self.labels)

    def weights(self) -> dict[str, Tensor]:
        """The weights of the linear layers of all blocks, as leaves to differentiate by."""
        return {name: self.parameters[name].detach().requires_grad_() for name in self.weight_names}

    @property
    def weight_names(self) -> list[str]:
        """The names of the weights of the linear layers of all blocks, in depth order."""
        names = {id(p): name for name, p in self.network.named_parameters()}
        return [names[id(linear.weight)] for _, linear in self.network.layers()]

    @torch.no_grad()
    def features(self, source: Tensor) -> Tensor:
        """The final block's output for these images or embeddings."""
        outputs: list[Tensor] = []
        block = self.network.final_block
        handle = block.register_forward_hook(lambda module, inputs, output: outputs.append(output))
        try:
            functional_call(self.network, self.parameters, (source,))
        finally:
            handle.remove()
        return outputs[0]


def _backward(value: Tensor, nodes: list[Tensor]) -> tuple[Tensor, ...]:
    return torch.autograd.grad(value, nodes, retain_graph=True, materialize_grads=True)
