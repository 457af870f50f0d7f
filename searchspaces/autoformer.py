"""The AutoFormer spaces: Chen et al., "AutoFormer: Searching Transformers for Visual Recognition",
ICCV 2021.

The networks are plain vision transformers: 16 x 16 patches of a 224 x 224 image, a class token, the
mean over the patch tokens before the head.

`autoformer-ti`, `-s` and `-b` are as in ViT-Bench-101 (Wei et al., "Auto-Prox", AAAI 2024):
queries, keys and values are as wide as the embedding, and the heads share it equally, so their
number doesn't change the parameter count. The benchmark has only networks of -ti. The published
numbers of heads of -s (5 to 7) and -b (9, 10) don't divide the widths, so the nearest numbers that
do are used.

`autoformer-supernet-ti`, `-s` and `-b` are as in the supernets, which T-Razor, ETAS and PreNAS
search: a head has 64 dimensions whatever the width of the embedding, and each block adds vectors
for the relative position of two patches to keys and to values (Shaw et al., "Self-Attention with
Relative Position Representations", NAACL 2018). For the number of heads of -b the paper states 8 to
10, its released code 9 and 10. With 8 heads the smallest network would have 39.8 M parameters, but
the paper states 42.

`autoformer-nano` is small enough to train in seconds on one CPU core: images of 16 x 16 pixels, 4 x
4 patches, 8 dimensions a head. It has the same choices with wider ranges, from one wide block to
twelve narrow ones. The initial weights of linear layers are uniform by fan-in, because at these
widths the standard deviation of 0.02, meant for widths of 192 and more, is too small for a short
training. Position embeddings start larger for the same reason.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.searchspaces.space import Architecture, SearchSpace, one, per_layer_field
from autoprox.searchspaces.transformer import (
    CHANNELS,
    BlockSpec,
    Conv2d,
    Embedding,
    EncoderBlock,
    Linear,
    TransformerNetwork,
    fan_in_uniform_,
)

NANO_POSITION_SCALE = 15  # times the published 0.02: about half of the embedded patches' scale
SUPERNET_HEAD_DIM = 64
FARTHEST = 14  # rows or columns; what is farther counts as this far
POSITION_ROWS = 2 * FARTHEST + 2  # for each distance one, and the first for the class token


class AutoFormer(TransformerNetwork):
    """A plain vision transformer, its heads and MLP ratio chosen for each block."""

    block_type: type[EncoderBlock] = EncoderBlock

    def __init__(self, blocks: Sequence[BlockSpec], patch: int, classes: int) -> None:
        super().__init__()
        width = blocks[0].width
        self.class_token = nn.Parameter(torch.empty(1, 1, width))
        self.position = nn.Parameter(torch.empty(1, blocks[0].tokens, width))
        self.patches = Conv2d(CHANNELS, width, patch, stride=patch)
        self.blocks = nn.Sequential(*map(self.block_type, blocks))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.patches(images).flatten(2).transpose(1, 2)
        class_token = self.class_token.expand(len(images), -1, -1)
        tokens = self.norm(self.blocks(torch.cat([class_token, patches], 1) + self.position))
        return self.head(tokens[:, 1:].mean(1))


class AutoFormerNano(AutoFormer):
    """AutoFormer with an initialisation for small widths."""

    linear_rule = staticmethod(fan_in_uniform_)

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Draw every parameter by AutoFormer's rule but for the scales of layers and positions."""
        super().initialise(seed)
        self.position.mul_(NANO_POSITION_SCALE)


@dataclass(frozen=True)
class RelativeBlockSpec(BlockSpec):
    """The structure of a block with relative positions."""

    @property
    def params(self) -> int:
        """The number of parameters: of a plain block, and the four tables of vectors."""
        return super().params + 4 * POSITION_ROWS * SUPERNET_HEAD_DIM

    @property
    def macs(self) -> int:
        """Multiply-accumulates for one image, as the products with the tables are computed here."""
        side = _grid_side(self.tokens)
        return super().macs + (4 * side**3 + side**2) * self.inner


class RelativePositionEmbedding(nn.Module):
    """The vectors of relative positions on a grid of patches: a vertical plus a horizontal one."""

    def __init__(self) -> None:
        super().__init__()
        self.vertical = Embedding(POSITION_ROWS, SUPERNET_HEAD_DIM)
        self.horizontal = Embedding(POSITION_ROWS, SUPERNET_HEAD_DIM)

    @property
    def class_token(self) -> Tensor:
        """The vector between the class token and any other, on either side."""
        return self.vertical.weight[0] + self.horizontal.weight[0]

    def vectors(self, side: int) -> tuple[Tensor, Tensor]:
        """The vectors between rows and between columns, [from, to, head dim]."""
        steps = torch.arange(side, device=self.vertical.weight.device)
        index = (steps - steps[:, None]).clamp(-FARTHEST, FARTHEST) + FARTHEST + 1
        return self.vertical(index), self.horizontal(index)

    def keys(self, query: Tensor) -> Tensor:
        """Dot products of queries with the vectors: [batch, heads, tokens, tokens].

        Those of the class token's query are left at zero: they are all the same, and so change no
        weight of attention.
        """
        side = _grid_side(query.shape[2])
        grid = query[:, :, 1:].reshape(*query.shape[:2], side, side, SUPERNET_HEAD_DIM)
        vertical, horizontal = self.vectors(side)
        to_rows = torch.einsum("bhrcd,rsd->bhrcs", grid, vertical)
        to_columns = torch.einsum("bhrcd,ctd->bhrct", grid, horizontal)
        patches = (to_rows[..., None] + to_columns[..., None, :]).flatten(4).flatten(2, 3)
        to_class = query[:, :, 1:] @ self.class_token[:, None]
        return functional.pad(torch.cat([to_class, patches], -1), (0, 0, 1, 0))

    def values(self, weights: Tensor) -> Tensor:
        """The vectors' means by weights of attention: [batch, heads, tokens, head dim]."""
        side = _grid_side(weights.shape[-1])
        grid = weights[:, :, 1:, 1:].reshape(*weights.shape[:2], *[side] * 4)
        vertical, horizontal = self.vectors(side)
        of_rows = torch.einsum("bhrcs,rsd->bhrcd", grid.sum(-1), vertical)
        of_columns = torch.einsum("bhrct,ctd->bhrcd", grid.sum(-2), horizontal)
        patches = functional.pad((of_rows + of_columns).flatten(2, 3), (0, 0, 1, 0))
        to_class = functional.pad(weights[:, :, 1:, :1], (0, 0, 1, 0), value=1.0)
        return patches + to_class * self.class_token


class RelativeEncoderBlock(EncoderBlock):
    """A pre-norm transformer block whose attention depends on the relative position of patches."""

    def __init__(self, spec: BlockSpec) -> None:
        super().__init__(spec)
        self.key_positions = RelativePositionEmbedding()
        self.value_positions = RelativePositionEmbedding()

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        logits = query @ key.mT + self.key_positions.keys(query)
        weights = (logits / SUPERNET_HEAD_DIM**0.5).softmax(-1)
        mixed: Tensor = weights @ value + self.value_positions.values(weights)
        return mixed


class SupernetAutoFormer(AutoFormer):
    """A slice of AutoFormer's supernet."""

    block_type = RelativeEncoderBlock


def _grid_side(tokens: int) -> int:
    """The patches in a row, given the number of tokens: a square of patches and the class token."""
    return math.isqrt(tokens - 1)


class AutoFormerSpace(SearchSpace):
    """Embedding dimension and depth of the network, MLP ratio and number of heads of each block."""

    patch: ClassVar[int] = 16
    head_dim: ClassVar[int | None] = None  # without, the heads share the embedding's width
    block_spec: ClassVar[type[BlockSpec]] = BlockSpec
    network_type: ClassVar[type[AutoFormer]] = AutoFormer
    sliced = True  # if heads share the width, one head's rows may be two heads' of the slice
    independent = frozenset({"mlp_ratio", "num_heads"})

    @property
    def patches(self) -> int:
        """The number of patches of an image."""
        _, height, width = self.input_shape
        return (height // self.patch) * (width // self.patch)

    def blocks(self, arch: Architecture) -> tuple[BlockSpec, ...]:
        width, tokens, blocks = arch["hidden_dim"], 1 + self.patches, []
        for heads, ratio in zip(arch["num_heads"], arch["mlp_ratio"], strict=True):
            inner = width if self.head_dim is None else self.head_dim * heads
            blocks.append(self.block_spec(width, tokens, heads, inner, int(width * ratio)))
        return tuple(blocks)

    def params(self, arch: Architecture, classes: int = 1000) -> int:
        width: int = arch["hidden_dim"]
        embeddings = (1 + (1 + self.patches)) * width
        patches = (CHANNELS * self.patch**2 + 1) * width
        norm_and_head = 2 * width + (width + 1) * classes
        return embeddings + patches + sum(b.params for b in self.blocks(arch)) + norm_and_head

    def flops(self, arch: Architecture, classes: int = 1000) -> int:
        width: int = arch["hidden_dim"]
        patches = self.patches * CHANNELS * self.patch**2 * width
        return patches + sum(b.macs for b in self.blocks(arch)) + width * classes

    def network(self, arch: Architecture, classes: int) -> AutoFormer:
        return self.network_type(self.blocks(arch), self.patch, classes)


class AutoFormerSupernetSpace(AutoFormerSpace):
    """AutoFormer's choices, all of which are slices of the supernet, including the first heads."""

    entangled = True
    head_dim = SUPERNET_HEAD_DIM
    block_spec = RelativeBlockSpec
    network_type = SupernetAutoFormer


class AutoFormerNanoSpace(AutoFormerSpace):
    """AutoFormer's geometry, scaled to small images."""

    input_shape = (3, 16, 16)
    patch = 4
    head_dim = 8
    entangled = True
    network_type = AutoFormerNano


AUTOFORMER_TI = AutoFormerSpace(
    "autoformer-ti",
    "AutoFormer-Ti, the vision transformers of 5 to 10 M parameters of ViT-Bench-101",
    {
        "hidden_dim": one(192, 216, 240),
        "depth": one(12, 13, 14),
        "mlp_ratio": per_layer_field(3.5, 4.0),
        "num_heads": per_layer_field(3, 4),
    },
)
AUTOFORMER_S = AutoFormerSpace(
    "autoformer-s",
    "AutoFormer-S, vision transformers of 13 to 35 M parameters",
    {
        "hidden_dim": one(320, 384, 448),
        "depth": one(12, 13, 14),
        "mlp_ratio": per_layer_field(3.0, 3.5, 4.0),
        "num_heads": per_layer_field(4, 8),
    },
)
AUTOFORMER_B = AutoFormerSpace(
    "autoformer-b",
    "AutoFormer-B, vision transformers of 40 to 76 M parameters",
    {
        "hidden_dim": one(528, 576, 624),
        "depth": one(14, 15, 16),
        "mlp_ratio": per_layer_field(3.0, 3.5, 4.0),
        "num_heads": per_layer_field(8, 12),
    },
)
AUTOFORMER_NANO = AutoFormerNanoSpace(
    "autoformer-nano",
    "AutoFormer for 16 x 16 images, vision transformers of 2 thousand to 3 M parameters",
    {
        "hidden_dim": one(16, 24, 32, 48, 64, 96, 128),
        "depth": one(*range(1, 13)),
        "mlp_ratio": per_layer_field(0.5, 1.0, 2.0, 4.0, 6.0),
        "num_heads": per_layer_field(1, 2, 3, 4, 6),
    },
)
AUTOFORMER_SUPERNET_TI = AutoFormerSupernetSpace(
    "autoformer-supernet-ti",
    "AutoFormer-Ti with relative positions, vision transformers of 5.4 to 10.5 M parameters",
    AUTOFORMER_TI.fields,
)
AUTOFORMER_SUPERNET_S = AutoFormerSupernetSpace(
    "autoformer-supernet-s",
    "AutoFormer-S with relative positions, vision transformers of 13 to 35 M parameters",
    {**AUTOFORMER_S.fields, "num_heads": per_layer_field(5, 6, 7)},
)
AUTOFORMER_SUPERNET_B = AutoFormerSupernetSpace(
    "autoformer-supernet-b",
    "AutoFormer-B with relative positions, vision transformers of 42 to 77 M parameters",
    {**AUTOFORMER_B.fields, "num_heads": per_layer_field(9, 10)},
)
