"""Kendall's tau of a run's proxy over pairs of test networks of nearly equal size, beside counts.

    python runs/equal_size.py RUN ...

Reads finished runs of `autoprox evolve` on one space, and their benchmarks. A line for each run and
each limit to the difference in parameters: the means over the datasets, ties worth nothing.
"""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from autoprox.benchmarks import load_benchmark
from autoprox.scoring.bootstrap import BootstrapSample, near_size_pairs
from autoprox.scoring.correlations import Floats
from autoprox.scoring.evaluation_set import ridge_baseline, size_baselines

LIMITS = (0.1, 0.05, 0.02)


def scores_of(run: Path, summary: Mapping[str, Any]) -> dict[str, dict[str, Floats]]:
    """Of the proxy and of each baseline, by dataset, those of the test networks."""
    config = json.loads((run / "config.json").read_text())
    benchmark = load_benchmark(
        config["benchmark"],
        space=config["space"],
        datasets=config["datasets"],
        label=config["label"],
    )
    test, train = (summary["networks"][part]["network"] for part in ("test", "train"))
    whole = {**size_baselines(benchmark), "ridge": ridge_baseline(benchmark, train)}
    found = {"proxy": summary["networks"]["test"]["scores"]}
    found |= {name: {d: v[test] for d, v in own.items()} for name, own in whole.items()}
    return found


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    names = ("proxy", "params", "flops", "ridge")
    print("| run | within | pairs | " + " | ".join(names) + " |")
    print("|" + "---|" * (3 + len(names)))
    for run in parser.parse_args().runs:
        summary = json.loads((run / "summary.json").read_text())
        own, scores = summary["networks"]["test"], scores_of(run, summary)
        sample = BootstrapSample(len(own["network"]), 0, draws=0)
        for limit in LIMITS:
            pairs = near_size_pairs(np.array(own["params"], dtype=np.float64), 1 + limit)
            taus = {
                name: np.mean(
                    [
                        sample.tau(
                            np.asarray(scores[name][dataset]), np.asarray(truth), among=pairs
                        )[0]
                        for dataset, truth in own["truth"].items()
                    ]
                )
                for name in names
            }
            cells = [run.name, f"{limit:.0%}", f"{int(pairs.sum() / 2)}"]
            print("| " + " | ".join([*cells, *(f"{taus[name]:.3f}" for name in names)]) + " |")


if __name__ == "__main__":
    main()
