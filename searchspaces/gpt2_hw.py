"""The small space of HW-GPT-Bench: Sukthanker et al., "HW-GPT-Bench: Hardware-Aware Architecture
Benchmark for Language Models", NeurIPS 2024 Datasets and Benchmarks.

The networks are slices of one supernet; what isn't in the paper is from its code and configuration
(github.com/automl/HW-GPT-Bench). They are GPT-NeoX rather than GPT-2: attention and MLP of a block
both read its input, positions are rotary on half of a head's dimensions (Su et al., RoFormer), GELU
is exact. A head has 64 dimensions whatever the embedding, so that `n_head` says how wide attention
is; the perplexities bear that out: over 500 random architectures the number of parameters ranks
them at Kendall 0.92, and at 0.88 if it is counted as though the heads shared the embedding's width.
LayerNorm has its bias whatever `bias` says, which is for the linear layers; the head is tied to the
embedding and has none. 50304 is GPT-2's vocabulary and a padding token, rounded up to 128.
Training starts from PyTorch's default initialisation, that of the supernet: a slice's weights are
uniform within 1 / sqrt(fan in) of the largest network, not of its own.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.searchspaces.base import Architecture, one, per_layer
from autoprox.searchspaces.blocks import Block
from autoprox.searchspaces.gpt2 import GPT2Block
from autoprox.searchspaces.tokens import LanguageNetwork, TokenSpace

HEAD_DIM = 64
ROTARY = HEAD_DIM // 2
ROTARY_BASE = 10_000.0
WIDEST, WIDEST_HIDDEN = 768, 3072  # fan in of the supernet: of fc2 the latter


def rotate(x: Tensor) -> Tensor:
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

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens [batch, length, width] to tokens of the same shape."""
        query, key, value = self.split(self.norm1(x))
        mixed = self.mix(rotate(query), rotate(key), value)
        hidden: Tensor = self.fc2(functional.gelu(self.fc1(self.norm2(x))))
        return x + mixed + hidden


class HWGPT(LanguageNetwork):
    """A slice of the supernet: its first layers, and of each the first rows and columns."""

    def __init__(self, blocks: Sequence[Block], bias: bool, vocabulary: int) -> None:
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
        self.embedding.weight.uniform_(*_within(WIDEST), generator=generator)
        for block in self.transformer_blocks:
            for _, layer in block.linears():
                bounds = _within(WIDEST_HIDDEN if layer is block.fc2 else WIDEST)
                for p in layer.parameters():
                    p.uniform_(*bounds, generator=generator)


def _within(fan_in: int) -> tuple[float, float]:
    bound = 1 / math.sqrt(fan_in)
    return -bound, bound


class HWGPTSpace(TokenSpace):
    """Embedding, depth and biases of the network; MLP ratio and heads of each block."""

    vocabulary = 50304
    context = 1024
    objective = "causal"
    separate = frozenset({"mlp_ratio", "n_head"})

    def blocks(self, arch: Architecture) -> tuple[Block, ...]:
        """The structure of the transformer blocks, in depth order."""
        width = arch["embed_dim"]
        return tuple(
            Block(width, self.context, heads, inner=HEAD_DIM * heads, hidden=ratio * width)
            for ratio, heads in zip(arch["mlp_ratio"], arch["n_head"], strict=True)
        )

    def params(self, arch: Architecture, classes: int = 1000) -> int:
        """The number of parameters, from the choices alone; the head shares the embedding's."""
        blocks = self.blocks(arch)
        total = (self.vocabulary + 2) * blocks[0].width + sum(b.params for b in blocks)
        if arch["bias"]:
            return total
        return total - sum(3 * b.inner + b.hidden + 2 * b.width for b in blocks)

    def flops(self, arch: Architecture, classes: int = 1000) -> int:
        """Multiply-accumulates for one sequence, from the choices alone.

        Those of attention are counted whole, the masked half too.
        """
        head: int = self.context * arch["embed_dim"] * self.vocabulary
        return head + sum(b.macs for b in self.blocks(arch))

    def network(self, arch: Architecture, classes: int) -> HWGPT:
        """The network with its parameters unset."""
        return HWGPT(self.blocks(arch), arch["bias"], self.vocabulary)

    def origins(self, arch: Architecture) -> tuple[int, ...]:
        """The first blocks of the largest network."""
        return tuple(range(arch["n_layer"]))

    def features(self, arch: Architecture) -> tuple[float, ...]:
        """The choices for a regression: those of every space, and whether there are biases."""
        return (*super().features(arch), float(arch["bias"]))


GPT2_HW = HWGPTSpace(
    "gpt2-hw",
    "GPT-2 small of HW-GPT-Bench, slices of one supernet of 10 to 12 layers",
    {
        "embed_dim": one(192, 384, 768),
        "n_layer": one(10, 11, 12),
        "mlp_ratio": per_layer(2, 3, 4, count="n_layer"),
        "n_head": per_layer(4, 8, 12, count="n_layer"),
        "bias": one(True, False),
    },
)
