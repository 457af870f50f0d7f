"""Benchmarks as data, and the rules that each of them must meet."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from autoprox.errors import AutoproxError, nearest

if TYPE_CHECKING:
    from autoprox.searchspaces import Architecture  # which imports torch, seconds of start-up

MIN_ARCHITECTURES = 10
SCORE_LABEL = "score"  # of a table that has one score for each dataset


class BenchmarkError(AutoproxError):
    """A benchmark that doesn't exist, isn't installed, or breaks a rule."""


class NetworkSampleError(BenchmarkError):
    """A sample of more networks than a benchmark has, or of too few."""


@dataclass(frozen=True)
class Benchmark:
    """Architectures of one space with their true scores; higher is always better."""

    name: str
    space: str
    label: str
    architectures: tuple[Architecture, ...]
    scores: Mapping[str, NDArray[np.float64]]  # dataset -> [networks]
    classes: Mapping[str, int]
    source: str  # the files and how many of their architectures are used

    @property
    def datasets(self) -> tuple[str, ...]:
        """The names of the datasets, in the order in which they were asked for."""
        return tuple(self.scores)

    @property
    def digest(self) -> str:
        """A hash of the architectures and of their scores."""
        content = hashlib.sha256("".join(a.digest for a in self.architectures).encode())
        for dataset, scores in self.scores.items():
            content.update(f"{dataset} {self.classes[dataset]}".encode() + scores.tobytes())
        return content.hexdigest()


@dataclass(frozen=True)
class BenchmarkRow:
    """One architecture and its scores, and how an error names its position in the file."""

    architecture: Architecture
    scores: Mapping[str, float]
    where: str


def make_benchmark_row(
    space: str, choices: Mapping[str, Any], scores: Mapping[str, float], where: str
) -> BenchmarkRow:
    """The row of these choices, which must be those of an architecture of the space."""
    from autoprox.searchspaces import ArchitectureError, get_space  # which import torch

    try:
        return BenchmarkRow(get_space(space).architecture(choices), scores, where)
    except ArchitectureError as error:
        raise BenchmarkError(f"{where}: {error}") from error


@dataclass(frozen=True)
class BenchmarkSelection:
    """The part of a benchmark that is read: one space, one label, some datasets.

    With `networks`, that many of its architectures are drawn, the same ones every time.
    """

    space: str
    label: str
    datasets: tuple[str, ...]
    subset: str = "main"
    networks: int | None = None


def choose_datasets(
    asked: Sequence[str] | None, known: Iterable[str], where: str
) -> tuple[str, ...]:
    """The datasets asked for, or all that are known."""
    known = tuple(known)
    chosen = known if asked is None else tuple(asked)
    for dataset in chosen:
        if dataset not in known:
            raise BenchmarkError(f"{where} has no dataset {dataset!r}{nearest(dataset, known)}")
    if not chosen or len(set(chosen)) < len(chosen):
        got = ", ".join(chosen) or "none"
        raise BenchmarkError(f"each dataset must be named once, at least one, but got {got}")
    return chosen


def draw_networks(count: int, networks: int) -> list[int]:
    """Draw some of a table's networks, in their order, by a generator of its own with seed 0.

    A larger sample contains every smaller one.
    """
    if not MIN_ARCHITECTURES <= networks <= count:
        rule = f"networks must be from {MIN_ARCHITECTURES} to {count}, all there are"
        raise NetworkSampleError(f"{rule}, but got {networks}")
    return sorted(np.random.default_rng(0).permutation(count)[:networks].tolist())


def assemble_benchmark(
    rows: Sequence[BenchmarkRow],
    selection: BenchmarkSelection,
    classes: Mapping[str, int],
    name: str,
    source: str,
    rows_where: str,
    datasets_where: Mapping[str, str],
) -> Benchmark:
    """Make the benchmark of these rows, after checking the rules that hold for every benchmark.

    The last two arguments name the positions of the rows and of the datasets in errors.
    """
    if len(rows) < MIN_ARCHITECTURES:
        rule = f"{rows_where} must be at least {MIN_ARCHITECTURES} to correlate over"
        raise BenchmarkError(f"{rule}, but are {len(rows)}")
    first: dict[Architecture, str] = {}
    for row in rows:
        where = first.setdefault(row.architecture, row.where)
        if where != row.where:
            raise BenchmarkError(f"{row.where} must differ from every other, but equals {where}")
    if selection.networks is not None:
        drawn = draw_networks(len(rows), selection.networks)
        source = f"{source}; {selection.networks} of them drawn at random"
        rows = [rows[n] for n in drawn]
    scores = {}
    for dataset in selection.datasets:
        column = np.array([row.scores[dataset] for row in rows], dtype=np.float64)
        if np.all(column == column[0]):
            rule = f"{datasets_where[dataset]} must have at least two distinct scores"
            raise BenchmarkError(f"{rule} to correlate with, but all {len(rows)} are the same")
        column.setflags(write=False)
        scores[dataset] = column
    architectures = tuple(row.architecture for row in rows)
    used = {dataset: classes[dataset] for dataset in selection.datasets}
    return Benchmark(name, selection.space, selection.label, architectures, scores, used, source)
