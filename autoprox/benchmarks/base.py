"""What a benchmark is, what every one must fulfil, and how a built-in one is described."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from autoprox.errors import AutoproxError, nearest
from autoprox.searchspaces import Architecture

MIN_ARCHITECTURES = 10


class BenchmarkError(AutoproxError):
    """A benchmark that doesn't exist, isn't installed, or breaks a rule."""


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


@dataclass(frozen=True)
class Row:
    """One architecture and its scores, and how an error says where they stand."""

    architecture: Architecture
    scores: Mapping[str, float]
    where: str


@dataclass(frozen=True)
class Selection:
    """What is read of a benchmark: one space, one label, some datasets."""

    space: str
    label: str
    datasets: tuple[str, ...]
    subset: str = "main"


@dataclass(frozen=True)
class DataFile:
    """A file of a built-in benchmark, pinned by its hash."""

    name: str
    sha256: str
    size: int | None  # bytes; None where only the hash is published
    space: str
    architectures: int
    subset: str = "main"


@dataclass(frozen=True)
class Source:
    """A built-in benchmark: what it has, where its files come from, and how they are read.

    Of its spaces, and of the labels of each, the first is the default.
    """

    name: str
    description: str
    labels: Mapping[str, Mapping[str, tuple[str, ...]]]  # space -> label -> datasets
    classes: Mapping[str, int]
    licence: str
    origin: str
    url: str | None  # of the folder that holds the files; None where the package does
    files: tuple[DataFile, ...]
    read: Callable[[Selection, Sequence[tuple[DataFile, bytes]]], list[Row]]
    default_datasets: tuple[str, ...] | None = None  # None: all that the label has
    # dataset -> Kendall's tau between the scores of two trainings, where that was measured
    noise_ceiling: Mapping[str, float | None] = field(default_factory=dict)

    @property
    def embedded(self) -> bool:
        """Whether its files come with the package."""
        return self.url is None


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


def assemble(
    rows: Sequence[Row],
    selection: Selection,
    classes: Mapping[str, int],
    name: str,
    source: str,
    place: str,
    dataset_places: Mapping[str, str],
) -> Benchmark:
    """Make the benchmark of these rows, after the rules that hold for every benchmark.

    The places say where the rows and the datasets stand, for the errors.
    """
    if len(rows) < MIN_ARCHITECTURES:
        raise BenchmarkError(
            f"{place} must be at least {MIN_ARCHITECTURES} to correlate over, but are {len(rows)}"
        )
    first: dict[Architecture, str] = {}
    for row in rows:
        where = first.setdefault(row.architecture, row.where)
        if where != row.where:
            raise BenchmarkError(f"{row.where} must differ from every other, but equals {where}")
    scores = {}
    for dataset in selection.datasets:
        column = np.array([row.scores[dataset] for row in rows], dtype=np.float64)
        if np.all(column == column[0]):
            raise BenchmarkError(
                f"{dataset_places[dataset]} must have at least two distinct scores to correlate "
                f"with, but all {len(rows)} are the same"
            )
        column.setflags(write=False)
        scores[dataset] = column
    return Benchmark(
        name=name,
        space=selection.space,
        label=selection.label,
        architectures=tuple(row.architecture for row in rows),
        scores=scores,
        classes={dataset: classes[dataset] for dataset in selection.datasets},
        source=source,
    )
