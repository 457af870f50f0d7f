"""The table that comes with the package, in the form of `benchmarks.table`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autoprox.benchmarks.base import LABEL, Row, Selection
from autoprox.benchmarks.builtin import BuiltInBenchmark, DataFile
from autoprox.files.located_json import parse_json

SPACE = "autoformer-nano"
DATASETS = ("cifar10", "fashion-mnist", "digits")


def read(selection: Selection, files: Sequence[tuple[DataFile, bytes]]) -> list[Row]:
    """The rows of the one file."""
    from autoprox.benchmarks.table import read_rows  # whose spaces import torch

    [(file, content)] = files
    return read_rows(parse_json(content, file.name))


NANO_VIT_BENCH = BuiltInBenchmark(
    name="nano-vit-bench",
    description="small vision transformers trained on CIFAR-10, Fashion-MNIST and digits",
    labels={SPACE: {LABEL: DATASETS}},
    classes=dict.fromkeys(DATASETS, 10),
    licence="MIT",
    origin="autoprox (runs/nano-vit-bench)",
    folder=Path(__file__).parent.parent / "data",
    files=(
        DataFile(
            "nano-vit-bench.json",
            "58721b6c8ff084f364e13a635b132fc179fe22cd2eb8374d9378834eef849c28",
            size=37314,
            space=SPACE,
            architectures=64,
        ),
    ),
    read=read,
    noise_ceiling={
        "cifar10": 0.8024846949535361,
        "fashion-mnist": 0.77648228635918,
        "digits": 0.7848982587964999,
    },
)
