"""Measures the peak of resident memory and prints JSON: `python tests/bench/memory.py PART ...`.

Parts, each in a process of its own:

- idle: the program before it measures anything
- store: statistics of the 100 AutoFormers of ViT-Bench-101, and random formulas of them
- fresh: a formula of whole matrices of every kind, networks measured for it and not kept
- evolve: a whole discovery on all of them

The bound that `--memory` sets is for the matrices that stay resident; the rest of the peak is what
the program itself needs, the networks that are being measured and the values per layer.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.evolutions import only_fold, only_problem, only_quality

from autoprox.commands.evolve import EvolveSummary, EvolveTask
from autoprox.configurations.commands import EvolveConfig
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.evolution import EvolutionParameters
from autoprox.files.folder_checks import user_cache_folder
from autoprox.language import parse_expression
from autoprox.parallel.worker_pool import WorkerPool
from autoprox.runner import start
from autoprox.statistics.matrix_cache import CachedMatrices
from autoprox.statistics.matrix_sources import UncachedMatrices

EVERY_KIND = (
    "sum(sum(mul(all.weight, all.grad)))",
    "sum(nuclear_norm(mul(mlp.act, mlp.act_grad)))",
    "sum(frobenius_norm(ones.all.grad))",
    "sum(frobenius_norm(ntk.all.grad))",
)

GIB = 2**30


def idle(config: EvolveConfig, options: argparse.Namespace) -> dict[str, Any]:
    return {"networks": len(only_problem(EvolveTask(config)).benchmark.architectures)}


def store(config: EvolveConfig, options: argparse.Namespace) -> dict[str, Any]:
    task = EvolveTask(config)
    problem = only_problem(task)
    source = CachedMatrices(
        problem.setting(config.stride),
        problem.networks()[: options.networks],
        task.needs(),
        folder=Path(str(config.cache)) / "statistics",
        memory=config.memory,
        pool=WorkerPool(config.workers),
    )
    source.collect()
    collected = peak()
    rng, engine = random.Random(0), TreeEvaluator(source)
    for _ in range(0, options.trees, 10):
        engine.evaluate([task.grammar.generate(rng) for _ in range(10)])
    packed = set(source.packed.values())
    return {
        "networks": len(source.measurable),
        "trees": options.trees,
        "statistics_gib": sum(own.bytes for own in packed) / GIB,
        "resident_gib": sum(own.resident_bytes for own in packed) / GIB,
        "peak_of_collection_gib": collected,
    }


def fresh(config: EvolveConfig, options: argparse.Namespace) -> dict[str, Any]:
    problem = only_problem(EvolveTask(config))
    networks = problem.networks()[: options.networks]
    source = UncachedMatrices(problem.setting(stride=1), networks, WorkerPool(config.workers))
    TreeEvaluator(source).evaluate([parse_expression(text) for text in EVERY_KIND])
    return {"networks": len(source.measurable)}


def evolve(config: EvolveConfig, options: argparse.Namespace) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        summary = start(config.model_copy(update={"runs": folder}))
    assert isinstance(summary, EvolveSummary)
    failed = only_quality(summary).failed_networks
    return {
        "expression": summary.expression,
        "evaluations": only_fold(summary).evaluations,
        "failed_networks": failed,
    }


PARTS: dict[str, Callable[[EvolveConfig, argparse.Namespace], dict[str, Any]]] = {
    "idle": idle,
    "store": store,
    "fresh": fresh,
    "evolve": evolve,
}


def peak() -> float:
    """GiB; the maximum resident set is in KiB on Linux and in bytes on macOS."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / GIB


def measured(part: str, options: argparse.Namespace) -> dict[str, Any]:
    config = EvolveConfig(
        form="tree",
        benchmark="vit-bench-101",
        space="autoformer",
        stride=options.stride,
        memory=int(options.memory * GIB),
        workers=options.workers,
        iterations=options.iterations,
        cache=options.cache,
        device="cpu",
        statistics=options.statistics and options.statistics.split(","),
    )
    start = time.perf_counter()
    result = PARTS[part](config, options)
    return {**result, "seconds": time.perf_counter() - start, "peak_gib": peak()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--memory", type=float, default=1.0, help="GiB")
    parser.add_argument("--stride", type=int, default=EvolveConfig().stride)
    parser.add_argument("--workers", type=int, default=EvolveConfig().workers)
    parser.add_argument("--networks", type=int, default=100, help="of `store` and `fresh`")
    parser.add_argument("--trees", type=int, default=2000)
    parser.add_argument("--iterations", type=int, default=EvolutionParameters().iterations)
    parser.add_argument("--statistics", help="comma-separated; all by default")
    parser.add_argument("--cache", type=Path, default=user_cache_folder())
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(measured(options.parts[0], options)))
        return
    arguments = [sys.executable, __file__, "--here", *sys.argv[1:]]
    results = {}
    for part in options.parts or PARTS:
        command = [a for a in arguments if a not in PARTS] + [part]
        results[part] = json.loads(subprocess.run(command, stdout=-1, check=True).stdout)
    machine = {"platform": platform.platform(), "torch": torch.__version__}
    json.dump({"machine": machine, "command": sys.argv[1:], **results}, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
