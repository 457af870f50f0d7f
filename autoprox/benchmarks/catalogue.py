"""What the benchmarks known by name are, and the download of their files; torch isn't needed."""

from pathlib import Path
from typing import Any

from autoprox.benchmarks.base import BenchmarkError
from autoprox.benchmarks.builtin import BENCHMARKS, BuiltInBenchmark, DataFile
from autoprox.benchmarks.files import data_folders, fetch_files, find, status
from autoprox.benchmarks.hw_gpt import HW_GPT_BENCH
from autoprox.benchmarks.nano import NANO_BENCH
from autoprox.benchmarks.nas_bert import NAS_BENCH_BERT
from autoprox.benchmarks.vit_bench import VIT_BENCH_101

for built_in in (NANO_BENCH, VIT_BENCH_101, NAS_BENCH_BERT, HW_GPT_BENCH):
    BENCHMARKS.register(built_in.name, built_in)


def list_benchmarks(data_dir: Path | None = None) -> list[dict[str, Any]]:
    """What `benchmark_info` says, for every built-in benchmark."""
    return [benchmark_info(name, data_dir) for name in BENCHMARKS]


def benchmark_info(name: str, data_dir: Path | None = None) -> dict[str, Any]:
    """What a built-in benchmark has, its licence and source, and the state of its files."""
    source = BENCHMARKS.find(name)
    files = [_file_info(source, file, data_dir) for file in source.files]
    labels = {space: {k: list(v) for k, v in own.items()} for space, own in source.labels.items()}
    return {
        "name": source.name,
        "description": source.description,
        "spaces": list(labels),
        "labels": labels,
        "datasets": {dataset: source.classes[dataset] for dataset in source.datasets},
        "architectures": sum(file.architectures for file in source.files),
        "licence": source.licence,
        "source": source.origin,
        "reliability": {space: dict(taus) for space, taus in source.reliability.items()},
        "embedded": source.embedded,
        "installed": all(
            file["status"] == "installed" for file in files if file["subset"] == "main"
        ),
        "folders": [str(folder) for folder in data_folders(source, data_dir)],
        "files": files,
    }


def _file_info(source: BuiltInBenchmark, file: DataFile, data_dir: Path | None) -> dict[str, Any]:
    path = find(source, file, data_dir)
    try:
        state = status(path, file)
    except BenchmarkError:  # of one file, which mustn't hide the others
        state = "unreadable"
    return {
        "file": file.name,
        "space": file.space,
        "subset": file.subset,
        "architectures": file.architectures,
        "bytes": file.size,
        "sha256": file.sha256,
        "status": state,
        "path": None if path is None else str(path),
    }


def fetch_benchmark(name: str, data_dir: Path | None = None) -> list[dict[str, str]]:
    """Download the files of a benchmark that are absent or changed, checked by their sha256.

    A new file goes below `data_dir`, or else the user's cache; a changed one is replaced where it
    lies. Returns `file`, `path` and `status` (`installed` or `downloaded`) of each; nothing where
    they come with the package.
    """
    source = BENCHMARKS.find(name)
    data_folders(source, data_dir)  # which must be folders
    return [] if source.embedded else fetch_files(source, data_dir)
