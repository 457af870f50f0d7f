"""Loads the architectures and scores of a benchmark that are asked for."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from autoprox.benchmarks.benchmark import (
    SCORE_LABEL,
    Benchmark,
    BenchmarkError,
    BenchmarkRow,
    BenchmarkSelection,
    assemble_benchmark,
    choose_datasets,
)
from autoprox.benchmarks.benchmark_registry import BENCHMARKS, BuiltInBenchmark
from autoprox.benchmarks.data_files import read_verified_file
from autoprox.benchmarks.user_table import load_benchmark_table
from autoprox.errors import nearest


class _Request(NamedTuple):
    """The part of a benchmark that a user asks for; None if the benchmark may choose."""

    space: str | None
    datasets: Sequence[str] | None
    label: str | None
    subset: str = "main"
    networks: int | None = None


def require_data_folder(data_dir: Path | None) -> None:
    """Raise BenchmarkError unless the folder of the benchmarks' files, if given, exists."""
    if data_dir is not None and not data_dir.expanduser().is_dir():
        raise BenchmarkError(f"data_dir must be a folder, but {data_dir} is none")


def load_benchmark(
    name_or_path: str | os.PathLike[str] | None = None,
    *,
    space: str | None = None,
    datasets: Sequence[str] | None = None,
    label: str | None = None,
    subset: str = "main",
    networks: int | None = None,
    data_dir: Path | None = None,
) -> Benchmark:
    """Load a built-in benchmark, or the user's table at a path (see `benchmarks.table`).

    By default: the first built-in benchmark that has all that is asked for, its first space, that
    space's first label, the benchmark's usual datasets or else all that have the label.
    `subset` is `main`, `extra` (the architectures of a supplementary file, if there is one), `all`
    or a range of sizes that the benchmark names; results are comparable only over the same subset,
    and so it is never chosen by what happens to be installed. `networks` draws that many of the
    architectures at random, always the same ones.
    """
    require_data_folder(data_dir)
    request = _Request(space, datasets, label, subset, networks)
    name = _default(request) if name_or_path is None else os.fspath(name_or_path)
    if name in BENCHMARKS:
        source = BENCHMARKS[name]
        chosen = _select(source, request)
        files = [file for file in source.files if file.space == chosen.space]
        sizes = source.size_subsets.get(chosen.space, {}).get(chosen.subset)
        wanted = "main" if sizes else chosen.subset
        files = [file for file in files if wanted in (file.subset, "all")]
        contents = [(file, read_verified_file(source, file, data_dir)) for file in files]
        rows = source.read(chosen, contents)
        if sizes:
            rows = _rows_of_size(rows, chosen.space, *sizes)
        described = f"{len(rows)} architectures" + (f" ({chosen.subset})" if sizes else "")
        used = ", ".join(f"{file.name} (sha256 {file.sha256})" for file in files)
        return assemble_benchmark(
            rows,
            chosen,
            source.classes,
            source.name,
            f"{described} of {used}, from {source.origin}, {source.licence}",
            f"{source.name}: architectures",
            {dataset: f"{source.name}: {dataset}" for dataset in chosen.datasets},
        )
    path = Path(name)
    if not path.exists() and path.suffix != ".json":
        choices = f"{nearest(name, BENCHMARKS)}, or give the path of a JSON table"
        raise BenchmarkError(f"unknown benchmark {name!r}{choices}")
    inapplicable = [f"label {label!r}"] if label not in (None, SCORE_LABEL) else []
    inapplicable += [f"subset {subset!r}"] if subset != "main" else []
    if inapplicable:
        rule = f"{path} is a table of one's own, which has neither labels nor subsets"
        raise BenchmarkError(f"{rule}, but got {' and '.join(inapplicable)}")
    return load_benchmark_table(path, space, datasets, networks)


def available_datasets(
    name_or_path: str | os.PathLike[str] | None, space: str | None, label: str | None
) -> tuple[str, ...]:
    """The datasets that a benchmark, or the first that fits, has of a space and a label."""
    request = _Request(space, None, label)
    name = _default(request) if name_or_path is None else os.fspath(name_or_path)
    if name not in BENCHMARKS:
        return load_benchmark(name, space=space, label=label).datasets
    chosen = _select(BENCHMARKS[name], request)
    return BENCHMARKS[name].labels[chosen.space][chosen.label]


def _default(request: _Request) -> str:
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


def _select(source: BuiltInBenchmark, request: _Request) -> BenchmarkSelection:
    from autoprox.searchspaces import get_space  # which imports torch

    asked = set(request.datasets or ())
    if request.space is not None:
        space = get_space(request.space).name
    else:  # the first that has most of the subset and the datasets, whose lack is then an error
        space = max(
            source.labels,
            key=lambda own: (
                request.subset in source.subsets(own),
                any(asked <= {*datasets} for datasets in source.labels[own].values()),
            ),
        )
    if space not in source.labels:
        raise BenchmarkError(f"{source.name} has no space {space!r}{nearest(space, source.labels)}")
    labels = source.labels[space]
    label = next(iter(labels)) if request.label is None else request.label
    if label not in labels:
        raise BenchmarkError(f"{space} has no label {label!r}{nearest(label, labels)}")
    subsets = source.subsets(space)
    if request.subset not in subsets:
        known = nearest(request.subset, subsets)
        raise BenchmarkError(f"{space} has no subset {request.subset!r}{known}")
    for other, datasets in labels.items():
        if absent := asked.intersection(datasets).difference(labels[label]):
            message = f"{space} has no {label} scores for {', '.join(sorted(absent))}"
            raise BenchmarkError(f"{message}: their label is {other}")
    chosen = choose_datasets(
        source.default_datasets if request.datasets is None else request.datasets,
        labels[label],
        f"{source.name} ({space}, {label})",
    )
    return BenchmarkSelection(space, label, chosen, request.subset, request.networks)


def _rows_of_size(
    rows: Sequence[BenchmarkRow], space: str, low: int, high: int
) -> list[BenchmarkRow]:
    from autoprox.searchspaces import get_space  # which imports torch

    params = get_space(space).params
    return [row for row in rows if low <= params(row.architecture) <= high]
