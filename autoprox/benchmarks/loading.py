"""Reads a benchmark: of its architectures and scores what is asked for."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from autoprox.benchmarks.base import (
    LABEL,
    Benchmark,
    BenchmarkError,
    Selection,
    assemble,
    choose_datasets,
)
from autoprox.benchmarks.builtin import BENCHMARKS, BuiltInBenchmark
from autoprox.benchmarks.files import read_verified
from autoprox.benchmarks.table import load_table
from autoprox.errors import nearest


class Request(NamedTuple):
    """What a user asks for; None where the benchmark may choose."""

    space: str | None
    datasets: Sequence[str] | None
    label: str | None
    subset: str


def require_data(data_dir: Path | None) -> None:
    """Raise BenchmarkError unless the folder of the benchmarks' files is there, if it is given."""
    if data_dir is not None and not data_dir.expanduser().is_dir():
        raise BenchmarkError(f"data_dir must be a folder, but {data_dir} is none")


def load_benchmark(
    name_or_path: str | os.PathLike[str] | None = None,
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
    require_data(data_dir)
    request = Request(space, datasets, label, subset)
    name = _default(request) if name_or_path is None else os.fspath(name_or_path)
    if name in BENCHMARKS:
        return _load_built_in(BENCHMARKS[name], request, data_dir)
    path = Path(name)
    if not path.exists() and path.suffix != ".json":
        choices = f"{nearest(name, BENCHMARKS)}, or give the path of a JSON table"
        raise BenchmarkError(f"unknown benchmark {name!r}{choices}")
    given = [f"label {label!r}"] if label not in (None, LABEL) else []
    given += [f"subset {subset!r}"] if subset != "main" else []
    if given:
        rule = f"{path} is a table of one's own, which has neither labels nor subsets"
        raise BenchmarkError(f"{rule}, but got {' and '.join(given)}")
    return load_table(path, space, datasets)


def offered_datasets(
    name_or_path: str | os.PathLike[str] | None, space: str | None, label: str | None
) -> tuple[str, ...]:
    """The datasets that a benchmark, or the first that fits, has of a space and a label."""
    request = Request(space, None, label, "main")
    name = _default(request) if name_or_path is None else os.fspath(name_or_path)
    if name not in BENCHMARKS:
        return load_benchmark(name, space=space, label=label).datasets
    chosen = _select(BENCHMARKS[name], request)
    return BENCHMARKS[name].labels[chosen.space][chosen.label]


def _default(request: Request) -> str:
    """The name of the first benchmark of which all this can be selected."""
    lacks = []
    for name, source in BENCHMARKS.items():
        try:
            _select(source, request)
            return name
        except BenchmarkError as error:
            lacks.append(str(error))
    reasons = ", and ".join(dict.fromkeys(lacks))
    raise BenchmarkError(f"no built-in benchmark has all that is asked for: {reasons}")


def _load_built_in(source: BuiltInBenchmark, request: Request, data_dir: Path | None) -> Benchmark:
    chosen = _select(source, request)
    of_space = (file for file in source.files if file.space == chosen.space)
    files = [file for file in of_space if chosen.subset in (file.subset, "all")]
    rows = source.read(chosen, [(file, read_verified(source, file, data_dir)) for file in files])
    used = ", ".join(f"{file.name} (sha256 {file.sha256})" for file in files)
    return assemble(
        rows,
        chosen,
        source.classes,
        source.name,
        f"{len(rows)} architectures of {used}, from {source.origin}, {source.licence}",
        f"{source.name}: architectures",
        {dataset: f"{source.name}: {dataset}" for dataset in chosen.datasets},
    )


def _first_space(source: BuiltInBenchmark, request: Request) -> str:
    """The first that has the datasets, if any: else the first, for what it lacks to be told."""
    asked = set(request.datasets or ())
    for space, labels in source.labels.items():
        if any(asked <= set(datasets) for datasets in labels.values()):
            return space
    return next(iter(source.labels))


def _select(source: BuiltInBenchmark, request: Request) -> Selection:
    from autoprox.searchspaces import get_space  # which imports torch

    space = (
        _first_space(source, request) if request.space is None else get_space(request.space).name
    )
    if space not in source.labels:
        raise BenchmarkError(f"{source.name} has no space {space!r}{nearest(space, source.labels)}")
    labels = source.labels[space]
    label = next(iter(labels)) if request.label is None else request.label
    if label not in labels:
        raise BenchmarkError(f"{space} has no label {label!r}{nearest(label, labels)}")
    subsets = [*dict.fromkeys(file.subset for file in source.files if file.space == space)]
    subsets += ["all"] if len(subsets) > 1 else []
    if request.subset not in subsets:
        known = nearest(request.subset, subsets)
        raise BenchmarkError(f"{space} has no subset {request.subset!r}{known}")
    for other, datasets in labels.items():
        if absent := set(request.datasets or ()).intersection(datasets).difference(labels[label]):
            message = f"{space} has no {label} scores for {', '.join(sorted(absent))}"
            raise BenchmarkError(f"{message}: their label is {other}")
    asked = source.default_datasets if request.datasets is None else request.datasets
    chosen = choose_datasets(asked, labels[label], f"{source.name} ({space}, {label})")
    return Selection(space, label, chosen, request.subset)
