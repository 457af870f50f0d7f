"""Partial tau of the number of blocks: `python runs/scripts/depth_correlation.py SPACE ...`.

It is that with the true scores of each dataset, controlling for parameter count: it shows whether
spaces agree that deep networks are the better ones.
"""

import argparse

import numpy as np

from autoprox.benchmarks import load_benchmark
from autoprox.scoring.evaluation_set import EvaluationSet
from autoprox.searchspaces import get_space


def main() -> None:
    """Print a line for each space and dataset."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("spaces", nargs="+")
    for name in parser.parse_args().spaces:
        benchmark = load_benchmark(space=name)
        space, architectures = get_space(benchmark.space), benchmark.architectures
        depths = np.array([len(space.blocks(arch)) for arch in architectures], dtype=np.float64)
        networks = EvaluationSet(benchmark, range(len(architectures)), 0, "tau-b")
        for dataset in benchmark.datasets:
            partial_tau = networks.metrics(depths, dataset).partial_tau[0]
            print(f"{name:16} {dataset:16} {partial_tau:6.2f}")


if __name__ == "__main__":
    main()
