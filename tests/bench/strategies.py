"""Best fitness against formulas evaluated, by strategy: `python tests/bench/strategies.py`.

Every strategy starts from the same seeds on the same training networks; with `--space autoformer
--preset auto-prox --strategies elitist,naive,random` that is Auto-Prox's figure 5, left. The result
is a table of curves in JSON and a plot next to it; seeds that are in the table already are not run
again, so that an interrupted measurement can be resumed.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from autoprox.commands.evolve import EvolveTask
from autoprox.configurations.commands import EvolveConfig
from autoprox.evolution import STRATEGIES, State, evolve, make_toolbox
from autoprox.files.atomic_writes import write_json
from autoprox.statistics.matrix_cache import CachedMatrices

mpl.use("Agg")
from matplotlib import pyplot as plt

FOLDER = Path(__file__).parents[2] / "runs" / "strategies"


def task_of(strategy: str, options: argparse.Namespace) -> EvolveTask:
    """Return an evolution by this strategy that ends with the budget of formulas."""
    given = {"preset": options.preset} if options.preset else {}
    budget = options.budget
    return EvolveTask(
        EvolveConfig(
            form="tree",
            space=options.space,
            strategy=strategy,
            iterations=budget,
            evaluations=budget,
            **given,
        )
    )


def curve(task: EvolveTask, store: CachedMatrices, seed: int) -> list[tuple[int, float]]:
    """Return [evaluations, best joint metric so far] at every improvement."""
    points: list[tuple[int, float]] = []

    def record(state: State) -> None:
        best = max(i.jcm for i in state.front)
        if not points or best > points[-1][1]:
            points.append((state.evaluations, best))

    (plan,), strategy = task.folds, STRATEGIES[task.config.strategy]
    (evaluator,) = task.evaluators(plan, {name: [store] for name in task.problems})
    toolbox = make_toolbox(task.representation, evaluator.evaluate, strategy, task.config)
    evolve(toolbox, strategy, task.config, State(random.Random(seed)), record)
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
        xlabel="formulas evaluated",
        ylabel="best fitness (training part)",
        title=f"{results['space']}, {len(values)} seeds",
    )
    axes.legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--space", default="autoformer-nano")
    parser.add_argument(
        "--preset", help="auto-prox: the representation and settings of its authors"
    )
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--budget", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=FOLDER)
    options = parser.parse_args()
    path = options.out / ("-".join(filter(None, (options.space, options.preset))) + ".json")
    strategies = options.strategies.split(",")
    results: dict[str, Any] = {
        "space": options.space,
        "preset": options.preset,
        "budget": options.budget,
        "curves": {strategy: {} for strategy in strategies},
    }
    if path.exists():
        results["curves"] |= json.loads(path.read_text())["curves"]
    path.parent.mkdir(parents=True, exist_ok=True)
    for strategy in strategies:
        task, curves = task_of(strategy, options), results["curves"][strategy]
        (problem,) = task.problems.values()
        store = problem.collect(task.needs(), problem.parts["train"], task.config.memory)
        for seed in (seed for seed in range(options.seeds) if str(seed) not in curves):
            curves[str(seed)] = curve(task, store, seed)
            write_json(path, results)
    plot(results, path.with_suffix(".png"))
    for strategy, curves in results["curves"].items():
        final = [at(c, options.budget) for c in curves.values()]
        print(f"{strategy:10} {np.mean(final):.4f} ± {np.std(final):.4f}")


if __name__ == "__main__":
    main()
