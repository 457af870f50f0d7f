"""Measures the search against its targets: `python tests/bench_search.py PART ...`.

Parts, each printed as JSON when it is done, and written to `--out`/search_PART.json:

- inherited: AutoFormer-Ti candidates a second; seconds of a block-wise search of 8,000; Kendall's
  tau of the order by inherited weights against that by fresh ones, on 200 candidates
- fresh: processor time of a candidate over that of one bare forward and backward pass of its
  network, the median over networks; forward passes of a proxy of weights alone
- regret: simple regret on HW-GPT-Bench against candidates, 10 seeds, with a plot in runs/search
- pick: of ViT-Bench-101's 100 AutoFormers, the accuracy of the one that a proxy picks

In `regret` a candidate is an architecture that the proxy scores; all strategies have as many. The
perplexity is that of the candidate which the search would return if it stopped there: the best by
the proxy, or of `etas` the best that the benchmark evaluated. `etas` asks the benchmark about 33 of
its candidates, the others about none; so there is also the best of the 33 that the proxy of each
strategy ranks first. The least perplexity is what steepest descents on the perplexity itself found,
one from each embedding, depth and bias, or what a search found, if that is less.

Every ratio is of two measurements of the same run, on one thread. Beside seconds there is the time
that the processor spent on the search, on all threads, whatever else ran on the machine.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import os
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
import numpy as np
import torch

import autoprox
from autoprox.benchmarks import load_benchmark
from autoprox.benchmarks.hw_gpt import load_surrogate
from autoprox.files.atomic import write_json
from autoprox.files.sizes import read_range
from autoprox.language import Tree, make
from autoprox.nas.blockwise import BlockwiseParameters
from autoprox.nas.etas import ETASParameters
from autoprox.nas.evolution import AgeingParameters
from autoprox.nas.proxy import Outcome, SplitProxy
from autoprox.nas.random import RandomParameters
from autoprox.nas.searcher import Searcher, SearchParameters
from autoprox.nas.size_limits import SizeLimits
from autoprox.nas.strategies import STRATEGIES
from autoprox.scoring.correlations import kendall
from autoprox.searchspaces import Architecture, get_space
from autoprox.statistics.collector import cross_entropy
from autoprox.tasks.configurations import SearchConfig
from autoprox.tasks.search import Search
from autoprox.zoo.expressions import load_expression

mpl.use("Agg")
from matplotlib import pyplot as plt

RUNS = Path(__file__).parent.parent / "runs"
Save = Callable[[dict[str, Any]], None]


def problem_of(proxy: str, **options: Any) -> Search:
    return Search(SearchConfig(proxy=proxy, **options))


def together(names: Sequence[str]) -> str:
    """One proxy that measures the terms of several in the same passes."""
    trees = [load_expression(name) for name in names]
    whole: Tree = make("rank", make("sum", make("one")))
    for tree in trees:
        whole = make("add", whole, make("rank", tree))
    return str(whole)


def measured(problem: Search, architectures: Sequence[Architecture]) -> dict[Tree, np.ndarray]:
    """[networks] of each term."""
    outcomes: list[Outcome] = []
    problem.scorer().measure(architectures, outcomes.append)
    values = np.array([o.terms or [np.nan] * len(problem.proxy.terms) for o in outcomes])
    return dict(zip(problem.proxy.terms, values.T, strict=True))


def scores_of(name: str, terms: dict[Tree, np.ndarray]) -> np.ndarray:
    proxy = SplitProxy(load_expression(name))
    return proxy.scores(np.stack([terms[term] for term in proxy.terms], 1))


def timed(**options: Any) -> tuple[dict[str, Any], dict[str, float]]:
    """The summary of a search by inherited weights, and its time, from its folder to its end."""
    start, start_cpu = time.perf_counter(), time.process_time()
    found = autoprox.search(weights="inherited", progress=False, **options)
    return found.to_dict(), {
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - start_cpu,
    }


def inherited(save: Save) -> None:
    results: dict[str, Any] = {"space": "autoformer-supernet-ti", "random": {}}
    space, count = "autoformer-supernet-ti", 5000
    for proxy in ("l2_norm", "grad_norm", "snip", "dss++"):
        with tempfile.TemporaryDirectory() as folder:
            _, taken = timed(space=space, proxy=proxy, samples=count, runs=folder)
        results["random"][proxy] = {
            "candidates": count,
            **taken,
            "per_second": count / taken["seconds"],
            "per_processor_second": count / taken["processor_seconds"],
        }
        save(results)
    with tempfile.TemporaryDirectory() as folder:
        summary, taken = timed(space=space, proxy="dss++", strategy="blockwise", runs=folder)
    results["blockwise"] = {"proxy": "dss++", "candidates": summary["evaluations"], **taken}
    save(results)
    names = ("l2_norm", "grad_norm", "snip", "synflow", "dss++", "ntkt")
    rng = random.Random(0)
    architectures = [get_space(space).sample(rng) for _ in range(200)]
    terms = {
        weights: measured(problem_of(together(names), space=space, weights=weights), architectures)
        for weights in ("inherited", "fresh")
    }
    params = [float(get_space(space).params(a)) for a in architectures]
    results["tau"] = {
        name: {
            "inherited_fresh": float(
                kendall(*(scores_of(name, terms[weights]) for weights in terms))
            ),
            "inherited_params": float(kendall(scores_of(name, terms["inherited"]), params)),
            "fresh_params": float(kendall(scores_of(name, terms["fresh"]), params)),
        }
        for name in names
    }
    save(results)


def fresh(save: Save) -> None:
    torch.set_num_threads(1)
    results: dict[str, Any] = {"batch_size": SearchConfig(space="", proxy="").batch_size}
    for space, proxy in (
        ("autoformer-supernet-ti", "snip"),
        ("autoformer-supernet-ti", "synflow"),
        ("autoformer-supernet-s", "snip"),
        ("pit", "snip"),
        ("gpt2-hw", "snip"),
        ("bert", "snip"),
        ("autoformer-supernet-ti", "l2_norm"),
    ):
        problem = problem_of(proxy, space=space, workers=1)
        scorer, rng = problem.scorer(), random.Random(0)
        pairs = []
        for i in range(8):
            architecture = problem.space.sample(rng)
            bare = bare_pass(problem, architecture)
            start = time.process_time()
            scorer.measure([architecture], lambda outcome: None)
            seconds = time.process_time() - start
            pairs += [(seconds, bare)] if i else []  # the first warms up
        results[f"{space} {proxy}"] = {
            "networks": len(pairs),
            "seconds": median(own for own, _ in pairs),
            "bare_seconds": median(bare for _, bare in pairs),
            "ratio": median(own / bare for own, bare in pairs),
        }
        save(results)
    results["forward_passes"] = {name: forward_passes(name) for name in ("l2_norm", "snip")}
    save(results)


def bare_pass(problem: Search, architecture: Architecture) -> float:
    """Seconds of forward and backward of the built network, of the passes that a proxy needs."""
    [batch] = problem.setting.batches.values()
    network = problem.space.build(architecture, batch.classes, 0)
    probes = {s.probe for s in problem.proxy.needs if s.quantity != "weight"} or {"data"}
    start = time.process_time()
    for probe in probes:
        if probe == "ones":
            network(network.ones(batch.inputs)).sum().backward()
        else:
            cross_entropy(network(batch.inputs), batch.labels).backward()
    return time.process_time() - start


def forward_passes(name: str) -> int:
    """How many forward passes a search of 10 candidates runs."""
    problem, count = problem_of(name, space="autoformer-nano"), 0
    network = type(problem.space.network(problem.space.largest(), 1))
    forward = network.forward

    def counted(self: Any, inputs: torch.Tensor) -> torch.Tensor:
        nonlocal count
        count += 1
        return forward(self, inputs)

    network.forward = counted  # type: ignore[method-assign]
    try:
        rng = random.Random(0)
        problem.scorer().measure([problem.space.sample(rng) for _ in range(10)], lambda _: None)
    finally:
        network.forward = forward  # type: ignore[method-assign]
    return count


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
        found = perplexity(arch) if not limits.excess(limits.sizes(arch)) else math.inf
        while found < math.inf:
            near = [a for a in neighbours(arch) if not limits.excess(limits.sizes(a))]
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
    problem: Search, strategy: str, seed: int, perplexity: Callable[[Architecture], float]
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
    STRATEGIES[strategy].search(searcher, BUDGETS[strategy])
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


def regret(save: Save) -> None:
    surrogate = load_surrogate()
    results: dict[str, Any] = {"grid": GRID, "settings": {}}
    for limit in (None, ":80M"):
        limits = SizeLimits(get_space("gpt2-hw"), 1000, read_range("params", limit))
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
                save(results)
    plot(results, RUNS / "search" / "regret.png")


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


def pick(save: Save) -> None:
    names = (
        *("snip", "grad_norm", "l2_norm", "synflow", "dss", "dss++", "ntkt", "sept", "ntsr"),
        *("autoprox-a", "sum(width)"),
    )
    table = load_benchmark("vit-bench-101", space="autoformer-ti")
    problem = problem_of(together(names), space="autoformer-ti", dataset="cifar100")
    params = [problem.space.params(a, 100) for a in table.architectures]
    terms = measured(problem, table.architectures)
    results: dict[str, Any] = {"space": "autoformer-ti", "label": table.label, "datasets": {}}
    for dataset, truth in table.scores.items():
        worth = {name: float(truth[int(np.argmax(scores_of(name, terms)))]) for name in names}
        results["datasets"][dataset] = {
            "best": float(truth.max()),
            "mean": float(truth.mean()),
            "largest": float(truth[int(np.argmax(params))]),
            "picks": worth,
        }
    save(results)


PARTS: dict[str, Callable[[Save], None]] = {
    "inherited": inherited,
    "fresh": fresh,
    "regret": regret,
    "pick": pick,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--out", type=Path, default=RUNS / "measured")
    options = parser.parse_args()
    machine = {"platform": platform.platform(), "cores": os.cpu_count(), "torch": torch.__version__}

    def save(name: str, results: dict[str, Any]) -> None:
        command = f"tests/bench_search.py {name}"
        write_json(
            options.out / f"search_{name}.json", {"machine": machine, "command": command, **results}
        )

    for name in options.parts or PARTS:
        kept: dict[str, Any] = {}

        def keep(results: dict[str, Any], name: str = name, kept: dict[str, Any] = kept) -> None:
            kept.update(results)
            save(name, results)

        PARTS[name](keep)
        print(f"{name} done", file=sys.stderr, flush=True)
        json.dump({name: kept}, sys.stdout, indent=2)
        print(flush=True)


if __name__ == "__main__":
    main()
