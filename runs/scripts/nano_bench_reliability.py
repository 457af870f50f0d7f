"""The reliability of the tables' labels over the pairs of architectures that are near in size.

    python runs/scripts/nano_bench_reliability.py

The deviation of the scores and that between seeds, the reliability of the mean of all seeds, and
Kendall's tau with it of the numbers of parameters, of FLOPs and of blocks.
"""

import json
from pathlib import Path

import numpy as np

import autoprox
from autoprox.benchmarks import BENCHMARKS, load_benchmark
from autoprox.scoring.bootstrap import BootstrapSample, near_size_pairs
from autoprox.scoring.true_score_reliability import true_score_reliability
from autoprox.searchspaces import get_space

FOLDER = Path(autoprox.__file__).parent / "data" / "nano-bench"
BENCHMARK = "nano-bench"


def report(space: str, dataset: str, label: str) -> None:
    """Print a line of the table."""
    found = load_benchmark(BENCHMARK, space=space, label=label, datasets=[dataset])
    entries = json.loads((FOLDER / f"{space}.json").read_text())["architectures"]
    runs = np.array([entry["runs"][dataset][label] for entry in entries])
    known, classes = get_space(space), found.classes[dataset]
    counts = [
        np.array([count(arch) for arch in found.architectures], dtype=np.float64)
        for count in (
            lambda arch: known.params(arch, classes),
            lambda arch: known.flops(arch, classes),
            lambda arch: len(known.blocks(arch)),
        )
    ]
    near, scores = near_size_pairs(counts[0]), found.scores[dataset]
    sample = BootstrapSample(len(runs), 0, draws=0)
    numbers = (
        scores.std(ddof=1),
        np.sqrt(runs.var(1, ddof=1).mean()),
        true_score_reliability(runs, counts[0]),
        *(sample.tau(count, scores, "tau-b", near)[0] for count in counts),
    )
    cells = [space, dataset, label, f"{len(runs)}", f"{runs.shape[1]}", f"{int(near.sum() / 2)}"]
    print("| " + " | ".join([*cells, *(f"{number:.3f}" for number in numbers)]) + " |")


def main() -> None:
    """Report on every label of every table."""
    print(
        "| space | dataset | label | architectures | seeds | pairs | SD | SD between seeds | "
        "reliability | params | FLOPs | depth |"
    )
    print("|" + "---|" * 12)
    for space, labels in BENCHMARKS[BENCHMARK].labels.items():
        for label, datasets in labels.items():
            for dataset in datasets:
                report(space, dataset, label)


if __name__ == "__main__":
    main()
