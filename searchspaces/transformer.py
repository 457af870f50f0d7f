"""The layers, blocks and networks that the transformers of every search space are made of."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

Layer = nn.Linear | nn.Conv2d
InitRule = Callable[[Any, torch.Generator], None]
N = TypeVar("N", bound="TransformerNetwork")

CHANNELS = 3  # of an image

# The head and, in some networks, convolutions have random streams of their own, so that they and
# the other layers don't depend on each other.
_HEAD_STREAM = 0x68656164
_CONVOLUTION_STREAM = 0x636F6E76


@dataclass(frozen=True)
class BlockSpec:
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


class Uninitialised(nn.Module):
    """A layer without its default initialisation, which `initialise` would only overwrite."""

    __call__: Callable[..., Tensor]

    def reset_parameters(self) -> None:
        """Leave the parameters unset."""


class Linear(Uninitialised, nn.Linear):
    """`nn.Linear` with unset parameters."""


class Conv2d(Uninitialised, nn.Conv2d):
    """`nn.Conv2d` with unset parameters."""


class Embedding(Uninitialised, nn.Embedding):
    """`nn.Embedding` with unset parameters."""


def fan_in_uniform_(layer: Layer, generator: torch.Generator) -> None:
    """PyTorch's default rule: weights and biases uniform within 1 / sqrt(fan in)."""
    bound = 1 / math.sqrt(layer.weight[0].numel())
    layer.weight.uniform_(-bound, bound, generator=generator)
    if layer.bias is not None:
        layer.bias.uniform_(-bound, bound, generator=generator)


def normal_(
    layer: nn.Linear | nn.Conv1d | nn.Conv2d, generator: torch.Generator, std: float = 0.02
) -> None:
    """DeiT's rule: weights normal with standard deviation 0.02, biases zero.

    The published code truncates at a hundred standard deviations, which is no truncation at all.
    """
    layer.weight.normal_(0.0, std, generator=generator)
    if layer.bias is not None:
        layer.bias.zero_()


def fan_out_normal_(layer: nn.Conv2d, generator: torch.Generator) -> None:
    """Weights normal with variance 2 / fan out, biases zero."""
    fan_out = layer.weight[0, 0].numel() * layer.out_channels // layer.groups
    normal_(layer, generator, math.sqrt(2 / fan_out))


def tokens_to_grid(tokens: Tensor) -> Tensor:
    """Map tokens [batch, tokens, width] that are a square to [batch, width, side, side]."""
    side = math.isqrt(tokens.shape[1])
    return tokens.mT.reshape(len(tokens), -1, side, side)


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Map tokens [batch, tokens, heads * dim] to [batch, heads, tokens, dim]."""
    return x.reshape(*x.shape[:-1], heads, -1).transpose(1, 2)


def multi_head_attention(query: Tensor, key: Tensor, value: Tensor, heads: int) -> Tensor:
    """Attention of tokens [batch, tokens, heads * dim]; there may be fewer keys than queries."""
    query, key, value = (split_heads(part, heads) for part in (query, key, value))
    mixed = functional.scaled_dot_product_attention(query, key, value)
    return mixed.transpose(1, 2).flatten(2)


class TransformerBlock(nn.Module):
    """A block whose linear layers are measured; by default these are qkv, proj, fc1 and fc2.

    It maps tokens [batch, tokens, width] to tokens, by default of the same shape. If it is
    `entangled`, its parameters are in an order in which those of a smaller block are the first, in
    every dimension.
    """

    heads: int
    entangled = False

    def linears(self) -> list[tuple[str, nn.Linear]]:
        """The linear layers with their domain, in the order in which the input passes them."""
        named = (("msa", "qkv"), ("msa", "proj"), ("mlp", "fc1"), ("mlp", "fc2"))
        return [(domain, self.get_submodule(name)) for domain, name in named]  # type: ignore[misc]

    def projections(self) -> list[nn.Linear]:
        """The layers that make the queries, keys and values: by default the first."""
        return [layer for _, layer in self.linears()[:1]]

    def branches(self) -> Sequence[nn.Module]:
        """The modules whose outputs are added to the block's input: the last of each domain."""
        return list(dict(self.linears()).values())

    def reorder(self, entangled: bool) -> None:
        """Bring the parameters into the entangled order, or back; the function stays the same."""
        self.entangled = entangled


class EncoderBlock(TransformerBlock):
    """A pre-norm transformer block: self-attention, then an MLP with GELU, each residual."""

    eps = 1e-6
    gelu = "none"  # its approximation

    def __init__(self, spec: BlockSpec, bias: bool = True) -> None:
        super().__init__()
        self.heads = spec.heads
        self.norm1 = nn.LayerNorm(spec.width, self.eps)
        self.qkv = Linear(spec.width, 3 * spec.inner, bias)
        self.proj = Linear(spec.inner, spec.width, bias)
        self.norm2 = nn.LayerNorm(spec.width, self.eps)
        self.fc1 = Linear(spec.width, spec.hidden, bias)
        self.fc2 = Linear(spec.hidden, spec.width, bias)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x))
        return x + self.mlp(self.norm2(x))

    def mlp(self, x: Tensor) -> Tensor:
        return self.fc2(functional.gelu(self.fc1(x), approximate=self.gelu))

    def attend(self, x: Tensor) -> Tensor:
        """Multi-head self-attention over tokens [batch, tokens, width]."""
        sizes, part, head = ((self.heads, 3), 3, 2) if self.entangled else ((3, self.heads), 2, 3)
        qkv = self.qkv(x).reshape(*x.shape[:2], *sizes, -1)
        mixed = self.mix(*qkv.permute(part, 0, head, 1, 4))
        return self.proj(mixed.transpose(1, 2).flatten(2))

    @torch.no_grad()
    def reorder(self, entangled: bool) -> None:
        """Bring the rows of qkv from (3, heads, head dim) to (heads, 3, head dim), or back."""
        if entangled != self.entangled:
            sizes = (3, self.heads) if entangled else (self.heads, 3)
            for parameter in self.qkv.parameters():
                parts = parameter.view(*sizes, -1, *parameter.shape[1:]).transpose(0, 1)
                parameter.copy_(parts.flatten(0, 2))
        super().reorder(entangled)

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attention of each head; all are [batch, heads, tokens, head dim]."""
        return functional.scaled_dot_product_attention(query, key, value)


class StageTransition(nn.Module):
    """The transition from one stage of a network to the next: a layer, or a module of layers."""


class TransformerNetwork(nn.Module):
    """An untrained network of a search space; a subclass has its stem, its blocks and its head.

    One for images maps [batch, 3, height, width] to logits [batch, classes].
    Parameters of the network itself, not of a layer, are embeddings: class token and positions.
    There is no dropout and no stochastic depth; batch norms, if any, pass their input on.
    """

    head: Linear
    linear_rule: InitRule = staticmethod(normal_)
    convolution_rule: InitRule | None = None  # draws them again, from a stream of their own
    init_arguments: dict[str, Any]  # of the class, plain values from which source can be written

    def __new__(cls: type[N], *arguments: Any, **named: Any) -> N:
        """Record the arguments."""
        network = super().__new__(cls)
        if arguments or named:
            bound = signature(cls.__init__).bind(network, *arguments, **named).arguments
            object.__setattr__(network, "init_arguments", dict(list(bound.items())[1:]))
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
        """The device of the parameters."""
        return next(self.parameters()).device

    def layers(self) -> list[tuple[str, nn.Linear]]:
        """The linear layers with their domain, ``msa`` or ``mlp``, block after block."""
        return [pair for block in self.transformer_blocks for pair in block.linears()]

    def extra_layers(self) -> list[tuple[str, Layer]]:
        """The layers of the domains other than those of `layers`, each with its domain.

        In depth order: ``stem``, the convolutions before the first block, which embed patches;
        ``qkv``, the layers that make a block's queries, keys and values, which are also in ``msa``;
        ``pool``, the layers between stages; ``head``, the classifier, unless it is the embedding.
        """
        layers: list[tuple[str, Layer]] = []
        for module in self.modules():
            if isinstance(module, TransformerBlock):
                layers += [("qkv", layer) for layer in module.projections()]
            elif isinstance(module, StageTransition):
                layers += [("pool", part) for part in module.modules() if isinstance(part, Layer)]
            elif isinstance(module, nn.Conv2d) and all(domain == "stem" for domain, _ in layers):
                layers.append(("stem", module))
        head = getattr(self, "head", None)
        return layers if head is None else [*layers, ("head", head)]

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
        if self.convolution_rule is not None:
            generator.manual_seed(seed ^ _CONVOLUTION_STREAM)
            for module in self.modules():
                if isinstance(module, nn.Conv1d | nn.Conv2d):
                    self.convolution_rule(module, generator)
        if head is not None:
            self.reset_head(head.out_features, seed)

    @torch.no_grad()
    def reset_head(self, classes: int, seed: int) -> None:
        """Replace the head by the one that building with these classes and seed would give."""
        old = self.head.weight
        self.head = Linear(self.head.in_features, classes)
        self.linear_rule(self.head, torch.Generator("cpu").manual_seed(seed ^ _HEAD_STREAM))
        self.head.to(old.device, old.dtype)
