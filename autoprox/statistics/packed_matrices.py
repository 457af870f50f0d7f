"""Matrices of several shapes, end to end: in chunks to compute on, in memory and in files."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, chain, groupby, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from autoprox.errors import MeasurementError
from autoprox.language import Statistic

CHUNK = {"cpu": 2**20, "cuda": 2**26}  # elements: a few chunks in L3; enough to fill a GPU
Shapes = tuple[tuple[int, int, int], ...]  # matrices, rows and columns of each part


@dataclass(frozen=True)
class MatrixChunk:
    """The matrices of several statistics of the same layers, so that maps ignore shapes."""

    values: Mapping[Statistic, Tensor]  # [elements]
    shapes: Shapes

    @classmethod
    def of(cls, stacks: Mapping[Statistic, Tensor]) -> MatrixChunk:
        """Make a chunk of matrices of one shape, [n, rows, cols]."""
        values = {s: stack.reshape(-1) for s, stack in stacks.items()}
        shapes: list[Shapes] = [((n, r, c),) for n, r, c in (s.shape for s in stacks.values())]
        return cls.aligned(values, shapes)

    @classmethod
    def aligned(cls, values: Mapping[Statistic, Tensor], shapes: Sequence[Shapes]) -> MatrixChunk:
        """Repeat the rows of activations of one all-ones sample for every sample of a batch."""
        if len(set(shapes)) == 1:
            return cls(values, shapes[0])
        common = tuple(max(part) for part in zip(*shapes, strict=True))
        repeated = {
            statistic: torch.cat(
                [
                    part.repeat(1, rows // part.shape[1], 1).flatten()
                    for part, (_, rows, _) in zip(_split(value, own), common, strict=True)
                ]
            )
            for (statistic, value), own in zip(values.items(), shapes, strict=True)
        }
        return cls(repeated, common)

    def parts(self, values: Tensor) -> list[Tensor]:
        """Return views [n, rows, cols] of values that were computed from the chunk's."""
        return _split(values, self.shapes)


def _split(values: Tensor, shapes: Shapes) -> list[Tensor]:
    flat = values.split_with_sizes([math.prod(shape) for shape in shapes])
    return [part.view(shape) for part, shape in zip(flat, shapes, strict=True)]


class StoredMatrix(NamedTuple):
    """The position of a matrix among the layers of its domain, and its place in a file."""

    position: int
    path: Path
    offset: int


class PackedMatrices:
    """The matrices of a statistic, shape after shape: the first in memory, the others in files."""

    def __init__(self, found: Mapping[tuple[int, int], Sequence[StoredMatrix]]) -> None:
        self._stored = list(chain(*found.values()))
        self.positions = np.array([matrix.position for matrix in self._stored])
        self.shapes = tuple((len(same), *shape) for shape, same in found.items())
        self._starts = np.cumsum([0, *_sizes(self.shapes)])  # [matrices + 1], in elements
        self._resident = torch.empty(0)

    @property
    def bytes(self) -> int:
        return 4 * int(self._starts[-1])

    @property
    def resident_bytes(self) -> int:
        return self._resident.nbytes

    def load(self, memory: int, device: torch.device) -> None:
        """Keep as many matrices in memory as fit."""
        count = int(np.searchsorted(self._starts, memory // 4, "right")) - 1
        resident = torch.empty(int(self._starts[count]), device=device)
        for start, stop in _cuts(np.diff(self._starts[: count + 1]), CHUNK["cpu"]):
            resident[self._starts[start] : self._starts[stop]] = self.read(start, stop)
        self._resident = resident

    def read(self, start: int, stop: int) -> Tensor:
        """Return the elements of matrices start to stop.

        Files are read by plain reads, since mapped pages would count as memory used.
        """
        first, last = int(self._starts[start]), int(self._starts[stop])
        if last <= len(self._resident):
            return self._resident[first:last]
        starts = self._starts[start : stop + 1] - first
        values = np.empty(last - first, dtype=np.float32)
        matrices = enumerate(self._stored[start:stop])
        for path, group in groupby(matrices, key=lambda item: item[1].path):
            with path.open("rb", buffering=0) as file:
                for index, stored in group:
                    matrix = values[starts[index] : starts[index + 1]]
                    file.seek(stored.offset)
                    if file.readinto(matrix.data) != matrix.nbytes:
                        raise MeasurementError(f"{path} must stay as it was written: remove it")
        return torch.from_numpy(values)


@dataclass(frozen=True)
class ChunkRange:
    """Matrices start to stop of each statistic of a group, and their shapes."""

    start: int
    stop: int
    shapes: tuple[Shapes, ...]


@lru_cache(maxsize=64)
def chunks_of(packed: tuple[Shapes, ...], most: int) -> list[ChunkRange]:
    """Cut the matrices of statistics into chunks of similar size, about `most` elements of any."""
    cuts = _cuts(np.max([_sizes(shapes) for shapes in packed], axis=0), most)
    return [ChunkRange(*cut, tuple(_between(*cut, shapes) for shapes in packed)) for cut in cuts]


def _cuts(sizes: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    ends, total = np.cumsum(sizes), int(np.sum(sizes))
    count = math.ceil(total / most)
    stops = 1 + np.searchsorted(ends, np.arange(1, count + 1) * total / count)
    return pairwise([0, *np.unique(stops).tolist()])


def _sizes(shapes: Shapes) -> list[int]:
    return [rows * cols for matrices, rows, cols in shapes for _ in range(matrices)]


def _between(start: int, stop: int, shapes: Shapes) -> Shapes:
    """Return the shapes of matrices start to stop."""
    firsts = accumulate((matrices for matrices, _, _ in shapes), initial=0)
    bounds = [min(max(first, start), stop) for first in firsts]
    counts = [last - first for first, last in pairwise(bounds)]
    return tuple((count, *shape[1:]) for count, shape in zip(counts, shapes, strict=True) if count)
