"""Matrices of several shapes, their elements end to end: what the engine computes on at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from autoprox.language import Statistic

Shapes = tuple[tuple[int, int, int], ...]  # matrices, rows and columns of each part


@dataclass(frozen=True)
class MatrixChunk:
    """Every statistic's matrices of the same layers, so that elementwise work ignores shapes."""

    values: Mapping[Statistic, Tensor]  # [elements]
    shapes: Shapes

    @classmethod
    def of(cls, stacks: Mapping[Statistic, Tensor]) -> MatrixChunk:
        """From matrices of one shape, [n, rows, cols]."""
        values = {s: stack.reshape(-1) for s, stack in stacks.items()}
        shapes: list[Shapes] = [((n, r, c),) for n, r, c in (s.shape for s in stacks.values())]
        return cls.aligned(values, shapes)

    @classmethod
    def aligned(cls, values: Mapping[Statistic, Tensor], shapes: Sequence[Shapes]) -> MatrixChunk:
        """Repeat the rows of activations of one all-ones sample for every sample of a batch."""
        if len(set(shapes)) == 1:
            return cls(values, shapes[0])
        common = tuple(max(part) for part in zip(*shapes, strict=True))
        own = zip(values.items(), shapes, strict=True)
        return cls({s: _repeated(value, shape, common) for (s, value), shape in own}, common)

    def parts(self, values: Tensor) -> list[Tensor]:
        """Views [n, rows, cols] of what was computed from the chunk's values."""
        return _parts(values, self.shapes)


def _parts(values: Tensor, shapes: Shapes) -> list[Tensor]:
    flat = values.split_with_sizes([math.prod(shape) for shape in shapes])
    return [part.view(shape) for part, shape in zip(flat, shapes, strict=True)]


def _repeated(values: Tensor, shapes: Shapes, common: Shapes) -> Tensor:
    parts = zip(_parts(values, shapes), common, strict=True)
    return torch.cat([p.repeat(1, rows // p.shape[1], 1).flatten() for p, (_, rows, _) in parts])
