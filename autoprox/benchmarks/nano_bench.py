"""nano-bench, which comes with the package: small transformers that we trained ourselves.

There is a table for each of three spaces, in the format of a user's own table: its scores are the
cross-entropies on held-out data, its `runs` have those of each seed, and the accuracies.
Sizes are drawn evenly from a range so narrow that shape decides; runs/nano-bench has the recipe.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from autoprox.benchmarks.benchmark import BenchmarkRow, BenchmarkSelection, make_benchmark_row
from autoprox.benchmarks.benchmark_registry import BuiltInBenchmark, PinnedBenchmarkFile

_IMAGES, _TEXTS = ("cifar10", "fashion-mnist"), ("python-sources", "english-docs")
_SIGNS = {"cross-entropy": -1.0, "accuracy": 1.0}  # of each label; higher must be better
_BYTES = {"autoformer-nano": 102878, "pit-nano": 93997, "gpt2-nano": 108196}
_SHA256 = {
    "autoformer-nano": "94322915c4db2ea696ed92d6f04c344e4e508f8c4bf0740de1c74c655ee45f91",
    "pit-nano": "dcc3e7f1da8b33e7717513490b4c76dd1ec5d3d9e06b6a506c69e60c817069e5",
    "gpt2-nano": "582a4798140863012b42985401e7c7a3a11835752e016b1a6c3268703ef517e3",
}


def _read(
    selection: BenchmarkSelection, files: Sequence[tuple[PinnedBenchmarkFile, bytes]]
) -> list[BenchmarkRow]:
    """The rows of one space: the means over the seeds."""
    [(file, content)] = files
    label, sign = selection.label, _SIGNS[selection.label]
    rows = []
    for index, entry in enumerate(json.loads(content)["architectures"]):
        scores = {d: sign * fmean(entry["runs"][d][label]) for d in selection.datasets}
        where = f"{file.name}: architectures[{index}]"
        rows.append(make_benchmark_row(selection.space, entry["arch"], scores, where))
    return rows


NANO_BENCH = BuiltInBenchmark(
    name="nano-bench",
    description="small transformers for images and for texts, trained by us at narrow sizes",
    labels={
        "autoformer-nano": dict.fromkeys(_SIGNS, _IMAGES),
        "pit-nano": dict.fromkeys(_SIGNS, _IMAGES),
        "gpt2-nano": dict.fromkeys(_SIGNS, _TEXTS),
    },
    classes={**dict.fromkeys(_IMAGES, 10), **dict.fromkeys(_TEXTS, 256)},
    licence="MIT",
    origin="autoprox (runs/nano-bench)",
    folder=Path(__file__).parent.parent / "data" / "nano-bench",
    files=tuple(
        PinnedBenchmarkFile(f"{space}.json", _SHA256[space], size, space, architectures=128)
        for space, size in _BYTES.items()
    ),
    read=_read,
    reliability={
        "autoformer-nano": {"cifar10": 0.7189269118527519, "fashion-mnist": 0.6266116299202379},
        "pit-nano": {"cifar10": 0.7350941254839953, "fashion-mnist": 0.6995077902009664},
        "gpt2-nano": {"python-sources": 0.9018435031622842, "english-docs": 0.8878513133109426},
    },
)
