"""Benchmarks: tables of architectures with their true scores, known by name or read from a path.

May import: what is below, inputs and searchspaces included; the catalogue does without torch.
Gives: the registry, what its benchmarks have, their download, and `load_benchmark`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from autoprox.benchmarks.base import MIN_ARCHITECTURES, Benchmark, BenchmarkError
from autoprox.benchmarks.builtin import BENCHMARKS, BuiltInBenchmark, DataFile
from autoprox.benchmarks.catalogue import (
    benchmark_info,
    fetch_benchmark,
    list_benchmarks,
)

if TYPE_CHECKING:
    from autoprox.benchmarks.loading import load_benchmark

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
]


def __getattr__(name: str) -> Any:
    if name == "load_benchmark":
        from autoprox.benchmarks.loading import load_benchmark  # which imports torch

        return load_benchmark
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
