"""Auto-Prox's figure 5, left: its elitist evolution, naive evolution and random search.

    python runs/figure5.py [--space autoformer] [--seeds 10] [--evaluations 1000] [--runs DIR]

Each of them evolves with the preset auto-prox until it has evaluated so many formulas. A run that
is there is read, or gone on with, so this can be stopped at any time and called again. Writes
figure5.json and figure5.png below DIR: the fitness of the best formula by formulas evaluated, not
by iterations, for in one of them elitism evaluates several.
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

import autoprox
from autoprox.files.atomic import write_json
from autoprox.runs.folder import Run

mpl.use("Agg")
from matplotlib import pyplot as plt

STRATEGIES = ("elitist", "naive", "random")


def run_of(strategy: str, seed: int, options: argparse.Namespace) -> Run:
    """The finished run of a strategy and a seed."""
    name = f"{strategy}-seed{seed}"
    found = sorted(options.runs.glob(f"*-{name}"))
    if found:
        return Run.open(autoprox.resume(found[-1]).run)
    result = autoprox.evolve(
        preset="auto-prox",
        strategy=strategy,
        space=options.space,
        datasets=options.datasets and options.datasets.split(","),
        seed=seed,
        split_seed=0,
        evaluations=options.evaluations,
        iterations=options.evaluations,
        name=name,
        runs=options.runs,
    )
    return Run.open(result.run)


def curve(run: Run, end: int) -> list[float]:
    """The best fitness after 1, 2, ... evaluations; before the first iteration's end, as then."""
    log = run.read_log()
    first = log[0]["best"]
    return [
        next((line["best"] for line in reversed(log) if line["evaluations"] <= n), first)
        for n in range(1, end + 1)
    ]


def measured(options: argparse.Namespace) -> dict[str, Any]:
    strategies: dict[str, Any] = {}
    for strategy in STRATEGIES:
        runs = [run_of(strategy, seed, options) for seed in range(options.seeds)]
        curves = [curve(run, options.evaluations) for run in runs]
        last = [own[-1] for own in curves]
        strategies[strategy] = {
            "mean": float(np.mean(last)),
            "std": float(np.std(last)),
            "curves": curves,
        }
    return {
        "space": options.space,
        "seeds": options.seeds,
        "evaluations": options.evaluations,
        "strategies": strategies,
    }


def plot(results: dict[str, Any], path: Path) -> None:
    """The mean over the seeds, in a band of one standard error."""
    figure, axis = plt.subplots(figsize=(6, 4), layout="constrained")
    for strategy, own in results["strategies"].items():
        runs = np.array(own["curves"], dtype=float)
        mean, error = runs.mean(0), runs.std(0) / np.sqrt(len(runs))
        steps = np.arange(1, runs.shape[1] + 1)
        (line,) = axis.plot(steps, mean, label=strategy)
        axis.fill_between(steps, mean - error, mean + error, color=line.get_color(), alpha=0.2)
    axis.set(xlabel="formulas evaluated", ylabel="best fitness", title=results["space"])
    axis.legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--space", default="autoformer")
    parser.add_argument("--datasets", default="cifar100,flowers,chaoyang")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--evaluations", type=int, default=1000)
    parser.add_argument("--runs", type=Path, default=Path(__file__).parent / "figure5")
    options = parser.parse_args()
    results = measured(options)
    write_json(options.runs / "figure5.json", results)
    plot(results, options.runs / "figure5.png")


if __name__ == "__main__":
    main()
