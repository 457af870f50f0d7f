"""The convolutional space of PreNAS's table 2: Wang et al., "PreNAS: Preferred One-Shot Learning
Towards Efficient Neural Architecture Search", ICML 2023.

It is that of Yu et al., "BigNAS: Scaling Up Neural Architecture Search with Big Single-Stage
Models", ECCV 2020: the inverted residual blocks of MobileNetV2 (Sandler et al., CVPR 2018) with
swish, which expand the channels to the same number in the first stage and to six times as many in
the others. Images are resized to the network's own resolution. Between the ends of a range of
channels the published tables are silent: here they are multiples of 8, after the last stage of 64.

A convolution of 1 x 1 is a linear layer that every pixel passes, and is built as one: the domain
``mlp``, and so ``all``, is of those that expand and project. There is no ``msa``, so that proxies
that need it can't be searched with. Depthwise convolutions are in no domain. A block has one head.

Networks are built in evaluation mode, where an untrained batch norm passes its input on: what is
measured of an image doesn't depend on the others.

In a supernet a kernel of 3 is the middle of one of 5: there its rows and columns come first.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.searchspaces.base import Architecture, Field, SearchSpace, one, per_stage
from autoprox.searchspaces.blocks import (
    Block,
    Conv2d,
    Layer,
    Linear,
    TransformerBlock,
    TransformerNetwork,
)

CHANNELS = 3
STEM_KERNEL = 3

# The seed's own stream is that of the linear layers.
_CONVOLUTION_STREAM = 0x636F6E76


@dataclass(frozen=True)
class Bottleneck(Block):
    """The structure of one block; `width` and `tokens` are of its output."""

    source: int  # channels of its input
    kernel: int
    stride: int

    @property
    def expands(self) -> bool:
        """Whether it has more channels within."""
        return self.hidden != self.source

    @property
    def params(self) -> int:
        """The number of parameters: of convolutions, and two of the norm after each."""
        expand = (self.source + 2) * self.hidden if self.expands else 0
        return expand + (self.kernel**2 + 2) * self.hidden + (self.hidden + 2) * self.width

    @property
    def macs(self) -> int:
        """Multiply-accumulates for one image."""
        before = self.tokens * self.stride**2 * self.source * self.hidden if self.expands else 0
        return before + self.tokens * (self.kernel**2 + self.width) * self.hidden


class Norm(nn.BatchNorm1d):
    """A batch norm of tokens [batch, tokens, channels]."""

    def forward(self, tokens: Tensor) -> Tensor:
        """Normalise each channel over the batch and the tokens."""
        return super().forward(tokens.flatten(0, 1)).view_as(tokens)


class GridConvolution(Conv2d):
    """A convolution without a bias over tokens that are the pixels of a square."""

    def __init__(self, source: int, width: int, kernel: int, stride: int, groups: int = 1) -> None:
        half = kernel // 2
        super().__init__(source, width, kernel, stride, half, groups=groups, bias=False)

    def forward(self, tokens: Tensor, inwards: bool = False) -> Tensor:
        """Map tokens [batch, tokens, source] to [batch, fewer by the stride, width].

        Where the kernel is `inwards`, its middle rows and columns are the first.
        """
        side = math.isqrt(tokens.shape[1])
        grid = tokens.mT.reshape(len(tokens), -1, side, side)
        weight = self.weight
        if inwards:
            order = middle_first(weight.shape[-1]).argsort()
            weight = weight[:, :, order][..., order]
        half = weight.shape[-1] // 2
        found = functional.conv2d(grid, weight, None, self.stride, half, groups=self.groups)
        return found.flatten(2).mT


def middle_first(kernel: int) -> Tensor:
    """The rows of a kernel, so that those of a smaller one in its middle are the first."""
    rows = torch.arange(kernel)
    return (rows - kernel // 2).abs().clamp(min=1).argsort(stable=True)


class InvertedResidual(TransformerBlock):
    """Expands the channels, mixes neighbouring pixels of each, and projects to fewer."""

    heads = 1

    def __init__(self, shape: Bottleneck) -> None:
        super().__init__()
        source, hidden, width = shape.source, shape.hidden, shape.width
        if shape.expands:
            self.expand = Linear(source, hidden, bias=False)
            self.norm1 = Norm(hidden)
        self.depthwise = GridConvolution(hidden, hidden, shape.kernel, shape.stride, hidden)
        self.norm2 = Norm(hidden)
        self.project = Linear(hidden, width, bias=False)
        self.norm3 = Norm(width)
        self.expands = shape.expands
        self.residual = shape.stride == 1 and source == width

    def linears(self) -> list[tuple[str, nn.Linear]]:
        """The layer that expands, if any, and the one that projects."""
        layers = [self.expand, self.project] if self.expands else [self.project]
        return [("mlp", layer) for layer in layers]

    def projections(self) -> list[nn.Linear]:
        """None: nothing attends."""
        return []

    def branches(self) -> Sequence[nn.Module]:
        """The last norm, whose output is added to the input, if it is."""
        return [self.norm3] if self.residual else []

    @torch.no_grad()
    def reorder(self, entangled: bool) -> None:
        """Bring the middle of the kernel to the front, or back."""
        if entangled != self.entangled:
            weight = self.depthwise.weight
            order = middle_first(weight.shape[-1])
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

    def __init__(
        self,
        stages: Sequence[Sequence[Bottleneck]],
        resolution: int,
        stem_stride: int,
        last: int,
        classes: int,
    ) -> None:
        super().__init__()
        first, width = stages[0][0].source, stages[-1][-1].width
        self.resolution = resolution
        self.stem = GridConvolution(CHANNELS, first, STEM_KERNEL, stem_stride)
        self.stem_norm = Norm(first)
        self.blocks = nn.Sequential()
        for number, stage in enumerate(stages, 1):
            for place, shape in enumerate(stage):
                self.blocks.add_module(f"stage{number}_block{place}", InvertedResidual(shape))
        self.last = Linear(width, last, bias=False)
        self.last_norm = Norm(last)
        self.head = Linear(last, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Map images [batch, 3, height, width] to logits [batch, classes]."""
        size = (self.resolution, self.resolution)
        if images.shape[2:] != size:
            images = functional.interpolate(images, size, mode="bilinear", antialias=True)
        tokens = functional.silu(self.stem_norm(self.stem(images.flatten(2).mT)))
        pixels = functional.silu(self.last_norm(self.last(self.blocks(tokens))))
        logits: Tensor = self.head(pixels.mean(1))
        return logits

    def extra_layers(self) -> list[tuple[str, Layer]]:
        """The first convolution and the classifier."""
        return [("stem", self.stem), ("head", self.head)]

    @staticmethod
    def linear_rule(layer: nn.Linear, generator: torch.Generator) -> None:
        """As convolutions; the classifier, which alone has biases, normal by 0.01."""
        deviation = math.sqrt(2 / layer.out_features) if layer.bias is None else 0.01
        layer.weight.normal_(0.0, deviation, generator=generator)
        if layer.bias is not None:
            layer.bias.zero_()

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Draw convolutions normal with variance 2 / fan out, by private generators."""
        super().initialise(seed)
        generator = torch.Generator("cpu").manual_seed(seed ^ _CONVOLUTION_STREAM)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                fan_out = module.weight[0, 0].numel() * module.out_channels // module.groups
                module.weight.normal_(0.0, math.sqrt(2 / fan_out), generator=generator)


class BigNASSpace(SearchSpace):
    """Resolution, channels before and after the stages; channels, depth and kernel of each."""

    entangled = True
    linked = frozenset({"channels"})
    stem_stride = 2
    strides: tuple[int, ...] = (1, 2, 2, 2, 1, 2, 1)
    expansions: tuple[int, ...] = (1, 6, 6, 6, 6, 6, 6)

    def stages(self, arch: Architecture) -> list[list[Bottleneck]]:
        """The structure of the blocks of each stage."""
        source, side, stages = arch["stem"], arch["resolution"] // self.stem_stride, []
        names = (arch["channels"], arch["depth"], arch["kernel"])
        for width, depth, kernel, stride, expansion in zip(
            *names, self.strides, self.expansions, strict=True
        ):
            side //= stride
            own = []
            for i in range(depth):
                hidden, step = source * expansion, 1 if i else stride
                own.append(Bottleneck(width, side**2, 1, 0, hidden, source, kernel, step))
                source = width
            stages.append(own)
        return stages

    def blocks(self, arch: Architecture) -> tuple[Bottleneck, ...]:
        """The structure of the blocks, in depth order."""
        return tuple(block for stage in self.stages(arch) for block in stage)

    def params(self, arch: Architecture, classes: int = 1000) -> int:
        """The number of parameters, from the choices alone."""
        stem: int = (CHANNELS * STEM_KERNEL**2 + 2) * arch["stem"]
        blocks = self.blocks(arch)
        last: int = (blocks[-1].width + 2) * arch["last"]
        head: int = (arch["last"] + 1) * classes
        return stem + sum(b.params for b in blocks) + last + head

    def flops(self, arch: Architecture, classes: int = 1000) -> int:
        """Multiply-accumulates for one image, from the choices alone."""
        blocks = self.blocks(arch)
        pixels = (arch["resolution"] // self.stem_stride) ** 2
        stem: int = pixels * CHANNELS * STEM_KERNEL**2 * arch["stem"]
        last: int = blocks[-1].tokens * blocks[-1].width * arch["last"]
        head: int = arch["last"] * classes
        return stem + sum(b.macs for b in blocks) + last + head

    def network(self, arch: Architecture, classes: int) -> BigNAS:
        """The network with its parameters unset, in evaluation mode."""
        stages, size = self.stages(arch), arch["resolution"]
        return BigNAS(stages, size, self.stem_stride, arch["last"], classes).eval()

    def features(self, arch: Architecture) -> tuple[float, ...]:
        """The choices for a regression: logarithms, because sizes multiply."""
        numbers = (n for _, value in arch.choices for n in _numbers(value))
        return tuple(map(math.log, numbers))

    def size(self) -> int:
        """The number of architectures in the space: no choice depends on another."""
        return math.prod(len(o) for field in self.fields.values() for o in field.options)


class NanoBigNASSpace(BigNASSpace):
    """BigNAS's geometry, scaled to small images."""

    input_shape = (3, 16, 16)
    stem_stride = 1
    strides = (1, 2, 2)
    expansions = (1, 4, 4)


def _numbers(value: int | tuple[int, ...]) -> tuple[int, ...]:
    return value if isinstance(value, tuple) else (value,)


def _range(low: int, high: int, step: int = 8) -> tuple[int, ...]:
    """The numbers from `low` to `high`, both included."""
    return tuple(range(low, high + 1, step))


def _fields(
    resolution: Field, stem: Field, last: Field, stages: Sequence[tuple[tuple[int, ...], ...]]
) -> Mapping[str, Field]:
    """The fields of a space, of each stage the channels, depths and kernels."""
    names = zip(("channels", "depth", "kernel"), zip(*stages, strict=True), strict=True)
    staged = {name: per_stage(*options) for name, options in names}
    return {"resolution": resolution, "stem": stem, **staged, "last": last}


BIGNAS = BigNASSpace(
    "bignas",
    "BigNAS, convolutional networks of inverted residual blocks, 3.4 to 9.2 M parameters",
    _fields(
        resolution=one(192, 224, 288, 320),
        stem=one(32, 40),
        last=one(*_range(1280, 1408, 64)),
        stages=(
            (_range(16, 24), (1, 2), (3,)),
            (_range(24, 32), (2, 3), (3,)),
            (_range(40, 48), (2, 3), (3, 5)),
            (_range(80, 88), (2, 3, 4), (3, 5)),
            (_range(112, 128), (2, 3, 4, 5, 6), (3, 5)),
            (_range(192, 216), (2, 3, 4, 5, 6), (3, 5)),
            (_range(320, 352), (1, 2), (3, 5)),
        ),
    ),
)
BIGNAS_NANO = NanoBigNASSpace(
    "bignas-nano",
    "BigNAS for 16 x 16 images, convolutional networks of up to 0.2 M parameters",
    _fields(
        resolution=one(16, 24),
        stem=one(8, 16),
        last=one(64, 96, 128),
        stages=(
            ((8, 16), (1, 2), (3,)),
            ((16, 24), (1, 2, 3), (3, 5)),
            ((24, 32, 40), (1, 2, 3), (3, 5)),
        ),
    ),
)
