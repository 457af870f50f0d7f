"""The layers that the transformers of every search space are made of."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

Layer = nn.Linear | nn.Conv2d
LinearRule = Callable[[nn.Linear, torch.Generator], None]
N = TypeVar("N", bound="TransformerNetwork")

# The head has a random stream of its own, so that neither it nor the trunk depends on the other.
_HEAD_STREAM = 0x68656164


@dataclass(frozen=True)
class Block:
    """The structure of one pre-norm transformer block.

    `width` is its embedding dimension, `tokens` its sequence length including the class token,
    `inner` the width of its queries, of its keys and of its values, `hidden` that between fc1 and
    fc2.
    """

    width: int
    tokens: int
    heads: int
    inner: int
    hidden: int

    @property
    def params(self) -> int:
        """The number of parameters: two LayerNorms, qkv, proj, fc1 and fc2, with their biases."""
        norms = 4 * self.width
        attention = (self.width + 1) * 3 * self.inner + (self.inner + 1) * self.width
        mlp = (self.width + 1) * self.hidden + (self.hidden + 1) * self.width
        return norms + attention + mlp

    @property
    def macs(self) -> int:
        """Multiply-accumulates for one image: the linear layers, the two products of attention."""
        linear = self.tokens * self.width * (4 * self.inner + 2 * self.hidden)
        return linear + 2 * self.tokens**2 * self.inner


class Linear(nn.Linear):
    """`nn.Linear` without its default initialisation, which `initialise` would only overwrite."""

    def reset_parameters(self) -> None:
        """Leave the parameters unset."""


class Conv2d(nn.Conv2d):
    """`nn.Conv2d` without its default initialisation, which `initialise` would only overwrite."""

    def reset_parameters(self) -> None:
        """Leave the parameters unset."""


class Embedding(nn.Embedding):
    """`nn.Embedding` without its default initialisation, which `initialise` would overwrite."""

    def reset_parameters(self) -> None:
        """Leave the parameters unset."""


def fan_in_uniform_(layer: Layer, generator: torch.Generator) -> None:
    """PyTorch's default rule: weights and biases uniform within 1 / sqrt(fan in)."""
    bound = 1 / math.sqrt(layer.weight[0].numel())
    layer.weight.uniform_(-bound, bound, generator=generator)
    if layer.bias is not None:
        layer.bias.uniform_(-bound, bound, generator=generator)


def normal_(layer: nn.Linear, generator: torch.Generator) -> None:
    """DeiT's rule: weights normal with standard deviation 0.02, biases zero.

    The published code truncates at a hundred standard deviations, which is no truncation at all.
    """
    layer.weight.normal_(0.0, 0.02, generator=generator)
    if layer.bias is not None:
        layer.bias.zero_()


class TransformerBlock(nn.Module):
    """A block whose linear layers are measured; this default is of one with qkv, proj, fc1, fc2.

    Where it is `entangled`, its parameters are in an order in which those of a smaller block are
    the first, in every dimension.
    """

    heads: int
    entangled = False

    def linears(self) -> list[tuple[str, nn.Linear]]:
        """Its linear layers with their domain, in the order in which the input passes them."""
        named = (("msa", "qkv"), ("msa", "proj"), ("mlp", "fc1"), ("mlp", "fc2"))
        return [(domain, self.get_submodule(name)) for domain, name in named]  # type: ignore[misc]

    def projections(self) -> list[nn.Linear]:
        """The layers that make its queries, keys and values: here the first."""
        return [layer for _, layer in self.linears()[:1]]

    def branches(self) -> Sequence[nn.Module]:
        """What has outputs that are added to the block's input: the last layer of each domain."""
        return list(dict(self.linears()).values())

    def reorder(self, entangled: bool) -> None:
        """Bring the parameters into the entangled order, or back; what it computes stays."""
        self.entangled = entangled


class EncoderBlock(TransformerBlock):
    """A pre-norm transformer block: self-attention, then an MLP with GELU, each residual."""

    def __init__(self, shape: Block) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm1 = nn.LayerNorm(shape.width, eps=1e-6)
        self.qkv = Linear(shape.width, 3 * shape.inner)
        self.proj = Linear(shape.inner, shape.width)
        self.norm2 = nn.LayerNorm(shape.width, eps=1e-6)
        self.fc1 = Linear(shape.width, shape.hidden)
        self.fc2 = Linear(shape.hidden, shape.width)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens [batch, tokens, width] to tokens of the same shape."""
        x = x + self.attend(self.norm1(x))
        hidden: Tensor = self.fc2(functional.gelu(self.fc1(self.norm2(x))))
        return x + hidden

    def attend(self, x: Tensor) -> Tensor:
        """Multi-head self-attention over tokens [batch, tokens, width]."""
        sizes, part, head = ((self.heads, 3), 3, 2) if self.entangled else ((3, self.heads), 2, 3)
        qkv = self.qkv(x).unflatten(-1, (*sizes, -1))
        query, key, value = qkv.permute(
            part, 0, head, 1, 4
        )  # each [batch, heads, tokens, head dim]
        mixed = self.mix(query, key, value)
        projected: Tensor = self.proj(mixed.transpose(1, 2).flatten(2))
        return projected

    @torch.no_grad()
    def reorder(self, entangled: bool) -> None:
        """Bring the rows of qkv from (3, heads, head dim) to (heads, 3, head dim), or back."""
        if entangled != self.entangled:
            sizes = (3, self.heads) if entangled else (self.heads, 3)
            for parameter in (self.qkv.weight, self.qkv.bias):
                parts = parameter.view(*sizes, -1, *parameter.shape[1:]).transpose(0, 1)
                parameter.copy_(parts.flatten(0, 2))
        super().reorder(entangled)

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """What each head finds, [batch, heads, tokens, head dim]."""
        return functional.scaled_dot_product_attention(query, key, value)


class Pooling(nn.Module):
    """What leads from one stage of a network to the next: a layer, or a module of layers."""


class TransformerNetwork(nn.Module):
    """An untrained network of a search space; a subclass has its stem, its blocks and its head.

    Parameters of the network itself, not of a layer, are embeddings: class token and positions.
    There is no dropout and no stochastic depth; batch norms, if any, pass their input on.
    """

    head: nn.Linear
    linear_rule: LinearRule = staticmethod(normal_)
    made_of: dict[str, Any]  # the arguments of its class, plain values

    def __new__(cls: type[N], *arguments: Any, **named: Any) -> N:
        """Remember the arguments, by which its source can be written."""
        network = super().__new__(cls)
        if arguments or named:
            bound = signature(cls.__init__).bind(network, *arguments, **named).arguments
            object.__setattr__(network, "made_of", dict(list(bound.items())[1:]))
        return network

    @property
    def transformer_blocks(self) -> list[TransformerBlock]:
        """The transformer blocks, in depth order."""
        return [module for module in self.modules() if isinstance(module, TransformerBlock)]

    @property
    def final_block(self) -> TransformerBlock:
        """The block whose output is the last block's output."""
        return self.transformer_blocks[-1]

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(self.parameters()).device

    def layers(self) -> list[tuple[str, nn.Linear]]:
        """The linear layers with their domain, ``msa`` or ``mlp``, block after block."""
        return [pair for block in self.transformer_blocks for pair in block.linears()]

    def extra_layers(self) -> list[tuple[str, Layer]]:
        """The layers of the domains beside those of `layers`, each with its domain.

        In depth order: ``stem``, the convolutions before the first block, which embed patches;
        ``qkv``, what makes the queries, keys and values of a block, which is also in ``msa``;
        ``pool``, the layers between stages; ``head``, the classifier, where it isn't the embedding.
        """
        found: list[tuple[str, Layer]] = []
        for module in self.modules():
            if isinstance(module, TransformerBlock):
                found += [("qkv", layer) for layer in module.projections()]
            elif isinstance(module, Pooling):
                parts = (part for part in module.modules() if isinstance(part, Layer))
                found += [("pool", part) for part in parts]
            elif isinstance(module, nn.Conv2d) and all(domain == "stem" for domain, _ in found):
                found.append(("stem", module))
        head = getattr(self, "head", None)
        return found if head is None else [*found, ("head", head)]

    def ones(self, inputs: Tensor) -> Tensor:
        """The input of the `ones` probe: a single one that is all ones."""
        return torch.ones_like(inputs[:1])

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Draw every parameter by the published rule from private generators seeded by `seed`."""
        generator = torch.Generator("cpu").manual_seed(seed)
        for embedding in self.parameters(recurse=False):
            embedding.normal_(0.0, 0.02, generator=generator)
        head = getattr(self, "head", None)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                fan_in_uniform_(module, generator)
            elif isinstance(module, nn.Embedding):
                module.weight.normal_(0.0, 0.02, generator=generator)
            elif isinstance(module, nn.Linear) and module is not head:
                self.linear_rule(module, generator)
        if head is not None:
            self.reset_head(head.out_features, seed)

    @torch.no_grad()
    def reset_head(self, classes: int, seed: int) -> None:
        """Replace the head by the one that building with these classes and seed would give."""
        old = self.head.weight
        head = Linear(self.head.in_features, classes)
        self.linear_rule(head, torch.Generator("cpu").manual_seed(seed ^ _HEAD_STREAM))
        self.head = head.to(old.device, old.dtype)
