"""Reads a benchmark: of its architectures and scores what is asked for."""

from collections.abc import Sequence
from pathlib import Path

from autoprox.benchmarks.base import (
    LABEL,
    Benchmark,
    BenchmarkError,
    Selection,
    assemble,
    choose_datasets,
)
from autoprox.benchmarks.builtin import BENCHMARKS, BuiltInBenchmark, DataFile
from autoprox.benchmarks.files import read_verified
from autoprox.benchmarks.table import load_table
from autoprox.errors import nearest
from autoprox.searchspaces import get_space


def load_benchmark(
    name_or_path: str | Path | None = None,
    *,
    space: str | None = None,
    datasets: Sequence[str] | None = None,
    label: str | None = None,
    subset: str = "main",
    data_dir: Path | None = None,
) -> Benchmark:
    """Load a built-in benchmark, or the user's table at a path (see `benchmarks.table`).

    By default: the first built-in benchmark that has all that is asked for, its first space, that
    space's first label, the benchmark's usual datasets or else all that have the label.
    `subset` is `main`, `extra` (the architectures of a supplementary file, where there is one) or
    `all`; results are comparable only over the same subset, and so it is never chosen by what
    happens to be installed.
    """
    if data_dir is not None and not data_dir.expanduser().is_dir():
        raise BenchmarkError(f"data_dir must be a folder, but {data_dir} is none")
    if name_or_path is None:
        name_or_path = _default(space, datasets, label, subset)
    name = str(name_or_path)
    if name not in BENCHMARKS:
        return _load_path(Path(name_or_path), space, datasets, label, subset)
    source = BENCHMARKS[name]
    selection = _select(source, space, datasets, label, subset)
    files = _files(source, selection.space, selection.subset)
    rows = source.read(selection, [(file, read_verified(source, file, data_dir)) for file in files])
    used = ", ".join(f"{file.name} (sha256 {file.sha256})" for file in files)
    provenance = f"{len(rows)} architectures of {used}, from {source.origin}, {source.licence}"
    places = {dataset: f"{name}: {dataset}" for dataset in selection.datasets}
    return assemble(
        rows, selection, source.classes, name, provenance, f"{name}: architectures", places
    )


def _default(
    space: str | None, datasets: Sequence[str] | None, label: str | None, subset: str
) -> str:
    """The name of the first benchmark of which all this can be selected."""
    lacks = []
    for name, source in BENCHMARKS.items():
        try:
            _select(source, space, datasets, label, subset)
        except BenchmarkError as error:
            lacks.append(str(error))
        else:
            return name
    reasons = ", and ".join(dict.fromkeys(lacks))
    raise BenchmarkError(f"no built-in benchmark has all that is asked for: {reasons}")


def _load_path(
    path: Path, space: str | None, datasets: Sequence[str] | None, label: str | None, subset: str
) -> Benchmark:
    if not path.exists() and path.suffix != ".json":
        choices = f"{nearest(str(path), BENCHMARKS)}, or give the path of a JSON table"
        raise BenchmarkError(f"unknown benchmark {str(path)!r}{choices}")
    given = [f"label {label!r}"] if label not in (None, LABEL) else []
    given += [f"subset {subset!r}"] if subset != "main" else []
    if given:
        raise BenchmarkError(
            f"{path} is a table of one's own, which has neither labels nor subsets, "
            f"but got {' and '.join(given)}"
        )
    return load_table(path, space, datasets)


def _select(
    source: BuiltInBenchmark,
    space: str | None,
    datasets: Sequence[str] | None,
    label: str | None,
    subset: str,
) -> Selection:
    space = next(iter(source.labels)) if space is None else get_space(space).name
    if space not in source.labels:
        raise BenchmarkError(f"{source.name} has no space {space!r}{nearest(space, source.labels)}")
    labels = source.labels[space]
    label = next(iter(labels)) if label is None else label
    if label not in labels:
        raise BenchmarkError(f"{space} has no label {label!r}{nearest(label, labels)}")
    subsets = [*dict.fromkeys(file.subset for file in source.files if file.space == space)]
    subsets += ["all"] if len(subsets) > 1 else []
    if subset not in subsets:
        raise BenchmarkError(f"{space} has no subset {subset!r}{nearest(subset, subsets)}")
    for other, known in labels.items():
        if absent := set(datasets or ()).intersection(known).difference(labels[label]):
            message = f"{space} has no {label} scores for {', '.join(sorted(absent))}"
            raise BenchmarkError(f"{message}: their label is {other}")
    asked = source.default_datasets if datasets is None else datasets
    chosen = choose_datasets(asked, labels[label], f"{source.name} ({space}, {label})")
    return Selection(space, label, chosen, subset)


def _files(source: BuiltInBenchmark, space: str, subset: str) -> list[DataFile]:
    return [f for f in source.files if f.space == space and subset in (f.subset, "all")]
