"""Simple regret on HW-GPT-Bench against candidates, 10 seeds: `python tests/bench/regret.py`.

A candidate is an architecture that the proxy scores; all strategies have as many. The
perplexity is that of the candidate which the search would return if it stopped there: the best by
the proxy, or of `etas` the best that the benchmark evaluated. `etas` asks the benchmark about 33 of
its candidates, the others about none; so there is also the best of the 33 that the proxy of each
strategy ranks first. The least perplexity is what steepest descents on the perplexity itself found,
one from each embedding, depth and bias, or what a search found, if that is less.

Writes `--out`/search_regret.json, and a plot in runs/search.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from search import RUNS, machine, problem_of

from autoprox.benchmarks.hw_gpt_bench import load_hw_gpt_surrogate
from autoprox.commands.search import SearchTask
from autoprox.files.atomic_writes import write_json
from autoprox.files.human_readable_sizes import parse_range
from autoprox.nas.ageing_evolution import AgeingParameters
from autoprox.nas.blockwise_evolution import BlockwiseParameters
from autoprox.nas.etas_search import ETASParameters
from autoprox.nas.random_search import RandomParameters
from autoprox.nas.searcher import Searcher
from autoprox.nas.strategy_registry import SEARCH_STRATEGIES, SearchParameters
from autoprox.searchspaces import Architecture, get_space
from autoprox.searchspaces.size_limits import SizeLimits

mpl.use("Agg")
from matplotlib import pyplot as plt

QUERIES = 33
BUDGETS: dict[str, SearchParameters] = {  # 1,300 candidates each, as ETAS has for GPT-2
    "random": RandomParameters(samples=1300),
    "evolution": AgeingParameters(steps=120),
    "etas": ETASParameters(samples=300, probability=0.3),
    "blockwise": BlockwiseParameters(steps=26),
}
GRID = list(range(50, 1301, 50))


def least_perplexity(limits: SizeLimits, perplexity: Callable[[Architecture], float]) -> float:
    """By steepest descent from the smallest network of each embedding, depth and bias."""
    space, best = limits.space, math.inf
    fields = ("embed_dim", "n_layer", "bias")
    for values in itertools.product(*(space.fields[name].options[0] for name in fields)):
        choices: dict[str, Any] = dict(zip(fields, values, strict=True))
        layers = choices["n_layer"]
        arch = space.architecture({**choices, "mlp_ratio": [2] * layers, "n_head": [4] * layers})
        found = perplexity(arch) if limits.admit(arch) else math.inf
        while found < math.inf:
            near = [a for a in neighbours(arch) if limits.admit(a)]
            least, arch = min(((perplexity(a), a) for a in near), key=lambda pair: pair[0])
            if least >= found:
                break
            found = least
        best = min(best, found)
    return best


def neighbours(arch: Architecture) -> list[Architecture]:
    """The architectures that differ in the MLP ratios or heads of one layer, or of two."""
    space, lists = get_space(arch.space), ("mlp_ratio", "n_head")
    places = [(name, i) for name in lists for i in range(arch["n_layer"])]
    changes = [(*place, o) for place in places for o in space.fields[place[0]].options[0]]
    found = set()
    for pair in itertools.combinations_with_replacement(changes, 2):
        choices = dict(arch.choices) | {name: list(arch[name]) for name in lists}
        for name, i, option in pair:
            choices[name][i] = option
        found.add(Architecture(arch.space, choices))
    return sorted(found, key=lambda a: a.digest)


def curve(
    problem: SearchTask, strategy: str, seed: int, perplexity: Callable[[Architecture], float]
) -> dict[str, Any]:
    """The perplexity of what the search would return after so many candidates."""
    asked: list[tuple[int, float]] = []  # candidates so far, least perplexity evaluated

    def on_step(searcher: Searcher) -> None:
        if found := searcher.evaluated():
            asked.append((len(searcher.candidates), float(found[0].value or 0.0)))

    searcher = Searcher(
        problem.limits,
        problem.proxy,
        problem.scorer(),
        seed,
        evaluator=problem.evaluator,
        on_step=on_step,
    )
    SEARCH_STRATEGIES[strategy].search(searcher, BUDGETS[strategy])
    terms = np.array([c.outcome.terms for c in searcher.candidates])
    points = []
    for count in GRID:
        if asked:
            points.append(next((value for n, value in reversed(asked) if n <= count), None))
        else:
            pick = int(np.argmax(problem.proxy.scores(terms[:count])))
            points.append(perplexity(searcher.candidates[pick].architecture))
    first = searcher.ranked()[:QUERIES]
    evaluated = min(perplexity(c.architecture) for c in first)
    return {
        "perplexity": points,
        "queries": searcher.evaluations,
        "after_queries": asked[-1][1] if asked else evaluated,
        "candidates": len(searcher.candidates),
    }


def measured(path: Path) -> dict[str, Any]:
    """Every curve, written as soon as it is there."""
    surrogate = load_hw_gpt_surrogate()
    about = {"machine": machine(), "command": "tests/bench/regret.py"}
    results: dict[str, Any] = {**about, "grid": GRID, "settings": {}}
    for limit in (None, ":80M"):
        limits = SizeLimits(get_space("gpt2-hw"), 1000, parse_range("params", limit))
        least = least_perplexity(limits, surrogate)
        found: dict[str, dict[str, Any]] = {}
        for proxy in ("l2_norm", "ntsr"):
            own = found[f"{proxy} {limit or 'no limit'}"] = {"curves": {}}
            for strategy in BUDGETS:
                curves = []
                for seed in range(10):
                    problem = problem_of(
                        proxy,
                        space="gpt2-hw",
                        strategy=strategy,
                        params=limit,
                        weights="inherited",
                        evaluator="hw-gpt-bench" if strategy == "etas" else None,
                        seed=seed,
                    )
                    curves.append(curve(problem, strategy, seed, surrogate))
                own["curves"][strategy] = {"runs": curves}
                seen = [[c["after_queries"], *filter(None, c["perplexity"])] for c in curves]
                least = min(least, *map(min, seen))
                results["settings"] |= with_regret(found, least)
                write_json(path, results)
    return results


def with_regret(found: dict[str, dict[str, Any]], least: float) -> dict[str, dict[str, Any]]:
    """The same with the mean and deviation over seeds of what is above the least perplexity."""
    for own in found.values():
        own["least"] = least
        for curves in own["curves"].values():
            for name, values in (
                ("regret", [c["perplexity"][-1] for c in curves["runs"]]),
                (f"regret_after_{QUERIES}_queries", [c["after_queries"] for c in curves["runs"]]),
            ):
                curves[name] = [float(np.mean(values) - least), float(np.std(values))]
    return found


def plot(results: dict[str, Any], path: Path) -> None:
    """Mean regret over the seeds, in a band of one standard error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure, axes = plt.subplots(2, 2, figsize=(9, 6), layout="constrained", sharex=True)
    for axis, (name, own) in zip(axes.T.flat, results["settings"].items(), strict=True):
        for strategy, found in own["curves"].items():
            runs = np.array([c["perplexity"] for c in found["runs"]], dtype=float) - own["least"]
            mean, error = runs.mean(0), runs.std(0) / np.sqrt(len(runs))
            (line,) = axis.plot(results["grid"], mean, label=strategy)
            axis.fill_between(
                results["grid"], mean - error, mean + error, color=line.get_color(), alpha=0.2
            )
        axis.set(title=name, xlabel="candidates scored", ylabel="regret (perplexity)", yscale="log")
    axes.flat[0].legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=RUNS / "measured")
    options = parser.parse_args()
    plot(measured(options.out / "search_regret.json"), RUNS / "search" / "regret.png")


if __name__ == "__main__":
    main()
