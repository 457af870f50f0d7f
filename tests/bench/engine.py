"""Measures the engine against its targets and prints JSON: `python tests/bench/engine.py PART ...`.

Parts:

- bandwidth: elementwise-then-reduce trees against reading their inputs once at copy bandwidth
- workers: two threads against one
- candidates: seconds for a new candidate, the published way (every network built, forward and
  backward, for each candidate) against the engine's
- collection: collecting the statistics of the `data` probe against the bare passes
- final: a formula at full resolution, as an evolution measures it, against the bare passes
- evolution: the paper's whole evolution (P = 20, T = 200) on collected statistics
- command: `autoprox evolve` with an empty cache: seconds and processor time of each stage
- formulas: CPU time of an evolution on four spaces with halving, for 20,000 formulas
- terms: time of the terms of power laws on the same spaces; `--formulas` says how many

Every ratio is of two measurements of the same run. The architectures are 60 of ViT-Bench-101's
AutoFormers with its three datasets, the input is noise; bandwidth, formulas and terms read random
matrices of the same shapes. Their times are those of the CPU, the least of several, so that other
processes count little.
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
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import torch
from estimate import staged

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.evolutions import only_problem
from helpers.random_matrices import RandomMatrices
from torch.nn import functional

from autoprox.commands.evolve import EvolveTask
from autoprox.configurations.commands import EvolveConfig
from autoprox.engine.tree_compilation import matrix_reductions
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.evaluation.power_law_evaluator import PowerLawEvaluator, reseeded_indices
from autoprox.evaluation.space_problem import SpaceProblem
from autoprox.evaluation.successive_halving import SuccessiveHalving
from autoprox.evaluation.term_scores import random_terms
from autoprox.evolution import STRATEGIES, EvolutionParameters, State, evolve, make_toolbox
from autoprox.files.folder_checks import user_cache_folder
from autoprox.language import Statistic, Tree, canonical, parse_expression, statistics, tree_digest
from autoprox.parallel.worker_pool import WorkerPool
from autoprox.statistics.matrix_cache import CachedMatrices
from autoprox.statistics.matrix_sources import UncachedMatrices
from autoprox.statistics.untrained_networks import SpaceNetwork, untrained_space_networks

DATASETS = ("cifar100", "flowers", "chaoyang")
SPACES = ("autoformer", "pit", "autoformer-nano", "pit-nano")
ELEMENTWISE = (
    "sum(sum(abs(mul(all.weight, all.grad))))",
    "sum(l1_norm(sigmoid(mul(all.weight, all.grad))))",
    "sum(frobenius_norm(sub(mlp.act, mlp.act_grad)))",
    "sum(mean(tanh(square(all.grad))))",
    "sum(sum(log(sqrt(all.weight))))",
)
PUBLISHED_NETWORKS = 6  # on which the published way is timed, per dataset


def seconds(call: Callable[[], Any], repeats: int = 5) -> float:
    """The median of several timings, after a first one to warm up."""
    call()
    timings = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        timings.append(time.perf_counter() - start)
    return median(timings)


def cpu_seconds(call: Callable[[], Any], repeats: int = 7) -> float:
    """The least of several, after a first one to warm up."""
    call()
    timings = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        timings.append(time.process_time() - start)
    return min(timings)


def random_store(task: EvolveTask, needs: Iterable[Statistic]) -> RandomMatrices:
    problem = only_problem(task)
    every = problem.networks()
    chosen = [every[n] for n in problem.parts["train"]]
    return RandomMatrices(problem.setting(), chosen, needs)


def store_of(
    task: EvolveTask, folder: Path, networks: int, needs: Iterable[Statistic] = ()
) -> CachedMatrices:
    config, problem = task.config, only_problem(task)
    every = problem.networks()
    chosen = [every[n] for n in problem.parts["train"][:networks]]
    matrices = CachedMatrices(
        problem.setting(),
        chosen,
        needs or task.needs(),
        folder=folder,
        memory=config.memory,
        pool=WorkerPool(config.workers),
    )
    matrices.collect()
    return matrices


def inputs(expression: str) -> set[Statistic]:
    """The statistics that an expression reads, by single domains."""
    found: set[Statistic] = set()
    tree = canonical(parse_expression(expression))
    for parts in matrix_reductions(tree).values():
        found.update(*map(statistics, parts))
    return found


def bytes_read(store: CachedMatrices, expression: str) -> int:
    """What the inputs of an expression take, of all networks and datasets, each read once."""
    return sum(
        store.packed[statistic, datasets[0]].bytes
        for statistic in inputs(expression)
        for datasets in store.variants([statistic])
    )


def bandwidth(task: EvolveTask) -> dict[str, Any]:
    """Measure one thread against its own copy."""
    needs = {statistic for expression in ELEMENTWISE for statistic in inputs(expression)}
    store = random_store(task, needs)
    source = torch.randn(2**24)  # twice the last cache
    target = torch.empty_like(source)
    torch.set_num_threads(1)
    speed = 4 * source.numel() / cpu_seconds(lambda: target.copy_(source))
    # What an engine prepares once, for all formulas.
    overhead = cpu_seconds(lambda: TreeEvaluator(store).evaluate([parse_expression("sum(width)")]))
    rows = []
    for expression in ELEMENTWISE:
        tree = parse_expression(expression)
        taken = cpu_seconds(lambda tree=tree: TreeEvaluator(store).evaluate([tree]))
        least = bytes_read(store, expression) / speed
        rows.append(
            {
                "expression": expression,
                "cpu_seconds": taken - overhead,
                "reading_once": least,
                "ratio": (taken - overhead) / least,
            }
        )
    return {"copy_gb_per_second": speed / 1e9, "stride": task.config.stride, "trees": rows}


def workers(task: EvolveTask) -> dict[str, Any]:
    """Compare two threads with one, on an idle machine of two cores."""
    store = random_store(task, task.needs())
    rng = random.Random(2)
    trees = [task.grammar.generate(rng) for _ in range(100)]
    taken = {}
    for count in (1, 2):
        store.pool = WorkerPool(count)
        each = {
            e: seconds(lambda e=e: TreeEvaluator(store).evaluate([parse_expression(e)]))
            for e in ELEMENTWISE
        }
        taken[count] = each | {
            "100 random formulas": seconds(lambda: TreeEvaluator(store).evaluate(trees), 3)
        }
    ratios = {name: taken[1][name] / taken[2][name] for name in taken[1]}
    return {"seconds": taken, "times_faster": ratios}


def formulas(options: argparse.Namespace) -> dict[str, Any]:
    """Evolution on four spaces, whose matrices are random, as if they were collected."""
    budget = options.formulas
    task = EvolveTask(
        EvolveConfig(form="tree", spaces=SPACES, evaluations=budget, iterations=budget, workers=1)
    )
    (plan,) = task.folds
    sources = {
        name: [
            RandomMatrices(problem.setting(), [problem.networks()[n] for n in part], task.needs())
            for part in task.parts[name]
        ]
        for name, problem in task.problems.items()
    }
    count = sum(len(s.networks) * len(s.datasets) for own in sources.values() for s in own)
    for source in (s for own in sources.values() for s in own):
        _ = source.packed
    strategy, state = STRATEGIES[task.config.strategy], State(random.Random(0))
    start = time.process_time()
    evaluate = SuccessiveHalving(task.evaluators(plan, sources)).evaluate
    toolbox = make_toolbox(task.representation, evaluate, strategy, task.config)
    evolve(toolbox, strategy, task.config, state, lambda state: None)
    taken = time.process_time() - start
    return {
        "networks_and_datasets": count,
        "formulas": state.evaluations,
        "invalid": dict(state.invalid),
        "cpu_seconds": taken,
        "cpu_minutes_for_20000": taken / state.evaluations * 20_000 / 60,
    }


def terms(options: argparse.Namespace) -> dict[str, Any]:
    """Random terms of power laws, in batches as large as an iteration has children."""
    task = EvolveTask(EvolveConfig(spaces=SPACES, workers=1))
    measured = []
    for few in (False, True):
        found = []
        for problem in task.problems.values():
            part = problem.parts["train"]
            part = part[reseeded_indices(len(part), len(SPACES))] if few else part
            built = [problem.networks()[n] for n in part]
            source = RandomMatrices(problem.setting(), built, task.needs())
            source.pool = WorkerPool(options.workers)
            _ = source.packed
            found.append(problem.measured_networks([(TreeEvaluator(source), part)]))
        measured.append(found)
    networks, again = measured
    evaluator = PowerLawEvaluator(task.config, networks, again)
    drawn, batch = random_terms(task.grammar, options.formulas, 0), task.parameters.children
    start, cpu_start, usable = time.monotonic(), time.process_time(), 0
    for first in range(0, len(drawn), batch):
        usable += len(evaluator.measure(drawn[first : first + batch]).terms)
    taken, elapsed = time.process_time() - cpu_start, time.monotonic() - start
    return {
        "workers": options.workers,
        "networks": [len(own.evaluation_set.networks) for own in networks],
        "networks_measured_again": [len(own.evaluation_set.networks) for own in again],
        "terms": len(drawn),
        "usable": usable,
        "seconds": elapsed,
        "cpu_seconds": taken,
    }


def command(options: argparse.Namespace) -> dict[str, Any]:
    """The shares of the stages, with the published proxies that are compared by default."""
    given = {"space": options.space, "datasets": DATASETS, "workers": options.workers}
    found = staged({**given, "strategy": options.strategy, "stride": options.stride})
    seconds = found["measured"]
    shares = {stage: own / seconds["all"] for stage, own in seconds.items() if stage != "all"}
    return {**found, "shares": shares}


def published_way(problem: SpaceProblem) -> float:
    """Seconds for one candidate on 60 networks and 3 datasets, extrapolated from a few networks."""
    torch.set_num_threads(os.cpu_count() or 1)
    archs = [problem.benchmark.architectures[n] for n in problem.parts["train"]]

    def one_network(arch: Any) -> None:
        for batch in problem.batches.values():
            network = problem.space.build(arch, classes=batch.classes, seed=0)
            functional.cross_entropy(network(batch.inputs), batch.labels).backward()
            score = 0.0
            for _, layer in network.layers():
                assert layer.weight.grad is not None
                score += (layer.weight * layer.weight.grad).abs().sum().item()

    timings = [seconds(lambda a=a: one_network(a), 1) for a in archs[:PUBLISHED_NETWORKS]]
    return sum(timings) / len(timings) * len(archs)


def candidates(task: EvolveTask, folder: Path) -> dict[str, Any]:
    """Random new trees, in batches of ten: none has been evaluated before."""
    store = store_of(task, folder, 60)
    rng, trees = random.Random(1), dict[str, Tree]()
    while len(trees) < 500:
        tree = canonical(task.grammar.generate(rng))
        trees[tree_digest(tree)] = tree
    fresh = list(trees.values())
    engine = TreeEvaluator(store)
    start = time.perf_counter()
    for first in range(0, len(fresh), 10):
        engine.evaluate(fresh[first : first + 10])
    ours = (time.perf_counter() - start) / len(fresh)
    published = published_way(only_problem(task))
    return {
        "published_seconds": published,
        "published_measured_on": f"{PUBLISHED_NETWORKS} of 60 networks",
        "engine_seconds": ours,
        "engine_candidates": len(fresh),
        "times_faster": published / ours,
    }


def collection(task: EvolveTask) -> dict[str, Any]:
    """Collect the subsampled `data` probe of a few networks, against its bare passes."""
    problem = only_problem(task)
    needs = [s for s in task.needs() if s.probe == "data"]

    def collected(networks: Sequence[SpaceNetwork]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            CachedMatrices(problem.setting(), networks, needs, folder=Path(folder)).collect()

    return against_bare_passes(problem, collected)


def final(task: EvolveTask) -> dict[str, Any]:
    """Measure a formula at full resolution on a few networks, as at the end of an evolution."""
    problem = only_problem(task)

    def measured(networks: Sequence[SpaceNetwork]) -> None:
        source = UncachedMatrices(problem.setting(stride=1), networks)
        TreeEvaluator(source).evaluate([parse_expression(ELEMENTWISE[0])])

    return against_bare_passes(problem, measured)


def against_bare_passes(
    problem: SpaceProblem, do: Callable[[Sequence[SpaceNetwork]], None]
) -> dict[str, Any]:
    """Processor time of one thread, of a few networks on all datasets."""
    archs = [problem.benchmark.architectures[n] for n in problem.parts["train"]][:4]
    networks = untrained_space_networks(problem.space, archs)
    torch.set_num_threads(1)

    def bare() -> None:
        for arch in archs:
            network = problem.space.build(arch, classes=1, seed=0)
            for batch in problem.batches.values():
                network.reset_head(batch.classes, 0)
                functional.cross_entropy(network(batch.inputs), batch.labels).backward()

    bare_seconds, own_seconds = cpu_seconds(bare, 2), cpu_seconds(lambda: do(networks), 2)
    return {
        "networks": len(archs),
        "bare_cpu_seconds": bare_seconds,
        "cpu_seconds": own_seconds,
        "ratio": own_seconds / bare_seconds,
    }


def evolution(task: EvolveTask, folder: Path) -> dict[str, Any]:
    """Auto-Prox's settings, 20 proxies and 200 iterations, with the configured strategy."""
    store = store_of(task, folder, 60)
    state, settings = State(random.Random(0)), EvolutionParameters(population=20, iterations=200)
    start = time.perf_counter()
    (plan,), strategy = task.folds, STRATEGIES[task.config.strategy]
    (evaluator,) = task.evaluators(plan, {name: [store] for name in task.problems})
    toolbox = make_toolbox(task.representation, evaluator.evaluate, strategy, settings)
    evolve(toolbox, strategy, settings, state, lambda state: None)
    return {
        "strategy": task.config.strategy,
        "population": settings.population,
        "iterations": settings.iterations,
        "seconds": time.perf_counter() - start,
        "evaluations": state.evaluations,
        "best_jcm": state.population[0].jcm,
    }


def main() -> None:
    parts: dict[str, Callable[[EvolveTask, Path], dict[str, Any]]] = {
        "bandwidth": lambda task, folder: bandwidth(task),
        "workers": lambda task, folder: workers(task),
        "formulas": lambda task, folder: formulas(options),
        "terms": lambda task, folder: terms(options),
        "candidates": candidates,
        "collection": lambda task, folder: collection(task),
        "final": lambda task, folder: final(task),
        "evolution": evolution,
        "command": lambda task, folder: command(options),
    }
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *parts], default=[])
    parser.add_argument("--strategy", choices=list(STRATEGIES), default=EvolveConfig().strategy)
    parser.add_argument("--space", choices=("autoformer", "pit"), default="autoformer")
    parser.add_argument("--stride", type=int, help="instead of the default for the space")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--formulas", type=int, default=2_000, help="and terms, of the two parts")
    parser.add_argument("--cache", type=Path, default=user_cache_folder() / "statistics")
    options = parser.parse_args()
    config = EvolveConfig(
        form="tree",
        space=options.space,
        datasets=DATASETS,
        strategy=options.strategy,
        stride=options.stride,
        workers=options.workers,
    )
    task = EvolveTask(config)
    results = {}
    for name in options.parts or parts:
        results[name] = parts[name](task, options.cache)
        print(f"{name} done", file=sys.stderr, flush=True)
    machine = {"platform": platform.platform(), "cores": os.cpu_count(), "torch": torch.__version__}
    json.dump(
        {"machine": machine, "command": ["tests/bench/engine.py", *sys.argv[1:]], **results},
        sys.stdout,
        indent=2,
    )
    print()


if __name__ == "__main__":
    main()
