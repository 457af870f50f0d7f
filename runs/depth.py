"""What depth is worth at equal size: `python runs/depth.py SPACE ...`.

Kendall's partial tau, given the parameter count, of the number of blocks with the true scores, by
dataset: how far spaces agree on whether deep networks are the better ones.
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
        judge = EvaluationSet(benchmark, range(len(architectures)), 0, "tau-b")
        for dataset in benchmark.datasets:
            print(f"{name:16} {dataset:16} {judge.worth(depths, dataset).partial_tau[0]:6.2f}")


if __name__ == "__main__":
    main()
