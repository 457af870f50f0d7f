"""All matrices of one statistic end to end: in memory as far as they fit, the others in files."""

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
from autoprox.statistics.chunks import Shapes

CHUNK = {"cpu": 2**20, "cuda": 2**26}  # elements: a few chunks in L3; enough to fill a GPU


class Place(NamedTuple):
    """Where a matrix stands among the layers of its domain, and in which file."""

    position: int
    path: Path
    offset: int


class PackedMatrices:
    """A statistic's matrices, shape after shape: the first ones in memory, the others on disk."""

    def __init__(self, found: Mapping[tuple[int, int], Sequence[Place]]) -> None:
        places = list(chain(*found.values()))
        self.positions = np.array([place.position for place in places])
        self.shapes = tuple((len(same), *shape) for shape, same in found.items())
        self._files = [(place.path, place.offset) for place in places]
        self._starts = np.cumsum([0, *_sizes(self.shapes)])  # [matrices + 1]: of their elements
        self._resident = torch.empty(0)

    @property
    def bytes(self) -> int:
        return 4 * int(self._starts[-1])

    @property
    def resident_bytes(self) -> int:
        return self._resident.nbytes

    def load(self, memory: int, device: torch.device) -> None:
        """Keep in memory as many matrices as have room."""
        count = int(np.searchsorted(self._starts, memory // 4, "right")) - 1
        resident = torch.empty(int(self._starts[count]), device=device)
        for start, stop in _cuts(np.diff(self._starts[: count + 1]), CHUNK["cpu"]):
            resident[self._starts[start] : self._starts[stop]] = self.read(start, stop)
        self._resident = resident

    def read(self, start: int, stop: int) -> Tensor:
        """The elements of matrices start to stop."""
        first, last = int(self._starts[start]), int(self._starts[stop])
        if last <= len(self._resident):
            return self._resident[first:last]
        return self._from_files(start, stop)

    def _from_files(self, start: int, stop: int) -> Tensor:
        """By plain reads, since mapped pages would count as memory used."""
        starts = self._starts[start : stop + 1] - self._starts[start]
        values = np.empty(starts[-1], dtype=np.float32)
        places = enumerate(self._files[start:stop])
        for path, group in groupby(places, key=lambda item: item[1][0]):
            with path.open("rb", buffering=0) as file:
                for index, (_, offset) in group:
                    matrix = values[starts[index] : starts[index + 1]]
                    file.seek(offset)
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
    """Of about as many elements each, some `most` of any statistic."""
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
    """The shapes of matrices start to stop."""
    firsts = accumulate((matrices for matrices, _, _ in shapes), initial=0)
    bounds = [min(max(first, start), stop) for first in firsts]
    counts = [last - first for first, last in pairwise(bounds)]
    return tuple((count, *shape[1:]) for count, shape in zip(counts, shapes, strict=True) if count)
