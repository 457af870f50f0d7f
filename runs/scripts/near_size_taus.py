"""Kendall tau of a run's proxy over pairs of test networks that are near in size.

    python runs/scripts/near_size_taus.py RUN ...

Reads finished runs of `autoprox evolve` on one space, and their benchmarks. Prints a line for each
run and each limit to the difference in parameters, with the means over the datasets for the proxy
and the baselines; ties are counted as unordered.
"""

import argparse
from pathlib import Path

import numpy as np

import autoprox
from autoprox.benchmarks import load_benchmark
from autoprox.evaluation.full_resolution_choice import RankingQuality
from autoprox.loaded_runs import EvolveResult
from autoprox.scoring.baselines import baselines
from autoprox.scoring.bootstrap import BootstrapSample, near_size_pairs
from autoprox.scoring.correlations import Floats

LIMITS = (0.1, 0.05, 0.02)


def quality_of(run: EvolveResult) -> RankingQuality:
    """Return what a run on one space measured."""
    [quality] = run.summary.folds[0].spaces.values()
    return quality


def scores_of(run: EvolveResult) -> dict[str, dict[str, Floats]]:
    """Return the scores of the proxy and of each baseline on the test networks, by dataset."""
    config, networks = run.config, quality_of(run).networks
    benchmark = load_benchmark(
        config["benchmark"],
        space=config["space"],
        datasets=config["datasets"],
        label=config["label"],
    )
    test, train = (networks[part].network for part in ("test", "train"))
    every = baselines(benchmark, train)
    proxy = {d: np.array(v, dtype=float) for d, v in networks["test"].scores.items()}
    return {"proxy": proxy} | {
        name: {d: v[test] for d, v in own.items()} for name, own in every.items()
    }


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    names = ("proxy", "params", "flops", "ridge")
    print("| run | within | pairs | " + " | ".join(names) + " |")
    print("|" + "---|" * (3 + len(names)))
    for path in parser.parse_args().runs:
        run = autoprox.load_run(path)
        if not isinstance(run, EvolveResult):
            raise SystemExit(f"{path} must be a run of evolve")
        own, scores = quality_of(run).networks["test"], scores_of(run)
        sample = BootstrapSample(len(own.network), 0, draws=0)
        for limit in LIMITS:
            pairs = near_size_pairs(np.array(own.params, dtype=np.float64), 1 + limit)
            taus = {
                name: np.mean(
                    [
                        sample.tau(
                            np.asarray(scores[name][dataset]), np.asarray(truth), among=pairs
                        )[0]
                        for dataset, truth in own.truth.items()
                    ]
                )
                for name in names
            }
            cells = [run.name, f"{limit:.0%}", f"{int(pairs.sum() / 2)}"]
            print("| " + " | ".join([*cells, *(f"{taus[name]:.3f}" for name in names)]) + " |")


if __name__ == "__main__":
    main()
