"""The Shunted ViT space: Ren et al., "Shunted Self-Attention via Multi-Scale Token Aggregation".

The paper appeared at CVPR 2022; the networks follow its published code. Each of four stages has
half the rows and columns of tokens of the previous one, at twice the width. Half of the heads of a
block attend to tokens that are merged in squares of 8 x 8, 4 x 4 and 2 x 2 (first, second, third
stage), the other half to squares of half that side; in the fourth stage all heads attend to all
tokens. A depthwise convolution enhances the values, and another is in the MLP. The initial weights
of linear layers are normal with standard deviation 0.02, those of convolutions normal by fan-out.

T-Razor (Zhou et al., "Training-Free Transformer Architecture Search With Zero-Cost Proxy Guided
Evolution", TPAMI 2024) searches the base dimension, patch size, layer number, head number and MLP
ratio of these networks, about 2.6e12 of them; the paper doesn't list the values. The options here
are chosen around Shunted-T, -S and -B, which are in the space and also differ in the convolutions
of the stem. They make about as many networks, 2.5e12. With patches of 8 pixels, a stage has as many
tokens as the published networks have for 112 x 112 pixels. As in these, merging drops the last rows
and columns if they don't fill a square.

Networks are built in evaluation mode, in which the untrained batch norm of the stem only divides by
the root of 1 + 1e-5. The measurements of an image therefore don't depend on the other images, and
measuring doesn't change the network.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.searchspaces.space import Architecture, StagedSpace, one, per_stage_field
from autoprox.searchspaces.transformer import (
    CHANNELS,
    BlockSpec,
    Conv2d,
    Linear,
    StageTransition,
    TransformerBlock,
    TransformerNetwork,
    fan_out_normal_,
    multi_head_attention,
    tokens_to_grid,
)

MERGING_RATES = (8, 4, 2, 1)  # the side of the larger squares in which a stage merges its tokens
SHUNTED_STEM_KERNEL, SHUNTED_KERNEL = 7, 3


@dataclass(frozen=True)
class ShuntedBlockSpec(BlockSpec):
    """The structure of one block, which merges squares of `rate` and of `rate / 2` tokens' side."""

    rate: int

    @property
    def merged(self) -> dict[int, int]:
        """The number of tokens that merging at each of its rates leaves."""
        side = math.isqrt(self.tokens)
        rates = (self.rate, self.rate // 2) if self.rate > 1 else ()
        return {rate: (side // rate) ** 2 for rate in rates}

    @property
    def params(self) -> int:
        """The number of parameters: norms, linear layers and convolutions, with their biases."""
        width, depthwise = self.width, SHUNTED_KERNEL**2 + 1
        attention = 4 * (width + 1) * width + depthwise * width
        merging = sum((rate**2 * width + 1) * width + 2 * width for rate in self.merged)
        mlp = (width + 1) * self.hidden + depthwise * self.hidden + (self.hidden + 1) * width
        return 4 * width + attention + merging + mlp

    @property
    def macs(self) -> int:
        """Multiply-accumulates for one image: linear layers, convolutions, attention's products."""
        width, tokens = self.width, self.tokens
        keys = sum(self.merged.values()) * width // 2 if self.merged else tokens * width
        attention = (
            2 * tokens * width**2 + (2 * width + SHUNTED_KERNEL**2) * keys + 2 * tokens * keys
        )
        merging = sum(number * rate**2 * width**2 for rate, number in self.merged.items())
        mlp = tokens * (2 * width + SHUNTED_KERNEL**2) * self.hidden
        return attention + merging + mlp


class DepthwiseConvolution(Conv2d):
    """A convolution over the tokens, each feature by itself."""

    def __init__(self, width: int) -> None:
        super().__init__(width, width, SHUNTED_KERNEL, padding=SHUNTED_KERNEL // 2, groups=width)

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens_to_grid(tokens)).flatten(2).mT


class Downsampling(Conv2d, StageTransition):
    """The step from the grid of a stage to the next, with half of its rows and columns."""

    def __init__(self, width: int, next_width: int) -> None:
        super().__init__(width, next_width, SHUNTED_KERNEL, stride=2, padding=SHUNTED_KERNEL // 2)


class PatchEmbedding(nn.Module):
    """A convolution that turns a grid into tokens, and a norm."""

    def __init__(self, convolution: nn.Module, width: int) -> None:
        super().__init__()
        self.convolution = convolution
        self.norm = nn.LayerNorm(width)

    def forward(self, grid: Tensor) -> Tensor:
        """Map a grid [batch, channels, side, side] to tokens [batch, tokens, width]."""
        normed: Tensor = self.norm(self.convolution(grid).flatten(2).mT)
        return normed


class ScaleAttention(nn.Module):
    """Attention of half of the heads to tokens merged in squares, or of all heads to all tokens."""

    def __init__(self, spec: ShuntedBlockSpec, rate: int | None) -> None:
        super().__init__()
        width, self.heads = spec.width, spec.heads
        if rate is not None:
            width, self.heads = spec.width // 2, spec.heads // 2
            convolution = Conv2d(spec.width, spec.width, rate, stride=rate)
            self.merge = PatchEmbedding(convolution, spec.width)
        self.merges = rate is not None
        self.kv = Linear(spec.width, 2 * width)
        self.local = DepthwiseConvolution(width)

    def forward(self, query: Tensor, x: Tensor) -> Tensor:
        """Map queries and tokens [batch, tokens, width] to values of the width of these heads."""
        tokens = functional.gelu(self.merge(tokens_to_grid(x))) if self.merges else x
        key, value = self.kv(tokens).chunk(2, -1)
        local = self.local(value)
        if self.merges:
            return multi_head_attention(query, key, value + local, self.heads)
        return multi_head_attention(query, key, value, self.heads) + local


class ShuntedBlock(TransformerBlock):
    """A pre-norm block: shunted self-attention, then the detail-specific MLP, each residual."""

    def __init__(self, spec: ShuntedBlockSpec) -> None:
        super().__init__()
        width, self.heads = spec.width, spec.heads
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.q = Linear(width, width)
        rates: list[int | None] = [*spec.merged] or [None]
        self.scales = nn.ModuleList(ScaleAttention(spec, rate) for rate in rates)
        self.proj = Linear(width, width)
        self.norm2 = nn.LayerNorm(width, eps=1e-6)
        self.fc1 = Linear(width, spec.hidden)
        self.detail = DepthwiseConvolution(spec.hidden)
        self.fc2 = Linear(spec.hidden, width)

    def linears(self) -> list[tuple[str, nn.Linear]]:
        """q, the keys and values of each scale, proj, fc1 and fc2, with their domain."""
        msa = [("msa", layer) for layer in (*self.projections(), self.proj)]
        return [*msa, ("mlp", self.fc1), ("mlp", self.fc2)]

    def projections(self) -> list[nn.Linear]:
        """q, and the keys and values of each scale."""
        return [self.q, *(scale.kv for scale in self.scales)]  # type: ignore[list-item]

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attend(self.norm1(x))
        hidden = self.fc1(self.norm2(x))
        return x + self.fc2(functional.gelu(hidden + self.detail(hidden)))

    def attend(self, x: Tensor) -> Tensor:
        """Self-attention over tokens [batch, tokens, width], the heads shared out to the scales."""
        queries = self.q(x).chunk(len(self.scales), -1)
        values = [scale(q, x) for scale, q in zip(self.scales, queries, strict=True)]
        return self.proj(torch.cat(values, -1))


class ShuntedStage(nn.Module):
    """An embedding, the blocks after it, and a norm."""

    def __init__(self, convolution: nn.Module, specs: Sequence[ShuntedBlockSpec]) -> None:
        super().__init__()
        width = specs[0].width
        self.embedding = PatchEmbedding(convolution, width)
        self.blocks = nn.Sequential(*map(ShuntedBlock, specs))
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, grid: Tensor) -> Tensor:
        """Map the image, or the grid of the stage before, to this stage's grid."""
        return tokens_to_grid(self.norm(self.blocks(self.embedding(grid))))


class Shunted(TransformerNetwork):
    """A vision transformer of four stages whose heads see tokens of two sizes."""

    convolution_rule = staticmethod(fan_out_normal_)

    def __init__(
        self,
        stages: Sequence[Sequence[ShuntedBlockSpec]],
        patch: int,
        convolutions: int,
        classes: int,
    ) -> None:
        super().__init__()
        widths = [specs[0].width for specs in stages]
        downs = [Downsampling(*pair) for pair in pairwise(widths)]
        stem = _stem(widths[0], patch, convolutions)
        self.stages = nn.Sequential(*map(ShuntedStage, (stem, *downs), stages))
        self.head = Linear(widths[-1], classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.stages(images).mean((2, 3)))


class ShuntedSpace(StagedSpace):
    """Base dimension, patch size and stem of the network; depth, heads and MLP ratio of stages."""

    independent = frozenset({"num_heads", "mlp_ratio"})

    def still_relevant(self, chosen: Sequence[str]) -> Sequence[str]:
        """The base dimension and the patch size: the stem's convolutions change nothing later."""
        return [name for name in chosen if name != "stem_convs"]

    def stages(self, arch: Architecture) -> list[list[ShuntedBlockSpec]]:
        width, side, stages = arch["base_dim"], self.input_shape[1] // arch["patch_size"], []
        choices = (arch["depth"], arch["num_heads"], arch["mlp_ratio"], MERGING_RATES)
        for depth, heads, ratio, rate in zip(*choices, strict=True):
            spec = ShuntedBlockSpec(width, side**2, heads, width, int(width * ratio), rate)
            stages.append([spec] * depth)
            width, side = 2 * width, (side + 1) // 2
        return stages

    def params(self, arch: Architecture, classes: int = 1000) -> int:
        firsts = [specs[0] for specs in self.stages(arch)]
        width, last = firsts[0].width, firsts[-1].width
        stem: int = CHANNELS * SHUNTED_STEM_KERNEL**2 * width + 2 * width
        stem += arch["stem_convs"] * (SHUNTED_KERNEL**2 * width**2 + 2 * width)
        stem += ((arch["patch_size"] // 2) ** 2 * width + 1) * width
        downs = sum((SHUNTED_KERNEL**2 * a.width + 1) * b.width for a, b in pairwise(firsts))
        norms = sum(2 * 2 * spec.width for spec in firsts)
        blocks = sum(block.params for block in self.blocks(arch))
        return stem + downs + norms + blocks + (last + 1) * classes

    def flops(self, arch: Architecture, classes: int = 1000) -> int:
        firsts = [specs[0] for specs in self.stages(arch)]
        width, pixels = firsts[0].width, (self.input_shape[1] // 2) ** 2
        stem: int = pixels * CHANNELS * SHUNTED_STEM_KERNEL**2 * width
        stem += arch["stem_convs"] * pixels * SHUNTED_KERNEL**2 * width**2
        stem += firsts[0].tokens * (arch["patch_size"] // 2) ** 2 * width**2
        downs = sum(b.tokens * SHUNTED_KERNEL**2 * a.width * b.width for a, b in pairwise(firsts))
        blocks = sum(block.macs for block in self.blocks(arch))
        return stem + downs + blocks + firsts[-1].width * classes

    def network(self, arch: Architecture, classes: int) -> Shunted:
        network = Shunted(self.stages(arch), arch["patch_size"], arch["stem_convs"], classes)
        return network.eval()

    def features(self, arch: Architecture) -> tuple[float, ...]:
        """The choices for a regression: logarithms, because sizes multiply; the stem's as it is."""
        lists = (arch["depth"], arch["num_heads"], arch["mlp_ratio"])
        sizes = (arch["base_dim"], arch["patch_size"], *(n for numbers in lists for n in numbers))
        return (*map(math.log, sizes), float(arch["stem_convs"]))


def _stem(width: int, patch: int, convolutions: int) -> nn.Sequential:
    """The layers between the pixels and the grid of the first stage."""
    first = Conv2d(
        CHANNELS, width, SHUNTED_STEM_KERNEL, stride=2, padding=SHUNTED_STEM_KERNEL // 2, bias=False
    )
    layers: list[nn.Module] = [first, nn.BatchNorm2d(width), nn.ReLU()]
    for _ in range(convolutions):
        same = Conv2d(width, width, SHUNTED_KERNEL, padding=SHUNTED_KERNEL // 2, bias=False)
        layers += [same, nn.BatchNorm2d(width), nn.ReLU()]
    return nn.Sequential(*layers, Conv2d(width, width, patch // 2, stride=patch // 2))


SHUNTED = ShuntedSpace(
    "shunted",
    "Shunted ViT, vision transformers whose heads see tokens of two sizes",
    {
        "base_dim": one(*range(32, 97, 8)),
        "patch_size": one(4, 8),
        "stem_convs": one(0, 1, 2),
        "depth": per_stage_field(
            (1, 2, 3, 4), tuple(range(2, 9)), tuple(range(4, 31)), (1, 2, 3, 4)
        ),
        "num_heads": per_stage_field(
            (2, 4, 8), (2, 4, 8, 16), (2, 4, 8, 16, 32), (2, 4, 8, 16, 32)
        ),
        "mlp_ratio": per_stage_field(*[tuple(half / 2 for half in range(2, 17))] * 4),
    },
)
