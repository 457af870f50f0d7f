"""The descriptions of built-in benchmarks, and their registry."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autoprox.benchmarks.benchmark import BenchmarkError, BenchmarkRow, BenchmarkSelection
from autoprox.errors import nearest
from autoprox.registry import Registry


@dataclass(frozen=True)
class PinnedBenchmarkFile:
    """A file of a built-in benchmark, pinned by its hash."""

    name: str
    sha256: str
    size: int | None  # bytes; None if only the hash is published
    space: str
    architectures: int
    subset: str = "main"


@dataclass(frozen=True, kw_only=True)
class PinnedBenchmarkFolder(PinnedBenchmarkFile):
    """A folder of a built-in benchmark; its benchmark's `url` is a .tar.gz that has it.

    Its `sha256` is that of the sorted lines "path below it, a space, sha256 of the file".
    """

    files: int
    within: str  # the folder of the archive that has it


@dataclass(frozen=True)
class BuiltInBenchmark:
    """The content of a benchmark, the origin of its files, and the function that reads them.

    The first of its spaces, and the first label of each space, are the defaults. Its files are
    downloaded from below `url`, or are in the `folder` of an installed package. What `read` gets of
    a file are bytes; of a folder, those of each file, by the path below it.
    """

    name: str
    description: str
    labels: Mapping[str, Mapping[str, tuple[str, ...]]]  # space -> label -> datasets
    classes: Mapping[str, int]
    licence: str
    origin: str
    files: tuple[PinnedBenchmarkFile, ...]
    read: Callable[
        [BenchmarkSelection, Sequence[tuple[PinnedBenchmarkFile, Any]]], list[BenchmarkRow]
    ]
    url: str | None = None
    folder: Path | None = None
    default_datasets: tuple[str, ...] | None = None  # None: all that the label has
    # space -> subset -> the least and the most parameters of its networks, which a main file has
    size_subsets: Mapping[str, Mapping[str, tuple[int, int]]] = field(default_factory=dict)
    # space -> dataset -> reliability of the first label's near-size tau (scoring.reliability)
    reliability: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def datasets(self) -> tuple[str, ...]:
        """All datasets that have a label in some space."""
        spaces = self.labels.values()
        return tuple(dict.fromkeys(d for labels in spaces for ds in labels.values() for d in ds))

    def subsets(self, space: str) -> tuple[str, ...]:
        """The subsets of a space: those of its files, all of these, and its ranges of sizes."""
        of_files = dict.fromkeys(file.subset for file in self.files if file.space == space)
        every = ["all"] if len(of_files) > 1 else []
        return (*of_files, *every, *self.size_subsets.get(space, ()))

    @property
    def embedded(self) -> bool:
        """Whether its files come with a package."""
        return self.folder is not None


def validate_benchmark(name: str, benchmark: BuiltInBenchmark) -> None:
    """Raise BenchmarkError unless everything that can be selected of the benchmark can be read."""
    if benchmark.name != name:
        raise BenchmarkError(f"{name} must be registered under its own name, {benchmark.name!r}")
    if (benchmark.url is None) == (benchmark.folder is None):
        got = f"(url={benchmark.url!r}, folder={benchmark.folder!r})"
        raise BenchmarkError(f"{name} must have either a url or a folder, but got {got}")
    main = {file.space for file in benchmark.files if file.subset == "main"}
    if not benchmark.labels or main != set(benchmark.labels):
        got = f"labels of {', '.join(benchmark.labels)} and files of {', '.join(sorted(main))}"
        raise BenchmarkError(f"{name} must have labels and a main file for each space, but {got}")
    for space, subsets in benchmark.size_subsets.items():
        of_files = {"all", *(file.subset for file in benchmark.files)}
        if space not in main or of_files & subsets.keys():
            got = f"{', '.join(subsets)} of {space}"
            rule = f"{name} must have subsets by size of its own spaces, named like none of a file"
            raise BenchmarkError(f"{rule}, but got {got}")
    for dataset in benchmark.datasets:
        if dataset not in benchmark.classes:
            known = nearest(dataset, benchmark.classes)
            raise BenchmarkError(f"{name} must have the classes of {dataset}{known}")


BENCHMARKS: Registry[BuiltInBenchmark] = Registry(
    "benchmarks", "benchmark", BenchmarkError, validate_benchmark
)
