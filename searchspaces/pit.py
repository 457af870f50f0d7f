"""The PiT spaces: Zhou et al., "Training-Free Transformer Architecture Search With Zero-Cost Proxy
Guided Evolution" (T-Razor), TPAMI 2024. The smallest is that of ViT-Bench-101 (Wei et al.,
"Auto-Prox", AAAI 2024).

The networks are the pooling-based transformers of Heo et al., "Rethinking Spatial Dimensions of
Vision Transformers", ICCV 2021, without their distillation token: overlapping 16 x 16 patches at
stride 8, three stages with 27 x 27, 14 x 14 and 7 x 7 patch tokens, the class token before the
head. PiT-Ti, -XS and -S are in their spaces. The published code leaves linear layers and
convolutions at PyTorch's default initialisation.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from autoprox.searchspaces.base import Architecture, SearchSpace, one, per_stage
from autoprox.searchspaces.blocks import (
    Block,
    Conv2d,
    EncoderBlock,
    Linear,
    Pooling,
    TransformerNetwork,
    fan_in_uniform_,
)

CHANNELS = 3
KERNEL = 3

Heads = tuple[int, int, int]  # the options of a stage


class TokenPooling(Pooling):
    """From one stage to the next: patch tokens by a depthwise convolution, class token linearly."""

    def __init__(self, width: int, next_width: int) -> None:
        super().__init__()
        self.conv = Conv2d(width, next_width, KERNEL, stride=2, padding=1, groups=width)
        self.fc = Linear(width, next_width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens [batch, 1 + side**2, width] to those of the next stage."""
        side = math.isqrt(tokens.shape[1] - 1)
        grid = tokens[:, 1:].mT.reshape(len(tokens), -1, side, side)
        patches = self.conv(grid).flatten(2).transpose(1, 2)
        return torch.cat([self.fc(tokens[:, :1]), patches], 1)


class PiT(TransformerNetwork):
    """A vision transformer of three stages, each with fewer and wider tokens."""

    linear_rule = staticmethod(fan_in_uniform_)

    def __init__(self, blocks: Sequence[Block], patch: int, stride: int, classes: int) -> None:
        super().__init__()
        width = blocks[0].width
        self.class_token = nn.Parameter(torch.empty(1, 1, width))
        self.position = nn.Parameter(torch.empty(1, blocks[0].tokens - 1, width))
        self.patches = Conv2d(CHANNELS, width, patch, stride=stride)
        layers: list[nn.Module] = [EncoderBlock(blocks[0])]
        for before, block in pairwise(blocks):
            if block.tokens != before.tokens:
                layers.append(TokenPooling(before.width, block.width))
            layers.append(EncoderBlock(block))
        self.blocks = nn.Sequential(*layers)
        self.norm = nn.LayerNorm(blocks[-1].width, eps=1e-6)
        self.head = Linear(blocks[-1].width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Map images [batch, 3, height, width] to logits [batch, classes]."""
        patches = self.patches(images).flatten(2).transpose(1, 2) + self.position
        class_token = self.class_token.expand(len(images), -1, -1)
        tokens = self.blocks(torch.cat([class_token, patches], 1))
        logits: Tensor = self.head(self.norm(tokens[:, 0]))
        return logits


class PiTSpace(SearchSpace):
    """Head dimension and MLP ratio of the network, depth and number of heads of each stage."""

    patch: ClassVar[int] = 16
    stride: ClassVar[int] = 8
    sides: ClassVar[tuple[int, ...]] = (27, 14, 7)  # of the grid of patch tokens in each stage
    network_type: ClassVar[type[PiT]] = PiT
    linked = frozenset({"num_heads"})

    def rule(self, choices: Mapping[str, Any]) -> str | None:
        """The depthwise pooling needs the width of a stage to be a multiple of the one before."""
        heads = choices["num_heads"]
        if all(after % before == 0 for before, after in pairwise(heads)):
            return None
        return f"num_heads must be multiples, each of the one before, but got {heads}"

    def blocks(self, arch: Architecture) -> tuple[Block, ...]:
        """The structure of the transformer blocks, in depth order."""
        stages = zip(arch["depth"], arch["num_heads"], self.sides, strict=True)
        return tuple(
            Block(width, 1 + side**2, heads, inner=width, hidden=int(width * arch["mlp_ratio"]))
            for depth, heads, side in stages
            for width in [arch["base_dim"] * heads] * depth
        )

    def origins(self, arch: Architecture) -> tuple[int, ...]:
        """The first blocks of every stage."""
        deepest: tuple[int, ...] = self.largest()["depth"]
        starts = (sum(deepest[:stage]) for stage in range(len(deepest)))
        pairs = zip(starts, arch["depth"], strict=True)
        return tuple(start + i for start, depth in pairs for i in range(depth))

    def params(self, arch: Architecture, classes: int = 1000) -> int:
        """The number of parameters, from the choices alone."""
        blocks = self.blocks(arch)
        first, last = blocks[0].width, blocks[-1].width
        embeddings = (1 + self.sides[0] ** 2) * first
        patches = (CHANNELS * self.patch**2 + 1) * first
        poolings = sum((KERNEL**2 + 1) * b + (a + 1) * b for a, b, _ in self._poolings(arch))
        norm_and_head = 2 * last + (last + 1) * classes
        return embeddings + patches + sum(b.params for b in blocks) + poolings + norm_and_head

    def flops(self, arch: Architecture, classes: int = 1000) -> int:
        """Multiply-accumulates for one image, from the choices alone."""
        blocks = self.blocks(arch)
        patches = self.sides[0] ** 2 * CHANNELS * self.patch**2 * blocks[0].width
        poolings = sum(side**2 * KERNEL**2 * b + a * b for a, b, side in self._poolings(arch))
        return patches + sum(b.macs for b in blocks) + poolings + blocks[-1].width * classes

    def network(self, arch: Architecture, classes: int) -> PiT:
        """The network with its parameters unset."""
        return self.network_type(self.blocks(arch), self.patch, self.stride, classes)

    def _poolings(self, arch: Architecture) -> Iterator[tuple[int, int, int]]:
        """Of each pooling: the width before, the width after, the side of the grid after."""
        widths = [arch["base_dim"] * heads for heads in arch["num_heads"]]
        pairs = zip(pairwise(widths), self.sides[1:], strict=True)
        return ((before, after, side) for (before, after), side in pairs)


def _space(name: str, description: str, base_dims: tuple[int, ...], heads: Heads) -> PiTSpace:
    fields = {
        "base_dim": one(*base_dims),
        "mlp_ratio": one(2, 4, 6, 8),
        "depth": per_stage((1, 2, 3), (4, 6, 8), (2, 4, 6)),
        "num_heads": per_stage(heads, heads, heads),
    }
    return PiTSpace(name, description, fields)


PIT = _space(
    "pit",
    "PiT-Ti, the pooling-based vision transformers of ViT-Bench-101",
    (16, 24, 32, 40),
    (2, 4, 8),
)
PIT_XS = _space("pit-xs", "PiT-XS, pooling-based vision transformers", (40, 48, 56, 64), (2, 4, 8))
PIT_S = _space("pit-s", "PiT-S, pooling-based vision transformers", (36, 48, 60, 72), (3, 6, 12))
