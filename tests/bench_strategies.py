"""Best joint correlation against evaluations, by strategy: `python tests/bench_strategies.py`.

Auto-Prox's figure 5: every strategy starts from the same seeds on the same training networks. The
result is a table of curves in JSON and a plot beside it; seeds that are in the table already are
not run again, so that a stopped measurement goes on.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from autoprox.engine.evaluator import Engine
from autoprox.evolution import STRATEGIES, EvolutionParameters, State, evolve
from autoprox.files.atomic import write_json
from autoprox.tasks.configurations import EvolveConfig
from autoprox.tasks.evolve import Evolve

mpl.use("Agg")
from matplotlib import pyplot as plt

FOLDER = Path(__file__).parent.parent / "runs" / "strategies"


def curve(
    problem: Evolve, engine: Engine, strategy: str, seed: int, budget: int
) -> list[tuple[int, float]]:
    """[evaluations, best joint correlation so far], at every improvement."""
    points: list[tuple[int, float]] = []
    state = State(random.Random(seed))

    def record(state: State) -> None:
        best = max(i.jcm for i in state.front)
        if not points or best > points[-1][1]:
            points.append((state.evaluations, best))

    settings, chosen = (
        EvolutionParameters(iterations=budget, evaluations=budget),
        STRATEGIES[strategy],
    )
    toolbox = problem.toolbox(engine)
    toolbox.register("select", chosen.select, parameters=settings)
    evolve(toolbox, chosen, settings, state, record)
    return points


def at(points: list[list[float]], evaluations: int) -> float:
    """The best joint correlation after so many evaluations."""
    return max((best for spent, best in points if spent <= evaluations), default=np.nan)


def plot(results: dict[str, Any], path: Path) -> None:
    """The mean over the seeds, in a band of one standard error."""
    budget = results["budget"]
    steps = np.linspace(40, budget, 100)
    figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
    for strategy, curves in results["curves"].items():
        values = np.array([[at(c, step) for step in steps] for c in curves.values()])
        mean, error = values.mean(0), values.std(0) / np.sqrt(len(values))
        (line,) = axes.plot(steps, mean, label=strategy)
        axes.fill_between(steps, mean - error, mean + error, color=line.get_color(), alpha=0.2)
    axes.set(
        xlabel="evaluations",
        ylabel="best joint correlation (training part)",
        title=f"{results['space']}, {len(values)} seeds",
    )
    axes.legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--space", default="autoformer-nano")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", type=int, default=1000)
    options = parser.parse_args()
    path = FOLDER / f"{options.space}.json"
    problem = Evolve(EvolveConfig(space=options.space))
    results: dict[str, Any] = {
        "benchmark": problem.benchmark.source,
        "space": problem.benchmark.space,
        "budget": options.budget,
        "curves": {strategy: {} for strategy in STRATEGIES},
    }
    if path.exists():
        results["curves"] |= json.loads(path.read_text())["curves"]
    path.parent.mkdir(parents=True, exist_ok=True)
    store = problem.collect()
    for seed in range(options.seeds):
        for strategy in STRATEGIES:
            if str(seed) not in results["curves"][strategy]:
                engine = Engine(store)
                points = curve(problem, engine, strategy, seed, options.budget)
                results["curves"][strategy][str(seed)] = points
                write_json(path, results)
    plot(results, path.with_suffix(".png"))
    for strategy, curves in results["curves"].items():
        final = [at(c, options.budget) for c in curves.values()]
        print(f"{strategy:10} {np.mean(final):.4f} ± {np.std(final):.4f}")


if __name__ == "__main__":
    main()
