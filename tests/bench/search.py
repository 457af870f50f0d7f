"""Measures the search against its targets: `python tests/bench/search.py PART ...`.

Parts, each printed as JSON when it is done, and written to `--out`/search_PART.json:

- inherited: AutoFormer-Ti candidates a second; seconds of a block-wise search of 8,000; Kendall's
  tau of the order by inherited weights against that by fresh ones, on 200 candidates
- fresh: processor time of a candidate over that of one bare forward and backward pass of its
  network, the median over networks; forward passes of a proxy of weights alone
- pick: of ViT-Bench-101's 100 AutoFormers, the accuracy of the one that a proxy picks

Every ratio is of two measurements of the same run, on one thread. Beside seconds there is the time
that the processor spent on the search, on all threads, whatever else ran on the machine.
"""

from __future__ import annotations

import argparse
import json
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

import numpy as np
import torch

import autoprox
from autoprox.benchmarks import load_benchmark
from autoprox.commands.search import SearchTask
from autoprox.configurations.commands import SearchConfig
from autoprox.files.atomic_writes import write_json
from autoprox.language import Tree, make_tree
from autoprox.nas.candidate_measurement import MeasurementOutcome, SearchProxy
from autoprox.scoring.correlations import kendall
from autoprox.searchspaces import Architecture, get_space
from autoprox.statistics.collector import batch_cross_entropy
from autoprox.zoo.expression_proxies import parse_with_zoo_names

RUNS = Path(__file__).parents[2] / "runs"
Save = Callable[[dict[str, Any]], None]


def machine() -> dict[str, Any]:
    return {"platform": platform.platform(), "cores": os.cpu_count(), "torch": torch.__version__}


def problem_of(proxy: str, **options: Any) -> SearchTask:
    return SearchTask(SearchConfig(proxy=proxy, **options))


def together(names: Sequence[str]) -> str:
    """One proxy that measures the terms of several in the same passes."""
    trees = [parse_with_zoo_names(name) for name in names]
    whole: Tree = make_tree("rank", make_tree("sum", make_tree("one")))
    for tree in trees:
        whole = make_tree("add", whole, make_tree("rank", tree))
    return str(whole)


def measured(problem: SearchTask, architectures: Sequence[Architecture]) -> dict[Tree, np.ndarray]:
    """[networks] of each term."""
    outcomes: list[MeasurementOutcome] = []
    problem.scorer().measure(architectures, outcomes.append)
    assert isinstance(problem.proxy, SearchProxy)
    values = np.array([o.terms or [np.nan] * len(problem.proxy.terms) for o in outcomes])
    return dict(zip(problem.proxy.terms, values.T, strict=True))


def scores_of(name: str, terms: dict[Tree, np.ndarray]) -> np.ndarray:
    proxy = SearchProxy(parse_with_zoo_names(name))
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


def bare_pass(problem: SearchTask, architecture: Architecture) -> float:
    """Seconds of forward and backward of the built network, of the passes that a proxy needs."""
    [batch] = problem.setting.batches.values()
    network = problem.space.build(architecture, batch.classes, 0)
    assert isinstance(problem.proxy, SearchProxy)
    probes = {s.probe for s in problem.proxy.needs if s.quantity != "weight"} or {"data"}
    start = time.process_time()
    for probe in probes:
        if probe == "ones":
            network(network.ones(batch.inputs)).sum().backward()
        else:
            batch_cross_entropy(network(batch.inputs), batch.labels).backward()
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
    "pick": pick,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--out", type=Path, default=RUNS / "measured")
    options = parser.parse_args()

    def save(name: str, results: dict[str, Any]) -> None:
        command = f"tests/bench/search.py {name}"
        write_json(
            options.out / f"search_{name}.json",
            {"machine": machine(), "command": command, **results},
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
