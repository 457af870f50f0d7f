"""The spaces of S3: Chen et al., "Searching the Search Space of Vision Transformer", NeurIPS 2021.

The networks are those of Liu et al., "Swin Transformer: Hierarchical Vision Transformer using
Shifted Windows", ICCV 2021, with choices for every block. Each of four stages has half as many rows
and columns of tokens as the previous one. Attention stays within windows, which every second block
shifts by half of their side. Each head adds a learned bias for the relative position of two tokens.
A window that is at least as large as the grid is the whole grid, and isn't shifted. If windows
don't divide the grid, it is padded, and no token attends to the padding.

A head has 32 dimensions, so the width of queries, keys and values determines the number of heads:
7, 8 and 9 for the published 224, 256 and 288. `s3` is the initial space. S3-T, -S and -B lie
outside it, in the spaces that searching the search space finds.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.searchspaces.space import (
    Architecture,
    ChoiceField,
    OptionValue,
    StagedSpace,
    one,
    per_layer_field,
)
from autoprox.searchspaces.transformer import (
    CHANNELS,
    BlockSpec,
    Conv2d,
    Embedding,
    EncoderBlock,
    Linear,
    StageTransition,
    TransformerNetwork,
    fan_in_uniform_,
)

MERGED = 4  # tokens, two rows of two


@dataclass(frozen=True)
class SwinBlockSpec(BlockSpec):
    """The structure of one block; `tokens` are those of its stage's grid."""

    window: int  # the side, in tokens
    shift: int

    @property
    def side(self) -> int:
        """The tokens in a row of the grid."""
        return math.isqrt(self.tokens)

    @property
    def windows(self) -> int:
        """The windows in a row of the grid, the last of which may be filled up by padding."""
        return math.ceil(self.side / self.window)

    @property
    def biases(self) -> int:
        """The number of relative positions in a window."""
        return (2 * self.window - 1) ** 2

    @property
    def params(self) -> int:
        """The number of parameters: of a block without windows, and the biases of each head."""
        return super().params + self.biases * self.heads

    @property
    def macs(self) -> int:
        """Multiply-accumulates for one image; the products of attention are within windows."""
        linear = self.tokens * self.width * (4 * self.inner + 2 * self.hidden)
        return linear + 2 * self.windows**2 * self.window**4 * self.inner


class SwinBlock(EncoderBlock):
    """A pre-norm transformer block whose attention stays within windows."""

    eps = 1e-5
    positions: Tensor
    mask: Tensor | None

    def __init__(self, spec: SwinBlockSpec) -> None:
        super().__init__(spec)
        self.spec = spec
        self.biases = Embedding(spec.biases, spec.heads)
        self.register_buffer("positions", relative_position_index(spec.window), persistent=False)
        self.register_buffer("mask", shifted_window_mask(spec), persistent=False)

    def mix(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        bias = self.biases(self.positions).permute(2, 0, 1)  # [heads, tokens, tokens] of a window
        if self.mask is not None:
            bias = bias.masked_fill(self.mask[:, None], -math.inf)
        spec, grids = self.spec, []
        padding = spec.windows * spec.window - spec.side
        for tokens in (query, key, value):
            grid = tokens.reshape(*tokens.shape[:2], spec.side, spec.side, -1)
            if padding:
                grid = functional.pad(grid, (0, 0, 0, padding, 0, padding))
            if spec.shift:
                grid = grid.roll((-spec.shift, -spec.shift), (2, 3))
            grids.append(partition_windows(grid, spec))
        query, key, value = grids
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
        batch, _, heads, _, dim = mixed.shape
        sizes = (spec.windows, spec.windows, heads, spec.window, spec.window)
        parts = mixed.reshape(batch, *sizes, dim).permute(0, 3, 1, 4, 2, 5, 6)
        grid = parts.flatten(4, 5).flatten(2, 3)
        if spec.shift:
            grid = grid.roll((spec.shift, spec.shift), (2, 3))
        return grid[:, :, : spec.side, : spec.side].flatten(2, 3)


def partition_windows(grid: Tensor, spec: SwinBlockSpec) -> Tensor:
    """Map [batch, heads, rows, columns, dim] to [batch, windows, heads, tokens, dim]."""
    size = (spec.windows, spec.window)
    parts = grid.reshape(*grid.shape[:2], *size, *size, -1)
    return parts.permute(0, 2, 4, 1, 3, 5, 6).flatten(4, 5).flatten(1, 2)


def relative_position_index(window: int) -> Tensor:
    """The index of the bias of each pair of tokens of a window, [tokens, tokens].

    Biases are ordered by distance, so that those of a smaller window are the first.
    """
    steps = torch.arange(1 - window, window)
    pairs = torch.cartesian_prod(steps, steps)
    order = pairs.abs().amax(1).argsort(stable=True).argsort()
    rows, columns = torch.cartesian_prod(*[torch.arange(window)] * 2).unbind(1)
    down, right = (index[:, None] - index + window - 1 for index in (rows, columns))
    return order[down * len(steps) + right]


def shifted_window_mask(spec: SwinBlockSpec) -> Tensor | None:
    """The pairs of tokens of each window that may not attend to each other, if there are any.

    Shifting joins rows of one edge to those of the other; padding is apart from everything. The
    mask is [windows, tokens, tokens].
    """
    padded = spec.windows * spec.window
    if not spec.shift and padded == spec.side:
        return None
    origin = torch.arange(padded).roll(-spec.shift)
    area = (origin < spec.shift).int() + 2 * (origin >= spec.side).int()
    areas = (4 * area[:, None] + area).expand(1, 1, -1, -1).unsqueeze(-1)
    of_tokens = partition_windows(areas, spec).flatten(0, 2).flatten(1)  # [windows, tokens]
    return of_tokens[:, :, None].ne(of_tokens[:, None])


class PatchMerging(StageTransition):
    """The step to the next stage: four tokens, two by two, become one.

    The four values of a feature are next to each other, so that a narrower stage has the first.
    """

    def __init__(self, width: int, next_width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(MERGED * width)
        self.reduction = Linear(MERGED * width, next_width, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens [batch, tokens, width] to a quarter of them."""
        side = math.isqrt(tokens.shape[1])
        squares = tokens.reshape(len(tokens), side // 2, 2, side // 2, 2, -1)
        together = squares.permute(0, 1, 3, 5, 2, 4).flatten(3).flatten(1, 2)
        return self.reduction(self.norm(together))


class Swin(TransformerNetwork):
    """A vision transformer of stages, each with fewer tokens, whose blocks attend in windows."""

    def __init__(self, stages: Sequence[Sequence[SwinBlockSpec]], patch: int, classes: int) -> None:
        super().__init__()
        widths = [stage[0].width for stage in stages]
        self.patches = Conv2d(CHANNELS, widths[0], patch, stride=patch)
        self.patch_norm = nn.LayerNorm(widths[0])
        self.blocks = nn.Sequential()
        for number, stage in enumerate(stages, 1):
            if number > 1:
                merging = PatchMerging(*widths[number - 2 : number])
                self.blocks.add_module(f"merging{number}", merging)
            for i, spec in enumerate(stage):
                self.blocks.add_module(f"stage{number}_block{i}", SwinBlock(spec))
        self.norm = nn.LayerNorm(widths[-1])
        self.head = Linear(widths[-1], classes)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.patch_norm(self.patches(images).flatten(2).mT)
        return self.head(self.norm(self.blocks(patches)).mean(1))


class NanoSwin(Swin):
    """Swin with the initialisation of PyTorch's own linear layers."""

    linear_rule = staticmethod(fan_in_uniform_)


class SwinSpace(StagedSpace):
    """Depth and dimension of each stage; window, width of q, k, v and MLP ratio of each block.

    The fields of a stage end in its number. `steps` says by how much searching the search space
    moves the options of each dimension.
    """

    entangled = True
    sliced = True
    stage_numbers: ClassVar[Sequence[int]] = (1, 2, 3, 4)
    independent = frozenset(f"mlp_ratio_{stage}" for stage in range(1, 5))
    patch: ClassVar[int] = 4
    head_dim: ClassVar[int] = 32
    network_type: ClassVar[type[Swin]] = Swin
    steps: ClassVar[Mapping[str, float]] = {
        "depth": 1,
        "embed_dim": 64,
        "window": 7,
        "qkv_dim": 64,
        "mlp_ratio": 0.5,
    }

    @cached_property
    def choice_order(self) -> tuple[tuple[str, ...], ...]:
        """The stages one after another."""
        groups = (("depth",), ("embed_dim",), ("window", "qkv_dim", "mlp_ratio"))
        return tuple(
            tuple(f"{name}_{stage}" for name in group)
            for stage in self.stage_numbers
            for group in groups
        )

    def still_relevant(self, chosen: Sequence[str]) -> Sequence[str]:
        """The dimension of the last stage that has one."""
        return [name for name in chosen if name.startswith("embed_dim")][-1:]

    @property
    def options(self) -> dict[str, tuple[float, ...]]:
        """The options of each field, which are numbers."""
        return {
            name: tuple(option for option in field.options[0] if not isinstance(option, str))
            for name, field in self.fields.items()
        }

    def with_options(self, options: Mapping[str, tuple[float, ...]]) -> "SwinSpace":
        """The space of the same networks with these options of each field."""
        fields = {n: replace(field, options=(options[n],)) for n, field in self.fields.items()}
        return type(self)(self.name, self.description, fields)

    def step(self, name: str) -> float:
        """The step by which searching the search space moves the options of a field."""
        return self.steps[name.rpartition("_")[0]]

    def stages(self, arch: Architecture) -> list[list[SwinBlockSpec]]:
        stages, side = [], self.input_shape[1] // self.patch
        for stage in self.stage_numbers:
            width: int = arch[f"embed_dim_{stage}"]
            columns = (arch[f"{name}_{stage}"] for name in ("window", "qkv_dim", "mlp_ratio"))
            specs = []
            for i, (window, inner, ratio) in enumerate(zip(*columns, strict=True)):
                size, heads = min(window, side), inner // self.head_dim
                shift = window // 2 if i % 2 and window < side else 0
                hidden = int(width * ratio)
                specs.append(SwinBlockSpec(width, side**2, heads, inner, hidden, size, shift))
            stages.append(specs)
            side //= 2
        return stages

    def params(self, arch: Architecture, classes: int = 1000) -> int:
        firsts = [stage[0] for stage in self.stages(arch)]
        width, last = firsts[0].width, firsts[-1].width
        patches = (CHANNELS * self.patch**2 + 1) * width + 2 * width
        blocks = sum(block.params for block in self.blocks(arch))
        mergings = sum((b.width + 2) * MERGED * a.width for a, b in pairwise(firsts))
        return patches + blocks + mergings + 2 * last + (last + 1) * classes

    def flops(self, arch: Architecture, classes: int = 1000) -> int:
        firsts = [stage[0] for stage in self.stages(arch)]
        patches = firsts[0].tokens * CHANNELS * self.patch**2 * firsts[0].width
        blocks = sum(block.macs for block in self.blocks(arch))
        mergings = sum(b.tokens * MERGED * a.width * b.width for a, b in pairwise(firsts))
        return patches + blocks + mergings + firsts[-1].width * classes

    def network(self, arch: Architecture, classes: int) -> Swin:
        return self.network_type(self.stages(arch), self.patch, classes)


class NanoSwinSpace(SwinSpace):
    """S3's geometry, scaled to small images: a patch is a pixel."""

    input_shape = (3, 16, 16)
    patch = 1
    head_dim = 8
    network_type = NanoSwin
    steps: ClassVar = {**SwinSpace.steps, "embed_dim": 8, "window": 2, "qkv_dim": 8}


def _for_all_stages(**options: tuple[OptionValue, ...]) -> dict[str, ChoiceField]:
    """The fields of a space whose stages have the same options."""
    return {
        f"{name}_{stage}": one(*values)
        if name in ("depth", "embed_dim")
        else per_layer_field(*values, count=f"depth_{stage}")
        for name, values in options.items()
        for stage in SwinSpace.stage_numbers
    }


SWIN_S3 = SwinSpace(
    "s3",
    "S3, Swin transformers of four stages; the space from which it searches the search space",
    _for_all_stages(
        depth=(2, 3, 4),
        embed_dim=(224, 256, 288),
        window=(7, 14),
        qkv_dim=(224, 256, 288),
        mlp_ratio=(3.0, 3.5, 4.0),
    ),
)
SWIN_NANO = NanoSwinSpace(
    "swin-nano",
    "S3 for 16 x 16 images, Swin transformers of 10 to 120 thousand parameters",
    _for_all_stages(
        depth=(1, 2, 3),
        embed_dim=(16, 24, 32),
        window=(2, 4),
        qkv_dim=(16, 24, 32),
        mlp_ratio=(1.0, 1.5, 2.0),
    ),
)
