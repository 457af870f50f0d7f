"""The chunks in which matrices are read."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers.measuring import Conditions, cached
from helpers.networks import tiny

from autoprox.language import STATISTICS, Statistic
from autoprox.searchspaces import Architecture
from autoprox.statistics.packed_matrices import CHUNK, MatrixChunk, chunks_of

MakeSetting = Callable[..., Conditions]


GRAD, WEIGHT = (STATISTICS[name] for name in ("msa.grad", "msa.weight"))


def test_datasets_are_read_in_turn_in_chunks_of_about_one_size(
    setting: MakeSetting,
    architectures: list[Architecture],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = cached(setting(), [tiny(8, *[(2, 1.0)] * 7)], [GRAD, WEIGHT], folder=tmp_path)
    qkv, proj = 48 * 8, 8 * 16
    monkeypatch.setitem(CHUNK, "cpu", 2 * qkv)
    found: list[tuple[int, list[int], tuple[tuple[int, int, int], ...]]] = []

    def keep(
        group: frozenset[Statistic], datasets: list[int], positions: np.ndarray, chunk: MatrixChunk
    ) -> None:
        found.append((datasets[0], positions.tolist(), chunk.shapes))

    kept.visit({frozenset({GRAD, WEIGHT}): lambda chunk: chunk}, keep)
    assert 4 < (7 * qkv + 7 * proj) / (2 * qkv) < 5
    chunks = [
        ([0, 2], ((2, 48, 8),)),
        ([4, 6], ((2, 48, 8),)),
        ([8, 10], ((2, 48, 8),)),
        ([12, 1, 3], ((1, 48, 8), (2, 8, 16))),
        ([5, 7, 9, 11, 13], ((5, 8, 16),)),
    ]
    assert found == [(dataset, *chunk) for chunk in chunks for dataset in range(3)]


@pytest.mark.parametrize("most", [1, 7, 40, 100, 10_000])
def test_chunks_hold_every_matrix_once_and_few_of_them_are_larger(most: int) -> None:
    shapes = ((5, 2, 3), (1, 50, 2), (30, 1, 1), (4, 6, 2))
    wider = tuple((n, 3 * rows, cols) for n, rows, cols in shapes)
    chunks = chunks_of((shapes, wider), most)
    assert [c.start for c in chunks] == [0, *(c.stop for c in chunks[:-1])]
    assert chunks[-1].stop == 40
    for place, whole in enumerate((shapes, wider)):
        parts = [(n, *shape) for chunk in chunks for n, *shape in chunk.shapes[place]]
        counts = {shape[1:]: sum(n for n, *s in parts if s == list(shape[1:])) for shape in whole}
        assert counts == {shape[1:]: shape[0] for shape in whole}
    sizes = [sum(n * rows * cols for n, rows, cols in chunk.shapes[1]) for chunk in chunks]
    assert max(sizes) <= most + 300
