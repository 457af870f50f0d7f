"""The convolutional space of PreNAS's table 2: Wang et al., "PreNAS: Preferred One-Shot Learning
Towards Efficient Neural Architecture Search", ICML 2023.

The space is that of Yu et al., "BigNAS: Scaling Up Neural Architecture Search with Big Single-Stage
Models", ECCV 2020: the inverted residual blocks of MobileNetV2 (Sandler et al., CVPR 2018) with
swish, which expand the channels to the same number in the first stage and to six times as many in
the others. Images are resized to the network's own resolution. The published tables give only the
ends of the ranges of channels; the values between them are multiples of 8 here, and of 64 after the
last stage.

A 1 x 1 convolution is a linear layer that is applied to every pixel, and is built as one: the
domain ``mlp``, and therefore ``all``, contains the layers that expand and project. There is no
``msa``, so proxies that need it can't be used. Depthwise convolutions are in no domain. A block has
one head.

Networks are built in evaluation mode, in which an untrained batch norm passes on its input
unchanged, so the measurements of an image don't depend on the other images.

In a supernet, a kernel of size 3 is the middle of one of size 5, whose middle rows and columns come
first.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.searchspaces.space import (
    Architecture,
    StagedSpace,
    choice_values,
    one,
    per_stage_field,
)
from autoprox.searchspaces.transformer import (
    CHANNELS,
    BlockSpec,
    Conv2d,
    Layer,
    Linear,
    TransformerBlock,
    TransformerNetwork,
    fan_out_normal_,
    normal_,
    tokens_to_grid,
)

BIGNAS_STEM_KERNEL = 3


@dataclass(frozen=True)
class BottleneckSpec(BlockSpec):
    """The structure of one block; `width` and `tokens` are of its output."""

    source: int  # channels of its input
    kernel: int
    stride: int

    @property
    def expands(self) -> bool:
        """Whether it has more channels inside than its input."""
        return self.hidden != self.source

    @property
    def params(self) -> int:
        """The number of parameters: those of convolutions, and two per channel of each norm."""
        expand = (self.source + 2) * self.hidden if self.expands else 0
        return expand + (self.kernel**2 + 2) * self.hidden + (self.hidden + 2) * self.width

    @property
    def macs(self) -> int:
        """Multiply-accumulates for one image."""
        before = self.tokens * self.stride**2 * self.source * self.hidden if self.expands else 0
        return before + self.tokens * (self.kernel**2 + self.width) * self.hidden


class TokenBatchNorm(nn.BatchNorm1d):
    """A batch norm of tokens [batch, tokens, channels]."""

    def forward(self, tokens: Tensor) -> Tensor:
        """Normalise each channel over the batch and the tokens."""
        return super().forward(tokens.flatten(0, 1)).view_as(tokens)


class GridConvolution(Conv2d):
    """A convolution without a bias over tokens that are the pixels of a square."""

    def __init__(self, source: int, width: int, kernel: int, stride: int, groups: int = 1) -> None:
        half = kernel // 2
        super().__init__(source, width, kernel, stride, half, groups=groups, bias=False)

    def forward(self, tokens: Tensor, middle_first: bool = False) -> Tensor:
        """Map tokens [batch, tokens, source] to [batch, fewer by the stride, width].

        If `middle_first`, the kernel's middle rows and columns are its first.
        """
        weight, half = self.weight, self.weight.shape[-1] // 2
        if middle_first:
            order = centre_first_kernel_order(weight.shape[-1]).argsort()
            weight = weight[:, :, order][..., order]
        grid = tokens_to_grid(tokens)
        grid = functional.conv2d(grid, weight, None, self.stride, half, groups=self.groups)
        return grid.flatten(2).mT


def centre_first_kernel_order(kernel: int) -> Tensor:
    """The rows of a kernel in an order in which those of a smaller one in its middle are first."""
    rows = torch.arange(kernel)
    return (rows - kernel // 2).abs().clamp(min=1).argsort(stable=True)


class InvertedResidual(TransformerBlock):
    """A block that expands the channels, mixes pixels within each, and projects to fewer."""

    heads = 1

    def __init__(self, spec: BottleneckSpec) -> None:
        super().__init__()
        source, hidden, width = spec.source, spec.hidden, spec.width
        if spec.expands:
            self.expand = Linear(source, hidden, bias=False)
            self.norm1 = TokenBatchNorm(hidden)
        self.depthwise = GridConvolution(hidden, hidden, spec.kernel, spec.stride, hidden)
        self.norm2 = TokenBatchNorm(hidden)
        self.project = Linear(hidden, width, bias=False)
        self.norm3 = TokenBatchNorm(width)
        self.expands = spec.expands
        self.residual = spec.stride == 1 and source == width

    def linears(self) -> list[tuple[str, nn.Linear]]:
        """The layer that expands, if any, and the one that projects."""
        layers = [self.expand, self.project] if self.expands else [self.project]
        return [("mlp", layer) for layer in layers]

    def projections(self) -> list[nn.Linear]:
        """Nothing: there is no attention."""
        return []

    def branches(self) -> Sequence[nn.Module]:
        """The last norm, whose output is added to the input, if it is."""
        return [self.norm3] if self.residual else []

    @torch.no_grad()
    def reorder(self, entangled: bool) -> None:
        """Bring the middle of the kernel to the front, or back."""
        if entangled != self.entangled:
            weight = self.depthwise.weight
            order = centre_first_kernel_order(weight.shape[-1])
            order = order if entangled else order.argsort()
            weight.copy_(weight[:, :, order][..., order])
        super().reorder(entangled)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens [batch, tokens, source] to [batch, fewer by the stride, width]."""
        hidden = functional.silu(self.norm1(self.expand(x))) if self.expands else x
        hidden = functional.silu(self.norm2(self.depthwise(hidden, self.entangled)))
        projected: Tensor = self.norm3(self.project(hidden))
        return x + projected if self.residual else projected


class BigNAS(TransformerNetwork):
    """A convolutional network of inverted residual blocks."""

    convolution_rule = staticmethod(fan_out_normal_)

    def __init__(
        self,
        stages: Sequence[Sequence[BottleneckSpec]],
        resolution: int,
        stem_stride: int,
        last: int,
        classes: int,
    ) -> None:
        super().__init__()
        first, width = stages[0][0].source, stages[-1][-1].width
        self.resolution = resolution
        self.stem = GridConvolution(CHANNELS, first, BIGNAS_STEM_KERNEL, stem_stride)
        self.stem_norm = TokenBatchNorm(first)
        self.blocks = nn.Sequential()
        for number, stage in enumerate(stages, 1):
            for i, spec in enumerate(stage):
                self.blocks.add_module(f"stage{number}_block{i}", InvertedResidual(spec))
        self.last = Linear(width, last, bias=False)
        self.last_norm = TokenBatchNorm(last)
        self.head = Linear(last, classes)

    def forward(self, images: Tensor) -> Tensor:
        size = (self.resolution, self.resolution)
        if images.shape[2:] != size:
            images = functional.interpolate(images, size, mode="bilinear", antialias=True)
        tokens = functional.silu(self.stem_norm(self.stem(images.flatten(2).mT)))
        pixels = functional.silu(self.last_norm(self.last(self.blocks(tokens))))
        return self.head(pixels.mean(1))

    def extra_layers(self) -> list[tuple[str, Layer]]:
        """The first convolution and the classifier."""
        return [("stem", self.stem), ("head", self.head)]

    @staticmethod
    def linear_rule(layer: nn.Linear, generator: torch.Generator) -> None:
        """Initialise like convolutions; the classifier, which alone has biases, normal by 0.01."""
        std = math.sqrt(2 / layer.out_features) if layer.bias is None else 0.01
        normal_(layer, generator, std)


class BigNASSpace(StagedSpace):
    """Resolution, channels before and after the stages; channels, depth and kernel of each."""

    entangled = True
    chained = frozenset({"channels"})
    stem_stride = 2
    strides: tuple[int, ...] = (1, 2, 2, 2, 1, 2, 1)
    expansions: tuple[int, ...] = (1, 6, 6, 6, 6, 6, 6)

    def stages(self, arch: Architecture) -> list[list[BottleneckSpec]]:
        source, side, stages = arch["stem"], arch["resolution"] // self.stem_stride, []
        choices = (arch["channels"], arch["depth"], arch["kernel"])
        columns = (*choices, self.strides, self.expansions)
        for width, depth, kernel, stride, expansion in zip(*columns, strict=True):
            side //= stride
            specs = []
            for i in range(depth):
                hidden, step = source * expansion, 1 if i else stride
                specs.append(BottleneckSpec(width, side**2, 1, 0, hidden, source, kernel, step))
                source = width
            stages.append(specs)
        return stages

    def params(self, arch: Architecture, classes: int = 1000) -> int:
        stem: int = (CHANNELS * BIGNAS_STEM_KERNEL**2 + 2) * arch["stem"]
        blocks = self.blocks(arch)
        last: int = (blocks[-1].width + 2) * arch["last"]
        head: int = (arch["last"] + 1) * classes
        return stem + sum(b.params for b in blocks) + last + head

    def flops(self, arch: Architecture, classes: int = 1000) -> int:
        blocks = self.blocks(arch)
        pixels = (arch["resolution"] // self.stem_stride) ** 2
        stem: int = pixels * CHANNELS * BIGNAS_STEM_KERNEL**2 * arch["stem"]
        last: int = blocks[-1].tokens * blocks[-1].width * arch["last"]
        head: int = arch["last"] * classes
        return stem + sum(b.macs for b in blocks) + last + head

    def network(self, arch: Architecture, classes: int) -> BigNAS:
        stages, size = self.stages(arch), arch["resolution"]
        return BigNAS(stages, size, self.stem_stride, arch["last"], classes).eval()

    def features(self, arch: Architecture) -> tuple[float, ...]:
        """The choices for a regression: logarithms, because sizes multiply."""
        return tuple(math.log(n) for _, value in arch.choices for n in choice_values(value))


class NanoBigNASSpace(BigNASSpace):
    """BigNAS's geometry, scaled to small images."""

    input_shape = (3, 16, 16)
    stem_stride = 1
    strides = (1, 2, 2)
    expansions = (1, 4, 4)


def _range(low: int, high: int, step: int = 8) -> tuple[int, ...]:
    """The numbers from `low` to `high`, both included."""
    return tuple(range(low, high + 1, step))


BIGNAS = BigNASSpace(
    "bignas",
    "BigNAS, convolutional networks of inverted residual blocks, 3.4 to 9.2 M parameters",
    {
        "resolution": one(192, 224, 288, 320),
        "stem": one(32, 40),
        "channels": per_stage_field(
            *(_range(16, 24), _range(24, 32), _range(40, 48), _range(80, 88)),
            *(_range(112, 128), _range(192, 216), _range(320, 352)),
        ),
        "depth": per_stage_field(
            (1, 2), (2, 3), (2, 3), (2, 3, 4), (2, 3, 4, 5, 6), (2, 3, 4, 5, 6), (1, 2)
        ),
        "kernel": per_stage_field((3,), (3,), *[(3, 5)] * 5),
        "last": one(*_range(1280, 1408, 64)),
    },
)
BIGNAS_NANO = NanoBigNASSpace(
    "bignas-nano",
    "BigNAS for 16 x 16 images, convolutional networks of up to 0.2 M parameters",
    {
        "resolution": one(16, 24),
        "stem": one(8, 16),
        "channels": per_stage_field((8, 16), (16, 24), (24, 32, 40)),
        "depth": per_stage_field((1, 2), (1, 2, 3), (1, 2, 3)),
        "kernel": per_stage_field((3,), (3, 5), (3, 5)),
        "last": one(64, 96, 128),
    },
)
