"""ViT-Bench-101: Wei et al., "Auto-Prox: Training-Free Vision Transformer Architecture Search via
Automatic Proxy Discovery", AAAI 2024.

100 AutoFormer-Ti and 100 PiT architectures, each trained on CIFAR-100, Flowers-102 and Chaoyang
with distillation (`kd`) and without (`base`); the AutoFormers also have the ImageNet accuracy that
they inherit from a supernet (`supernet`). A second AutoFormer file, the subset `extra`, has 100
more, without `base`. Code and files: github.com/lilujunai/Auto-Prox-AAAI24, Apache-2.0.
"""

import io
import math
from collections.abc import Sequence
from typing import Any

from autoprox.benchmarks.benchmark import (
    BenchmarkError,
    BenchmarkRow,
    BenchmarkSelection,
    make_benchmark_row,
)
from autoprox.benchmarks.benchmark_registry import BuiltInBenchmark, PinnedBenchmarkFile
from autoprox.inputs.dataset_class_counts import DATASET_CLASSES

_COMMIT = "90ed458eff6948a6f0d23e440a8d21bbec50d091"
_REPOSITORY = "lilujunai/Auto-Prox-AAAI24"
# The parts of a column's name, such as c100_kd_acc.
_DATASETS = {
    "cifar100": "c100",
    "flowers": "flower",
    "chaoyang": "chaoyang",
    "imagenet": "imagenet",
}
_LABELS = {"kd": "kd", "base": "base", "supernet": "super"}
_TRAINED = ("cifar100", "flowers", "chaoyang")


def _read(
    selection: BenchmarkSelection, files: Sequence[tuple[PinnedBenchmarkFile, bytes]]
) -> list[BenchmarkRow]:
    """The rows of the selected files.

    Left out of the `extra` file are the rows without a score that is asked for, and those of an
    architecture that has a row already. In a main file either is an error.
    """
    import torch  # takes seconds of start-up

    rows: list[BenchmarkRow] = []
    for file, content in files:
        entries = torch.load(io.BytesIO(content), weights_only=True, map_location="cpu")
        read = [_row(selection, file, i, entry) for i, entry in enumerate(entries)]
        if not any(read):
            wanted = f"{selection.label} scores of {', '.join(selection.datasets)}"
            hint = "use another label or subset main"
            raise BenchmarkError(f"{file.name} must have {wanted}, but has none: {hint}")
        for row in read:
            known = {other.architecture for other in rows}
            if row and (file.subset == "main" or row.architecture not in known):
                rows.append(row)
    return rows


def _row(
    selection: BenchmarkSelection, file: PinnedBenchmarkFile, i: int, entry: dict[str, Any]
) -> BenchmarkRow | None:
    where = f"{file.name}: entry {i}"
    scores = {}
    for dataset in selection.datasets:
        column = f"{_DATASETS[dataset]}_{_LABELS[selection.label]}_acc"
        score = entry.get(column)
        if score is None or not math.isfinite(score):
            if file.subset == "extra":
                return None
            raise BenchmarkError(f"{where} must have a finite {column}, but got {score}")
        scores[dataset] = float(score)
    return make_benchmark_row(selection.space, entry["arch"], scores, where)


VIT_BENCH_101 = BuiltInBenchmark(
    name="vit-bench-101",
    description="vision transformers trained on CIFAR-100, Flowers-102 and Chaoyang (Auto-Prox)",
    labels={
        "autoformer-ti": {"kd": _TRAINED, "base": _TRAINED, "supernet": ("imagenet",)},
        "pit": {"kd": _TRAINED, "base": _TRAINED},
    },
    classes=DATASET_CLASSES,
    licence="Apache-2.0",
    origin=f"github.com/{_REPOSITORY} at {_COMMIT}",
    url=f"https://raw.githubusercontent.com/{_REPOSITORY}/{_COMMIT}/gt_results",
    files=(
        PinnedBenchmarkFile(
            "gt_autoformer.pth",
            "712ad277546d9f7f565ce07885be7e0b98dcd8d0724fdd1120f595b517436eca",
            size=26671,
            space="autoformer-ti",
            architectures=100,
        ),
        PinnedBenchmarkFile(
            "gt_autoformer_2.pth",
            "05f5df6a41f338fb5f47eafebfc8758c75e451606856b278ccda1c60b26e7bca",
            size=None,
            space="autoformer-ti",
            architectures=100,
            subset="extra",
        ),
        PinnedBenchmarkFile(
            "gt_pit.pth",
            "bdda89841d4105f99ab759e3243e7a2402929ba7a8430dac12a50256aa533bb2",
            size=12271,
            space="pit",
            architectures=100,
        ),
    ),
    read=_read,
)
