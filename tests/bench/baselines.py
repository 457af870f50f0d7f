"""How well baselines rank nano-bench's test networks: `python tests/bench/baselines.py`.

Prints JSON: for each space the Kendall tau of each baseline on the test part (40 % of the
networks), means over ten splits and the datasets, where regressions are fitted to the training part
(77 labels); the same of each regression on the other's features; and the seconds that fitting takes
with as many and with 600 labels. With `--published`, on the tables of $AUTOPROX_DATA, too.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections import defaultdict
from statistics import fmean, stdev

import numpy as np

from autoprox.benchmarks import Benchmark, load_benchmark
from autoprox.scoring.baselines import (
    REGRESSIONS,
    baselines,
    gaussian_process_predictions,
    regression_features,
    regression_scores,
)
from autoprox.scoring.bootstrap import split_networks
from autoprox.scoring.correlations import kendall_unordered_ties
from autoprox.searchspaces import get_space

SPLITS = 10
NANO = ("autoformer-nano", "pit-nano", "gpt2-nano")
PUBLISHED = (
    *(("vit-bench-101", "autoformer-ti"), ("vit-bench-101", "pit")),
    ("nas-bench-bert", "flexibert"),
)


def taus(benchmark: Benchmark) -> dict[str, dict[str, float]]:
    """Return each baseline's tau on the test parts, and its standard deviation over the splits."""
    space, archs = get_space(benchmark.space), benchmark.architectures
    features = {kind: regression_features(kind, space, archs) for kind in REGRESSIONS}
    found: dict[str, list[float]] = defaultdict(list)
    for seed in range(SPLITS):
        train, test = split_networks(len(archs), seed)
        scores = {
            **baselines(benchmark, train.tolist()),
            **{
                f"{kind} on the features of {other}": {
                    dataset: regression_scores(kind, x, truth, train)
                    for dataset, truth in benchmark.scores.items()
                }
                for kind in REGRESSIONS
                for other, x in features.items()
                if other != kind
            },
        }
        for name, own in scores.items():
            each = [
                float(kendall_unordered_ties(values[test], benchmark.scores[dataset][test]))
                for dataset, values in own.items()
            ]
            found[name].append(fmean(each))
    return {
        name: {"tau": round(fmean(own), 3), "std of splits": round(stdev(own), 3)}
        for name, own in found.items()
    }


def seconds(labels: int) -> float:
    """Return the time of one Gaussian process with this many labels and 17 features."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((labels, 17))
    y = x[:, 0] + np.sin(2 * x[:, 1]) + rng.standard_normal(labels)
    started = time.perf_counter()
    gaussian_process_predictions(x, y, x)
    return round(time.perf_counter() - started, 3)


def main() -> None:
    """Measure all and print the result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--published", action="store_true")
    tables = [("nano-bench", space) for space in NANO]
    tables += PUBLISHED if parser.parse_args().published else ()
    seconds(20)  # with the import
    result = {
        "machine": {"platform": platform.platform(), "cores": os.cpu_count()},
        "command": ["tests/bench/baselines.py", *sys.argv[1:]],
        "splits": SPLITS,
        "tau": {space: taus(load_benchmark(name, space=space)) for name, space in tables},
        "seconds of a Gaussian process": {str(n): seconds(n) for n in (77, 200, 600)},
    }
    json.dump(result, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
