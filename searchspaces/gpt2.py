"""The GPT-2 spaces: causal language models after GPT-2 (Radford et al., 2019).

`gpt2` is the space of ETAS: Yang & Liu, "ETAS: Zero-Shot Transformer Architecture Search via
Network Trainability and Expressivity", Findings of ACL 2024. It follows LiteTransformerSearch
(Javaheripi et al., NeurIPS 2022): each block has its own width, inner width and heads, and the
embedding has its own width. A linear layer joins blocks of different widths, and the embedding to
the first block and the last block to the final norm if theirs differ. Two options are added to the
published ones to include GPT-2 small: 768 for `d_embed`, and 12 for `n_head` if it divides
`d_model`. The vocabulary is ETAS's, seven tokens more than GPT-2's; but ETAS has an adaptive
embedding (factor k = 4), which gives rarer tokens narrower vectors, while here all vectors have
`d_embed` numbers. As in GPT-2, a head has `d_model / n_head` dimensions. Initial weights are normal
with a standard deviation of 0.02, divided by sqrt(2 n_layer) at the end of a residual branch.

`gpt2-hw` is the small space of HW-GPT-Bench: Sukthanker et al., "HW-GPT-Bench: Hardware-Aware
Architecture Benchmark for Language Models", NeurIPS 2024 Datasets and Benchmarks. The networks are
slices of one supernet; details that aren't in the paper are from its code and configuration
(github.com/automl/HW-GPT-Bench). They are GPT-NeoX rather than GPT-2: attention and MLP of a block
both read its input, positions are rotary on half of a head's dimensions (Su et al., RoFormer), GELU
is exact. A head has 64 dimensions whatever the width of the embedding, so `n_head` determines the
width of attention. The perplexities confirm that: over 500 random architectures, the number of
parameters ranks them with Kendall tau 0.92, and with 0.88 if it is counted as though the heads
shared the width of the embedding. LayerNorm always has a bias, because `bias` applies to the linear
layers; the head is tied to the embedding and has none. The vocabulary is GPT-2's with a padding
token, rounded up to a multiple of 128: 50304. Training starts from PyTorch's default
initialisation, that of the supernet: a slice's weights are uniform within 1 / sqrt(fan in) of the
largest network, not of its own.

`gpt2-nano` is small enough to train in seconds on one CPU core, on sequences of 64 bytes. It has
the choices of `gpt2` with wider ranges: one wide block to twelve narrow ones, with MLPs from half
to six times the width of their block. The initial weights of linear layers are uniform by fan-in,
those of embeddings normal with standard deviation 1 / sqrt(d_embed): with the published 0.02, meant
for widths of 768 and more, the deeper of these networks learn hardly anything in a short training.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.searchspaces.language_model_bases import LanguageNetwork, TokenSpace
from autoprox.searchspaces.space import Architecture, one, per_layer_field
from autoprox.searchspaces.transformer import (
    BlockSpec,
    EncoderBlock,
    Linear,
    TransformerNetwork,
    fan_in_uniform_,
)

HW_HEAD_DIM = 64
ROTARY = HW_HEAD_DIM // 2
ROTARY_BASE = 10_000.0
WIDEST, WIDEST_HIDDEN = 768, 3072  # fan in of HW-GPT-Bench's supernet: of fc2 the latter


class GPT2Block(EncoderBlock):
    """A pre-norm transformer block in which a token attends to itself and those before it."""

    eps = 1e-5
    gelu = "tanh"

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


def scale_residual_layers(network: TransformerNetwork) -> None:
    """Divide the weights at the end of each residual branch by sqrt(2 blocks)."""
    blocks = network.transformer_blocks
    for block in blocks:
        for layer in block.branches():
            layer.weight.div_(math.sqrt(2 * len(blocks)))  # type: ignore[operator]


class GPT2Network(LanguageNetwork):
    """GPT-2 with learned positions and blocks of any widths."""

    def __init__(
        self, blocks: Sequence[BlockSpec], width: int, vocabulary: int, context: int
    ) -> None:
        super().__init__(vocabulary, width)
        self.position = nn.Parameter(torch.empty(context, width))
        layers: list[nn.Module] = []
        before = width
        for block in blocks:
            if block.width != before:
                layers.append(Linear(before, block.width))
            layers.append(GPT2Block(block))
            before = block.width
        if before != width:
            layers.append(Linear(before, width))
        self.blocks = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(width)

    def encode(self, embedded: Tensor) -> Tensor:
        hidden: Tensor = self.norm(self.blocks(embedded + self.position[: embedded.shape[1]]))
        return hidden

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Draw every parameter by GPT-2's rule."""
        super().initialise(seed)
        scale_residual_layers(self)


class GPT2NanoNetwork(GPT2Network):
    """GPT-2 with an initialisation for small widths."""

    linear_rule = staticmethod(fan_in_uniform_)

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Draw every parameter by GPT-2's rule but for the scales of linear layers and tokens."""
        super().initialise(seed)
        weight = self.embedding.weight
        weight.div_(0.02 * weight.shape[1] ** 0.5)


def apply_rotary_embedding(x: Tensor) -> Tensor:
    """Turn the first dimensions of x [batch, heads, length, head dim] by angles of its positions.

    Dimension i turns with dimension i + ROTARY / 2, at position p by p / base^(2 i / ROTARY).
    """
    first, second = x[..., :ROTARY].chunk(2, -1)
    steps = torch.arange(0, ROTARY, 2, device=x.device) / ROTARY
    positions = torch.arange(x.shape[2], device=x.device)
    angles = torch.outer(positions, ROTARY_BASE**-steps)  # [length, ROTARY / 2]
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([first * cos - second * sin, second * cos + first * sin, x[..., ROTARY:]], -1)


class HWGPTBlock(GPT2Block):
    """A pre-norm transformer block whose attention and MLP run side by side."""

    gelu = "none"

    def forward(self, x: Tensor) -> Tensor:
        return x + self.attend(self.norm1(x)) + self.mlp(self.norm2(x))

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return super().mix(apply_rotary_embedding(query), apply_rotary_embedding(key), value)


class HWGPTNetwork(LanguageNetwork):
    """A slice of the supernet: its first layers, and of each the first rows and columns."""

    def __init__(self, blocks: Sequence[BlockSpec], bias: bool, vocabulary: int) -> None:
        super().__init__(vocabulary, blocks[0].width)
        self.blocks = nn.Sequential(*(HWGPTBlock(block, bias) for block in blocks))
        self.norm = nn.LayerNorm(blocks[0].width)

    def encode(self, embedded: Tensor) -> Tensor:
        """Run the blocks, which add the positions, and the last norm."""
        hidden: Tensor = self.norm(self.blocks(embedded))
        return hidden

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Draw every weight and bias as the supernet's."""
        generator = torch.Generator("cpu").manual_seed(seed)
        bound = 1 / math.sqrt(WIDEST)
        self.embedding.weight.uniform_(-bound, bound, generator=generator)
        for block in self.transformer_blocks:
            for _, layer in block.linears():
                bound = 1 / math.sqrt(WIDEST_HIDDEN if layer is block.fc2 else WIDEST)
                for parameter in layer.parameters():
                    parameter.uniform_(-bound, bound, generator=generator)


class GPT2Space(TokenSpace):
    """Depth and embedding of the network; width, inner width and heads of each block."""

    vocabulary = 50264
    context = 1024
    objective = "causal"
    sliced = True
    network_type: ClassVar[type[GPT2Network]] = GPT2Network
    chained = frozenset({"d_model"})
    independent = frozenset({"d_inner", "n_head"})

    def blocks(self, arch: Architecture) -> tuple[BlockSpec, ...]:
        choices = zip(arch["d_model"], arch["d_inner"], arch["n_head"], strict=True)
        return tuple(
            BlockSpec(width, self.context, heads, inner=width, hidden=hidden)
            for width, hidden, heads in choices
        )

    def params(self, arch: Architecture, classes: int = 1000) -> int:
        width: int = arch["d_embed"]
        embeddings = (self.vocabulary + self.context) * width
        joins = sum((a + 1) * b for a, b in self._joins(arch))
        return embeddings + joins + sum(b.params for b in self.blocks(arch)) + 2 * width

    def flops(self, arch: Architecture, classes: int = 1000) -> int:
        joins = sum(a * b for a, b in self._joins(arch))
        head: int = arch["d_embed"] * self.vocabulary
        return self.context * (joins + head) + sum(b.macs for b in self.blocks(arch))

    def network(self, arch: Architecture, classes: int) -> GPT2Network:
        blocks = self.blocks(arch)
        return self.network_type(blocks, arch["d_embed"], self.vocabulary, self.context)

    def features(self, arch: Architecture) -> tuple[float, ...]:
        """The choices for a regression: those of every space, and the embedding's width."""
        return (*super().features(arch), math.log(arch["d_embed"]))

    def _joins(self, arch: Architecture) -> list[tuple[int, int]]:
        """The widths before and after each layer that joins two."""
        widths = (arch["d_embed"], *arch["d_model"], arch["d_embed"])
        return [(before, after) for before, after in pairwise(widths) if before != after]


class GPT2NanoSpace(GPT2Space):
    """GPT-2's geometry, scaled to short sequences of bytes."""

    vocabulary = 256
    context = 64
    network_type = GPT2NanoNetwork


class HWGPTSpace(TokenSpace):
    """Embedding, depth and biases of the network; MLP ratio and heads of each block."""

    vocabulary = 50304
    context = 1024
    objective = "causal"
    sliced = True
    independent = frozenset({"mlp_ratio", "n_head"})

    def blocks(self, arch: Architecture) -> tuple[BlockSpec, ...]:
        width = arch["embed_dim"]
        return tuple(
            BlockSpec(width, self.context, heads, inner=HW_HEAD_DIM * heads, hidden=ratio * width)
            for ratio, heads in zip(arch["mlp_ratio"], arch["n_head"], strict=True)
        )

    def params(self, arch: Architecture, classes: int = 1000) -> int:
        blocks = self.blocks(arch)
        total = (self.vocabulary + 2) * blocks[0].width + sum(b.params for b in blocks)
        if arch["bias"]:
            return total
        return total - sum(3 * b.inner + b.hidden + 2 * b.width for b in blocks)

    def flops(self, arch: Architecture, classes: int = 1000) -> int:
        head: int = self.context * arch["embed_dim"] * self.vocabulary
        return head + sum(b.macs for b in self.blocks(arch))

    def network(self, arch: Architecture, classes: int) -> HWGPTNetwork:
        return HWGPTNetwork(self.blocks(arch), arch["bias"], self.vocabulary)

    def features(self, arch: Architecture) -> tuple[float, ...]:
        """The choices for a regression: those of every space, and whether there are biases."""
        return (*super().features(arch), float(arch["bias"]))


GPT2 = GPT2Space(
    "gpt2",
    "GPT-2 with blocks of their own widths, 2 to 16 of them",
    {
        "n_layer": one(*range(2, 17)),
        "d_embed": one(128, 256, 512, 768),
        "d_model": per_layer_field(*range(128, 1025, 64), count="n_layer"),
        "d_inner": per_layer_field(
            *range(256, 4097, 64),
            count="n_layer",
            where=lambda inner, layer: inner > 2 * layer["d_model"],
        ),
        "n_head": per_layer_field(
            *(2, 4, 8, 12),
            count="n_layer",
            where=lambda heads, layer: layer["d_model"] % heads == 0,
        ),
    },
)
GPT2_HW = HWGPTSpace(
    "gpt2-hw",
    "GPT-2 small of HW-GPT-Bench, slices of one supernet of 10 to 12 layers",
    {
        "embed_dim": one(192, 384, 768),
        "n_layer": one(10, 11, 12),
        "mlp_ratio": per_layer_field(2, 3, 4, count="n_layer"),
        "n_head": per_layer_field(4, 8, 12, count="n_layer"),
        "bias": one(True, False),
    },
)
GPT2_NANO = GPT2NanoSpace(
    "gpt2-nano",
    "GPT-2 for sequences of 64 bytes, language models of 7 thousand to 0.8 M parameters",
    {
        "n_layer": one(*range(1, 13)),
        "d_embed": one(16, 24, 32, 48, 64, 96),
        "d_model": per_layer_field(16, 24, 32, 48, 64, count="n_layer"),
        "d_inner": per_layer_field(
            *(16, 32, 64, 96, 128, 192, 256, 384),
            count="n_layer",
            where=lambda inner, layer: 0.5 <= inner / layer["d_model"] <= 6,
        ),
        "n_head": per_layer_field(1, 2, 4, 8, count="n_layer"),
    },
)
