"""The GPT-2 space of ETAS: Yang & Liu, "ETAS: Zero-Shot Transformer Architecture Search via Network
Trainability and Expressivity", Findings of ACL 2024.

It follows LiteTransformerSearch (Javaheripi et al., NeurIPS 2022), which searches around GPT-2
(Radford et al., 2019): each block has its own width, inner width and heads, the embedding has its
own width. A linear layer joins blocks of different widths, and the embedding to the first block
and the last block to the final norm where theirs differ. Two options are added to the published
ones, so that GPT-2 small is in the space: 768 for `d_embed`, and 12 for `n_head` where it divides
`d_model`. The vocabulary is ETAS's, seven tokens more than GPT-2's; but where ETAS has an adaptive
embedding (factor k = 4), by which rarer tokens have narrower vectors, here all have `d_embed`
numbers. As in GPT-2 a head has `d_model / n_head` dimensions, weights begin normal with standard
deviation 0.02, and those at the end of a residual branch 1 / sqrt(2 n_layer) of that.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.searchspaces.base import Architecture, one, per_layer
from autoprox.searchspaces.blocks import Block, Linear, TransformerBlock
from autoprox.searchspaces.tokens import LanguageNetwork, TokenSpace


class GPT2Block(TransformerBlock):
    """A pre-norm transformer block in which a token attends to itself and those before it."""

    def __init__(self, shape: Block, bias: bool = True) -> None:
        super().__init__()
        self.heads = shape.heads
        self.norm1 = nn.LayerNorm(shape.width)
        self.qkv = Linear(shape.width, 3 * shape.inner, bias)
        self.proj = Linear(shape.inner, shape.width, bias)
        self.norm2 = nn.LayerNorm(shape.width)
        self.fc1 = Linear(shape.width, shape.hidden, bias)
        self.fc2 = Linear(shape.hidden, shape.width, bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens [batch, length, width] to tokens of the same shape."""
        x = x + self.mix(*self.split(self.norm1(x)))
        hidden: Tensor = self.fc2(functional.gelu(self.fc1(self.norm2(x)), approximate="tanh"))
        return x + hidden

    def split(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The queries, keys and values of x, each [batch, heads, length, head dim]."""
        qkv = self.qkv(x).unflatten(-1, (3, self.heads, -1))
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        return query, key, value

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Causal attention, and the projection of what all heads found."""
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        projected: Tensor = self.proj(mixed.transpose(1, 2).flatten(2))
        return projected


class GPT2Network(LanguageNetwork):
    """GPT-2 with learned positions and blocks of any widths."""

    def __init__(self, blocks: Sequence[Block], width: int, vocabulary: int, context: int) -> None:
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
        """Add positions to embeddings [batch, length, width], run the blocks and the last norm."""
        hidden: Tensor = self.norm(self.blocks(embedded + self.position[: embedded.shape[1]]))
        return hidden

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Draw every parameter by GPT-2's rule."""
        super().initialise(seed)
        blocks = [module for module in self.blocks if isinstance(module, GPT2Block)]
        for block in blocks:
            for layer in (block.proj, block.fc2):
                layer.weight.div_(math.sqrt(2 * len(blocks)))


class GPT2Space(TokenSpace):
    """Depth and embedding of the network; width, inner width and heads of each block."""

    vocabulary = 50264
    context = 1024
    objective = "causal"
    linked = frozenset({"d_model"})
    separate = frozenset({"d_inner", "n_head"})

    def blocks(self, arch: Architecture) -> tuple[Block, ...]:
        """The structure of the transformer blocks, in depth order."""
        shapes = zip(arch["d_model"], arch["d_inner"], arch["n_head"], strict=True)
        return tuple(
            Block(width, self.context, heads, inner=width, hidden=hidden)
            for width, hidden, heads in shapes
        )

    def params(self, arch: Architecture, classes: int = 1000) -> int:
        """The number of parameters, from the choices alone; the head shares the embedding's."""
        width: int = arch["d_embed"]
        embeddings = (self.vocabulary + self.context) * width
        joins = sum((a + 1) * b for a, b in self._joins(arch))
        return embeddings + joins + sum(b.params for b in self.blocks(arch)) + 2 * width

    def flops(self, arch: Architecture, classes: int = 1000) -> int:
        """Multiply-accumulates for one sequence, from the choices alone.

        Those of attention are counted whole, the masked half too.
        """
        joins = sum(a * b for a, b in self._joins(arch))
        head: int = arch["d_embed"] * self.vocabulary
        return self.context * (joins + head) + sum(b.macs for b in self.blocks(arch))

    def network(self, arch: Architecture, classes: int) -> GPT2Network:
        """The network with its parameters unset."""
        return GPT2Network(self.blocks(arch), arch["d_embed"], self.vocabulary, self.context)

    def origins(self, arch: Architecture) -> tuple[int, ...]:
        """The first blocks of the largest network."""
        return tuple(range(arch["n_layer"]))

    def features(self, arch: Architecture) -> tuple[float, ...]:
        """The choices for a regression: those of every space, and the embedding's width."""
        return (*super().features(arch), math.log(arch["d_embed"]))

    def _joins(self, arch: Architecture) -> list[tuple[int, int]]:
        """The widths before and after each layer that joins two."""
        widths = (arch["d_embed"], *arch["d_model"], arch["d_embed"])
        return [(before, after) for before, after in pairwise(widths) if before != after]


GPT2 = GPT2Space(
    "gpt2",
    "GPT-2 with blocks of their own widths, 2 to 16 of them",
    {
        "n_layer": one(*range(2, 17)),
        "d_embed": one(128, 256, 512, 768),
        "d_model": per_layer(*range(128, 1025, 64), count="n_layer"),
        "d_inner": per_layer(
            *range(256, 4097, 64),
            count="n_layer",
            where=lambda inner, layer: inner > 2 * layer["d_model"],
        ),
        "n_head": per_layer(
            *(2, 4, 8, 12),
            count="n_layer",
            where=lambda heads, layer: layer["d_model"] % heads == 0,
        ),
    },
)
