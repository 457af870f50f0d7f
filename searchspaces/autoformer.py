"""The AutoFormer spaces as in ViT-Bench-101: Wei et al., "Auto-Prox", AAAI 2024.

The choices are those of Chen et al., "AutoFormer: Searching Transformers for Visual Recognition",
ICCV 2021: 16 x 16 patches of a 224 x 224 image, a class token, the mean over the patch tokens
before the head. Queries, keys and values are as wide as the embedding, and the heads have equal
shares of it, so that their number changes no parameter. The benchmark has networks of -ti alone;
the published heads of -s (5 to 7) and -b (9, 10) don't divide their widths, so that these have the
nearest numbers that do. `autoformer_supernet` has the geometry of the supernets.
"""

from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn

from autoprox.searchspaces.base import Architecture, SearchSpace, one, per_layer
from autoprox.searchspaces.blocks import Block, Conv2d, EncoderBlock, Linear, TransformerNetwork

CHANNELS = 3


class AutoFormer(TransformerNetwork):
    """A plain vision transformer, its heads and MLP ratio chosen for each block."""

    block_type: type[EncoderBlock] = EncoderBlock

    def __init__(self, blocks: Sequence[Block], patch: int, classes: int) -> None:
        super().__init__()
        width = blocks[0].width
        self.class_token = nn.Parameter(torch.empty(1, 1, width))
        self.position = nn.Parameter(torch.empty(1, blocks[0].tokens, width))
        self.patches = Conv2d(CHANNELS, width, patch, stride=patch)
        self.blocks = nn.Sequential(*map(self.block_type, blocks))
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.head = Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Map images [batch, 3, height, width] to logits [batch, classes]."""
        patches = self.patches(images).flatten(2).transpose(1, 2)
        class_token = self.class_token.expand(len(images), -1, -1)
        tokens = self.norm(self.blocks(torch.cat([class_token, patches], 1) + self.position))
        logits: Tensor = self.head(tokens[:, 1:].mean(1))
        return logits


class AutoFormerSpace(SearchSpace):
    """Embedding dimension and depth of the network, MLP ratio and number of heads of each block."""

    patch: ClassVar[int] = 16
    head_dim: ClassVar[int | None] = None  # without, the heads share the embedding's width
    structure: ClassVar[type[Block]] = Block
    network_type: ClassVar[type[AutoFormer]] = AutoFormer
    separate = frozenset({"mlp_ratio", "num_heads"})

    @property
    def patches(self) -> int:
        """The number of patches of an image."""
        _, height, width = self.input_shape
        return (height // self.patch) * (width // self.patch)

    def blocks(self, arch: Architecture) -> tuple[Block, ...]:
        """The structure of the transformer blocks, in depth order."""
        width, tokens, blocks = arch["hidden_dim"], 1 + self.patches, []
        for heads, ratio in zip(arch["num_heads"], arch["mlp_ratio"], strict=True):
            inner = width if self.head_dim is None else self.head_dim * heads
            blocks.append(self.structure(width, tokens, heads, inner, int(width * ratio)))
        return tuple(blocks)

    def origins(self, arch: Architecture) -> tuple[int, ...]:
        """The first blocks.

        Where heads share the width, rows that are one head's may be two heads' of the slice.
        """
        return tuple(range(arch["depth"]))

    def params(self, arch: Architecture, classes: int = 1000) -> int:
        """The number of parameters, from the choices alone."""
        width: int = arch["hidden_dim"]
        embeddings = (1 + (1 + self.patches)) * width
        patches = (CHANNELS * self.patch**2 + 1) * width
        norm_and_head = 2 * width + (width + 1) * classes
        return embeddings + patches + sum(b.params for b in self.blocks(arch)) + norm_and_head

    def flops(self, arch: Architecture, classes: int = 1000) -> int:
        """Multiply-accumulates for one image, from the choices alone."""
        width: int = arch["hidden_dim"]
        patches = self.patches * CHANNELS * self.patch**2 * width
        return patches + sum(b.macs for b in self.blocks(arch)) + width * classes

    def network(self, arch: Architecture, classes: int) -> AutoFormer:
        """The network with its parameters unset."""
        return self.network_type(self.blocks(arch), self.patch, classes)


AUTOFORMER_TI = AutoFormerSpace(
    "autoformer-ti",
    "AutoFormer-Ti, the vision transformers of 5 to 10 M parameters of ViT-Bench-101",
    {
        "hidden_dim": one(192, 216, 240),
        "depth": one(12, 13, 14),
        "mlp_ratio": per_layer(3.5, 4.0),
        "num_heads": per_layer(3, 4),
    },
)
AUTOFORMER_S = AutoFormerSpace(
    "autoformer-s",
    "AutoFormer-S, vision transformers of 13 to 35 M parameters",
    {
        "hidden_dim": one(320, 384, 448),
        "depth": one(12, 13, 14),
        "mlp_ratio": per_layer(3.0, 3.5, 4.0),
        "num_heads": per_layer(4, 8),
    },
)
AUTOFORMER_B = AutoFormerSpace(
    "autoformer-b",
    "AutoFormer-B, vision transformers of 40 to 76 M parameters",
    {
        "hidden_dim": one(528, 576, 624),
        "depth": one(14, 15, 16),
        "mlp_ratio": per_layer(3.0, 3.5, 4.0),
        "num_heads": per_layer(8, 12),
    },
)
