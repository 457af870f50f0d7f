"""Tables of architectures with their true scores: the built-in ones by name, one's own by path."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from autoprox.benchmarks.base import (
    Benchmark,
    BenchmarkError,
    DataFile,
    Selection,
    Source,
    assemble,
    choose_datasets,
)
from autoprox.benchmarks.embedded import NANO_VIT_BENCH
from autoprox.benchmarks.files import data_folders, fetch_files, find, read_verified, status
from autoprox.benchmarks.hw_gpt import HW_GPT_BENCH
from autoprox.benchmarks.nas_bert import NAS_BENCH_BERT
from autoprox.benchmarks.table import LABEL, load_table
from autoprox.benchmarks.vit_bench import VIT_BENCH_101
from autoprox.errors import nearest
from autoprox.searchspaces import get_space

__all__ = [
    "BENCHMARKS",
    "Benchmark",
    "BenchmarkError",
    "benchmark_info",
    "fetch_benchmark",
    "list_benchmarks",
    "load_benchmark",
]

BENCHMARKS: Mapping[str, Source] = {
    source.name: source for source in (NANO_VIT_BENCH, VIT_BENCH_101, NAS_BENCH_BERT, HW_GPT_BENCH)
}


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


def list_benchmarks(data_dir: Path | None = None) -> list[dict[str, Any]]:
    """What `benchmark_info` says, for every built-in benchmark."""
    return [benchmark_info(name, data_dir) for name in BENCHMARKS]


def benchmark_info(name: str, data_dir: Path | None = None) -> dict[str, Any]:
    """What a built-in benchmark has, its licence and source, and the state of its files."""
    source = _source(name)
    files = []
    for file in source.files:
        path = find(source, file, data_dir)
        files.append(
            {
                "file": file.name,
                "space": file.space,
                "subset": file.subset,
                "architectures": file.architectures,
                "bytes": file.size,
                "sha256": file.sha256,
                "status": status(path, file),
                "path": None if path is None else str(path),
            }
        )
    main = [file["status"] for file in files if file["subset"] == "main"]
    labels = {space: {k: list(v) for k, v in own.items()} for space, own in source.labels.items()}
    datasets = dict.fromkeys(d for own in labels.values() for known in own.values() for d in known)
    return {
        "name": source.name,
        "description": source.description,
        "spaces": list(labels),
        "labels": labels,
        "datasets": {dataset: source.classes[dataset] for dataset in datasets},
        "architectures": sum(file.architectures for file in source.files),
        "licence": source.licence,
        "source": source.origin,
        "noise_ceiling": dict(source.noise_ceiling),
        "embedded": source.embedded,
        "installed": all(state == "installed" for state in main),
        "folders": [str(folder) for folder in data_folders(source, data_dir)],
        "files": files,
    }


def fetch_benchmark(name: str, data_dir: Path | None = None) -> list[dict[str, str]]:
    """Download the files of a benchmark that are absent or changed, checked by their sha256.

    A new file goes below `data_dir`, or else the user's cache; a changed one is replaced where it
    lies. Returns `file`, `path` and `status` (`installed` or `downloaded`) of each; nothing where
    they come with the package.
    """
    source = _source(name)
    return [] if source.url is None else fetch_files(source, data_dir, source.url)


def _source(name: str) -> Source:
    if name not in BENCHMARKS:
        raise BenchmarkError(f"unknown benchmark {name!r}{nearest(name, BENCHMARKS)}")
    return BENCHMARKS[name]


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
    source: Source,
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


def _files(source: Source, space: str, subset: str) -> list[DataFile]:
    return [f for f in source.files if f.space == space and subset in (f.subset, "all")]
