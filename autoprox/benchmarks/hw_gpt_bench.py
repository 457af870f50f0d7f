"""HW-GPT-Bench: Sukthanker et al., "HW-GPT-Bench: Hardware-Aware Architecture Benchmark for
Language Models", NeurIPS 2024 Datasets and Benchmarks.

Its perplexities are those of slices of a supernet trained on OpenWebText. The authors fitted a
surrogate to them, a network over the one-hot choices, which answers for every architecture of
`gpt2-hw`; the benchmark's architectures are a sample of that space, always the same, and for each
of three labels a sample of those within 2 % of a size.
Code and file: github.com/automl/HW-GPT-Bench, Apache-2.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autoprox.benchmarks.benchmark import BenchmarkRow, BenchmarkSelection
from autoprox.benchmarks.benchmark_registry import BuiltInBenchmark, PinnedBenchmarkFile
from autoprox.benchmarks.data_files import read_verified_file

if TYPE_CHECKING:
    from autoprox.benchmarks.hw_gpt_surrogate import PerplexitySurrogate

_COMMIT = "1f43ee8322e6295d56c1e2004319123509fd53b8"
_REPOSITORY = "automl/HW-GPT-Bench"
_FOLDER = "data_collection/gpt_datasets/predictor_ckpts/metric"
_SPACE, _DATASET, _VOCABULARY = "gpt2-hw", "perplexity", 50304
# Labels whose architectures are of one size. There aren't 500 within 2 % of GPT-2's own 124 M.
_SIZES = {"equal-40m": 40_000_000, "equal-90m": 90_000_000, "equal-110m": 110_000_000}


def _read(
    selection: BenchmarkSelection, files: Sequence[tuple[PinnedBenchmarkFile, bytes]]
) -> list[BenchmarkRow]:
    """The rows of the label's sample, from the one file."""
    from autoprox.benchmarks.hw_gpt_surrogate import (
        sample_scored_by_surrogate,  # which imports torch
    )

    [(file, content)] = files
    return sample_scored_by_surrogate(file, content, _DATASET, _SIZES.get(selection.label))


def load_hw_gpt_surrogate(data_dir: Path | None = None) -> PerplexitySurrogate:
    """The published surrogate, from where the benchmark's file lies."""
    from autoprox.benchmarks.hw_gpt_surrogate import PerplexitySurrogate  # which imports torch

    [file] = HW_GPT_BENCH.files
    return PerplexitySurrogate(read_verified_file(HW_GPT_BENCH, file, data_dir), file.name)


HW_GPT_BENCH = BuiltInBenchmark(
    name="hw-gpt-bench",
    description="GPT-2 small networks with their perplexity on OpenWebText, by its surrogate",
    labels={_SPACE: dict.fromkeys(("surrogate", *_SIZES), (_DATASET,))},
    classes={_DATASET: _VOCABULARY},
    licence="Apache-2.0",
    origin=f"github.com/{_REPOSITORY} at {_COMMIT}",
    url=f"https://raw.githubusercontent.com/{_REPOSITORY}/{_COMMIT}/{_FOLDER}",
    files=(
        PinnedBenchmarkFile(
            "perplexity_s.pt",
            "e843a1afdcaa35707bd0a0659b8d88d9565ee7e2bc1ec30fb55e685f6193407b",
            size=243966,
            space=_SPACE,
            architectures=500,
        ),
    ),
    read=_read,
)
