"""Benchmarks: tables of architectures with their true scores, known by name or read from a path.

May import: what is below, inputs and searchspaces included, but torch only to read a benchmark.
Gives: the registry, what its benchmarks have, their download, and `load_benchmark`.
"""

from autoprox.benchmarks.base import MIN_ARCHITECTURES, Benchmark, BenchmarkError
from autoprox.benchmarks.builtin import BENCHMARKS, BuiltInBenchmark, DataFile
from autoprox.benchmarks.catalogue import benchmark_info, fetch_benchmark, list_benchmarks
from autoprox.benchmarks.loading import load_benchmark, offered_datasets, require_data

__all__ = [
    "BENCHMARKS",
    "MIN_ARCHITECTURES",
    "Benchmark",
    "BenchmarkError",
    "BuiltInBenchmark",
    "DataFile",
    "benchmark_info",
    "fetch_benchmark",
    "list_benchmarks",
    "load_benchmark",
    "offered_datasets",
    "require_data",
]
