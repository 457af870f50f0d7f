"""Benchmarks: tables of architectures with their true scores, known by name or read from a path.

The package imports torch only to read a benchmark, so that listing them is quick. It provides the
registry of built-in benchmarks, their description and download, and `load_benchmark`.
"""

from autoprox.benchmarks.benchmark import (
    MIN_ARCHITECTURES,
    Benchmark,
    BenchmarkError,
    NetworkSampleError,
)
from autoprox.benchmarks.benchmark_registry import BENCHMARKS, BuiltInBenchmark, PinnedBenchmarkFile
from autoprox.benchmarks.data_files import benchmark_info, fetch_benchmark, list_benchmarks
from autoprox.benchmarks.hw_gpt_bench import HW_GPT_BENCH
from autoprox.benchmarks.loading import available_datasets, load_benchmark, require_data_folder
from autoprox.benchmarks.lts import LTS
from autoprox.benchmarks.nano_bench import NANO_BENCH
from autoprox.benchmarks.nas_bench_bert import NAS_BENCH_BERT
from autoprox.benchmarks.ood_vit_nas import OOD_VIT_NAS
from autoprox.benchmarks.vit_bench import VIT_BENCH_101

for _benchmark in (NANO_BENCH, VIT_BENCH_101, NAS_BENCH_BERT, HW_GPT_BENCH, OOD_VIT_NAS, LTS):
    BENCHMARKS.register(_benchmark.name, _benchmark)

__all__ = [
    "BENCHMARKS",
    "MIN_ARCHITECTURES",
    "Benchmark",
    "BenchmarkError",
    "BuiltInBenchmark",
    "NetworkSampleError",
    "PinnedBenchmarkFile",
    "available_datasets",
    "benchmark_info",
    "fetch_benchmark",
    "list_benchmarks",
    "load_benchmark",
    "require_data_folder",
]
