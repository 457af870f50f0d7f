"""The PiT spaces: Zhou et al., "Training-Free Transformer Architecture Search With Zero-Cost Proxy
Guided Evolution" (T-Razor), TPAMI 2024. The smallest is that of ViT-Bench-101 (Wei et al.,
"Auto-Prox", AAAI 2024).

The networks are the pooling-based transformers of Heo et al., "Rethinking Spatial Dimensions of
Vision Transformers", ICCV 2021, without their distillation token: overlapping 16 x 16 patches at
stride 8, three stages with 27 x 27, 14 x 14 and 7 x 7 patch tokens, the class token before the
head. The spaces contain PiT-Ti, -XS and -S. The published code leaves linear layers and
convolutions at PyTorch's default initialisation.

`pit-nano` is small enough to train in seconds on one CPU core: images of 16 x 16 pixels, 4 x 4
patches at stride 3 and stages with 5 x 5, 3 x 3 and 2 x 2 patch tokens. It has the same choices
with wider ranges. Position embeddings start larger than the published 0.02, with which a short
training learns them too late.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from autoprox.searchspaces.autoformer import NANO_POSITION_SCALE
from autoprox.searchspaces.space import Architecture, StagedSpace, one, per_stage_field
from autoprox.searchspaces.transformer import (
    CHANNELS,
    BlockSpec,
    Conv2d,
    EncoderBlock,
    Linear,
    StageTransition,
    TransformerNetwork,
    fan_in_uniform_,
    tokens_to_grid,
)

POOLING_KERNEL = 3


class TokenPooling(StageTransition):
    """The step to the next stage: a depthwise convolution of patches, the class token linearly."""

    def __init__(self, width: int, next_width: int) -> None:
        super().__init__()
        self.conv = Conv2d(width, next_width, POOLING_KERNEL, stride=2, padding=1, groups=width)
        self.fc = Linear(width, next_width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens [batch, 1 + side**2, width] to those of the next stage."""
        patches = self.conv(tokens_to_grid(tokens[:, 1:])).flatten(2).mT
        return torch.cat([self.fc(tokens[:, :1]), patches], 1)


class PiT(TransformerNetwork):
    """A vision transformer of three stages, each with fewer and wider tokens."""

    linear_rule = staticmethod(fan_in_uniform_)

    def __init__(self, blocks: Sequence[BlockSpec], patch: int, stride: int, classes: int) -> None:
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
        patches = self.patches(images).flatten(2).transpose(1, 2) + self.position
        class_token = self.class_token.expand(len(images), -1, -1)
        tokens = self.blocks(torch.cat([class_token, patches], 1))
        return self.head(self.norm(tokens[:, 0]))


class PiTNano(PiT):
    """PiT with an initialisation for small widths."""

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Draw every parameter by PiT's rule but for the scale of positions."""
        super().initialise(seed)
        self.position.mul_(NANO_POSITION_SCALE)


class PiTSpace(StagedSpace):
    """Head dimension and MLP ratio of the network, depth and number of heads of each stage."""

    patch: ClassVar[int] = 16
    stride: ClassVar[int] = 8
    sides: ClassVar[tuple[int, ...]] = (27, 14, 7)  # of the grid of patch tokens in each stage
    network_type: ClassVar[type[PiT]] = PiT
    sliced = True
    chained = frozenset({"num_heads"})

    def rule(self, choices: Mapping[str, Any]) -> str | None:
        """The depthwise pooling needs the width of a stage to be a multiple of the one before."""
        heads = choices["num_heads"]
        if all(after % before == 0 for before, after in pairwise(heads)):
            return None
        return f"num_heads must be multiples, each of the one before, but got {heads}"

    def stages(self, arch: Architecture) -> list[list[BlockSpec]]:
        stages = []
        for depth, heads, side in zip(arch["depth"], arch["num_heads"], self.sides, strict=True):
            width = arch["base_dim"] * heads
            hidden = int(width * arch["mlp_ratio"])
            stages.append([BlockSpec(width, 1 + side**2, heads, width, hidden)] * depth)
        return stages

    def params(self, arch: Architecture, classes: int = 1000) -> int:
        blocks = self.blocks(arch)
        first, last = blocks[0].width, blocks[-1].width
        embeddings = (1 + self.sides[0] ** 2) * first
        patches = (CHANNELS * self.patch**2 + 1) * first
        poolings = sum(
            (POOLING_KERNEL**2 + 1) * b + (a + 1) * b for a, b, _ in self._poolings(arch)
        )
        norm_and_head = 2 * last + (last + 1) * classes
        return embeddings + patches + sum(b.params for b in blocks) + poolings + norm_and_head

    def flops(self, arch: Architecture, classes: int = 1000) -> int:
        blocks = self.blocks(arch)
        patches = self.sides[0] ** 2 * CHANNELS * self.patch**2 * blocks[0].width
        poolings = sum(
            side**2 * POOLING_KERNEL**2 * b + a * b for a, b, side in self._poolings(arch)
        )
        return patches + sum(b.macs for b in blocks) + poolings + blocks[-1].width * classes

    def network(self, arch: Architecture, classes: int) -> PiT:
        return self.network_type(self.blocks(arch), self.patch, self.stride, classes)

    def _poolings(self, arch: Architecture) -> Iterator[tuple[int, int, int]]:
        """For each pooling, the widths before and after and the side of the grid after."""
        widths = [arch["base_dim"] * heads for heads in arch["num_heads"]]
        return zip(widths, widths[1:], self.sides[1:], strict=False)


class PiTNanoSpace(PiTSpace):
    """PiT's geometry, scaled to small images."""

    input_shape = (3, 16, 16)
    patch = 4
    stride = 3
    sides = (5, 3, 2)
    network_type = PiTNano


def _space(name: str, about: str, base_dims: tuple[int, ...], heads: tuple[int, ...]) -> PiTSpace:
    fields = {
        "base_dim": one(*base_dims),
        "mlp_ratio": one(2, 4, 6, 8),
        "depth": per_stage_field((1, 2, 3), (4, 6, 8), (2, 4, 6)),
        "num_heads": per_stage_field(heads, heads, heads),
    }
    return PiTSpace(name, about, fields)


PIT = _space(
    "pit",
    "PiT-Ti, the pooling-based vision transformers of ViT-Bench-101",
    (16, 24, 32, 40),
    (2, 4, 8),
)
PIT_XS = _space("pit-xs", "PiT-XS, pooling-based vision transformers", (40, 48, 56, 64), (2, 4, 8))
PIT_S = _space("pit-s", "PiT-S, pooling-based vision transformers", (36, 48, 60, 72), (3, 6, 12))
PIT_NANO = PiTNanoSpace(
    "pit-nano",
    "PiT for 16 x 16 images, pyramids of three stages of 3 thousand to 5 M parameters",
    {
        "base_dim": one(8, 12, 16, 24),
        "mlp_ratio": one(0.5, 1, 2, 4, 6),
        "depth": per_stage_field((1, 2, 3), (1, 2, 3, 4, 6), (1, 2, 3, 4, 6)),
        "num_heads": per_stage_field((1, 2, 4), (1, 2, 4), (1, 2, 4, 8)),
    },
)
