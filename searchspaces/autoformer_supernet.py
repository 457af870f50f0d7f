"""The AutoFormer spaces as in their supernets: Chen et al., "AutoFormer: Searching Transformers for
Visual Recognition", ICCV 2021.

T-Razor, ETAS and PreNAS search these networks. They differ from `autoformer` in that a head has 64
dimensions whatever the embedding, and that each block adds vectors for the relative position of two
patches to keys and to values (Shaw et al., "Self-Attention with Relative Position Representations",
NAACL 2018). For the heads of -b the paper has 8 to 10, its released code 9 and 10: with 8 the least
would be 39.8 M parameters, where the paper has 42.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.searchspaces.autoformer import (
    AUTOFORMER_B,
    AUTOFORMER_S,
    AUTOFORMER_TI,
    AutoFormer,
    AutoFormerSpace,
)
from autoprox.searchspaces.base import per_layer
from autoprox.searchspaces.blocks import Block, Embedding, EncoderBlock

HEAD_DIM = 64
FARTHEST = 14  # rows or columns; what is farther counts as this far
ROWS = 2 * FARTHEST + 2  # for each distance one, and the first for the class token


@dataclass(frozen=True)
class RelativeBlock(Block):
    """The structure of a block with relative positions."""

    @property
    def params(self) -> int:
        """The number of parameters: of a block without, and the four tables."""
        return super().params + 4 * ROWS * HEAD_DIM

    @property
    def macs(self) -> int:
        """Multiply-accumulates for one image, as the products with the tables are computed here."""
        side = _side(self.tokens)
        return super().macs + (4 * side**3 + side**2) * self.inner


class RelativePositions(nn.Module):
    """The vectors of relative positions on a grid of patches: a vertical plus a horizontal one."""

    def __init__(self) -> None:
        super().__init__()
        self.vertical = Embedding(ROWS, HEAD_DIM)
        self.horizontal = Embedding(ROWS, HEAD_DIM)

    @property
    def class_token(self) -> Tensor:
        """The vector where the class token takes part, on either side."""
        return self.vertical.weight[0] + self.horizontal.weight[0]

    def along(self, side: int) -> tuple[Tensor, Tensor]:
        """The vectors between rows and between columns, [from, to, head dim]."""
        steps = torch.arange(side, device=self.vertical.weight.device)
        distance = (steps - steps[:, None]).clamp(-FARTHEST, FARTHEST)
        index = distance + FARTHEST + 1
        return self.vertical(index), self.horizontal(index)

    def keys(self, query: Tensor) -> Tensor:
        """Dot products of queries with the vectors: [batch, heads, tokens, tokens].

        Those of the class token's query are left at zero: they are all the same, and so change no
        weight of attention.
        """
        side = _side(query.shape[2])
        grid = query[:, :, 1:].reshape(*query.shape[:2], side, side, HEAD_DIM)
        vertical, horizontal = self.along(side)
        to_rows = torch.einsum("bhrcd,rsd->bhrcs", grid, vertical)
        to_columns = torch.einsum("bhrcd,ctd->bhrct", grid, horizontal)
        patches = (to_rows[..., None] + to_columns[..., None, :]).flatten(4).flatten(2, 3)
        to_class = query[:, :, 1:] @ self.class_token[:, None]
        return functional.pad(torch.cat([to_class, patches], -1), (0, 0, 1, 0))

    def values(self, weights: Tensor) -> Tensor:
        """The vectors' means by weights of attention: [batch, heads, tokens, head dim]."""
        side = _side(weights.shape[-1])
        grid = weights[:, :, 1:, 1:].reshape(*weights.shape[:2], *[side] * 4)
        vertical, horizontal = self.along(side)
        of_rows = torch.einsum("bhrcs,rsd->bhrcd", grid.sum(-1), vertical)
        of_columns = torch.einsum("bhrct,ctd->bhrcd", grid.sum(-2), horizontal)
        patches = functional.pad((of_rows + of_columns).flatten(2, 3), (0, 0, 1, 0))
        to_class = functional.pad(weights[:, :, 1:, :1], (0, 0, 1, 0), value=1.0)
        return patches + to_class * self.class_token


class RelativeEncoderBlock(EncoderBlock):
    """A pre-norm transformer block whose attention knows how far two patches are apart."""

    def __init__(self, shape: Block) -> None:
        super().__init__(shape)
        self.key_positions = RelativePositions()
        self.value_positions = RelativePositions()

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """What each head finds, [batch, heads, tokens, head dim]."""
        logits = query @ key.mT + self.key_positions.keys(query)
        weights = (logits / HEAD_DIM**0.5).softmax(-1)
        mixed: Tensor = weights @ value + self.value_positions.values(weights)
        return mixed


class SupernetAutoFormer(AutoFormer):
    """A part of AutoFormer's supernet."""

    block_type = RelativeEncoderBlock


class SupernetSpace(AutoFormerSpace):
    """AutoFormer's choices, all of which are slices of the supernet: the first heads, too."""

    entangled = True
    head_dim = HEAD_DIM
    structure = RelativeBlock
    network_type = SupernetAutoFormer


def _side(tokens: int) -> int:
    """The patches in a row, of tokens that are a square of patches and the class token."""
    return math.isqrt(tokens - 1)


AUTOFORMER_SUPERNET_TI = SupernetSpace(
    "autoformer-supernet-ti",
    "AutoFormer-Ti with relative positions, vision transformers of 5.4 to 10.5 M parameters",
    AUTOFORMER_TI.fields,
)
AUTOFORMER_SUPERNET_S = SupernetSpace(
    "autoformer-supernet-s",
    "AutoFormer-S with relative positions, vision transformers of 13 to 35 M parameters",
    {**AUTOFORMER_S.fields, "num_heads": per_layer(5, 6, 7)},
)
AUTOFORMER_SUPERNET_B = SupernetSpace(
    "autoformer-supernet-b",
    "AutoFormer-B with relative positions, vision transformers of 42 to 77 M parameters",
    {**AUTOFORMER_B.fields, "num_heads": per_layer(9, 10)},
)
