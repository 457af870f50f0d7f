"""Measures what a cluster costs and brings: `python tests/bench/scale.py [--out FILE]`.

A scheduler and 1, 2 and 4 workers of a thread each are started on this machine. A ranking, a search
with fresh weights and the collection of an evolution are done by each of them, and here without
them; every time is a ratio to that of this machine's one thread, from the same process. What is
sent is counted as pickled bytes: of the arguments that all calls share, of a call, and of its
result. At the end, how many calls a second the client and its scheduler carry where a call is
nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import platform
import random
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import cloudpickle
import torch
from distributed import LocalCluster

from autoprox.commands.evolve import EvolveTask
from autoprox.commands.rank import RankTask
from autoprox.commands.search import SearchTask
from autoprox.configurations.commands import EvolveConfig, RankConfig, SearchConfig
from autoprox.evaluation.proxy_measurement import MeasuredProxies
from autoprox.nas.candidate_measurement import OwnWeightScorer
from autoprox.parallel.worker_pool import WorkerPool
from autoprox.searchspaces import get_space
from autoprox.searchspaces.architecture_sampler import ArchitectureSampler
from autoprox.searchspaces.size_limits import SizeLimits
from autoprox.statistics.matrix_cache import _write_measured

Part = tuple[Callable[..., Any], tuple[Any, ...], list[Any]]  # function, what is shared, items


def rank(options: argparse.Namespace) -> Part:
    """Some of the zoo on AutoFormers of a benchmark."""
    task = RankTask(RankConfig(proxies=options.proxies.split(","), space=options.space))
    (problem,) = EvolveTask(EvolveConfig(space=options.space)).problems.values()
    networks = problem.networks()[: options.networks]
    return MeasuredProxies.of_network, (task.proxies, task.setting(0), 0), networks


def search(options: argparse.Namespace) -> Part:
    """Candidates of a space, each with its own weights."""
    config = SearchConfig(space=options.search, dataset="cifar10", proxy="snip")
    scorer = SearchTask(config).scorer()
    space = get_space(options.search)
    archs = ArchitectureSampler(SizeLimits(space, 10)).sample(options.networks, random.Random(0))
    return OwnWeightScorer.outcome, (scorer,), archs


def collect(options: argparse.Namespace) -> Part:
    """The statistics of the same networks, as evolution reads them, brought back as files."""
    task = EvolveTask(EvolveConfig(space=options.space))
    (problem,) = task.problems.values()
    networks = problem.networks()[: options.networks]
    datasets = list(problem.batches)
    names = {d: {s: f"{d}-{s}" for s in task.needs()} for d in datasets[:1]}
    return _write_measured, (problem.setting(), []), [(network, names) for network in networks]


def itself(item: int) -> int:
    return item


PARTS = {"rank": rank, "search": search, "collect": collect}


def sent(part: Part) -> dict[str, Any]:
    """Bytes, as they are pickled."""
    function, shared, items = part
    results = [function(*shared, item) for item in items[:3]]
    return {
        "shared_bytes": len(cloudpickle.dumps((function, shared))),
        "call_bytes": round(fmean(len(cloudpickle.dumps(item)) for item in items)),
        "result_bytes": round(fmean(len(pickle.dumps(result)) for result in results)),
    }


def seconds(pool: WorkerPool, part: Part) -> float:
    function, shared, items = part
    pool.each(function, items[: pool.size], lambda result: None, *shared)  # to warm up
    started = time.perf_counter()
    pool.each(function, items, lambda result: None, *shared)
    return time.perf_counter() - started


def spread(workers: int, parts: Mapping[str, Part]) -> dict[str, float]:
    """Seconds of each part on a cluster of so many workers."""
    with (
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            host="127.0.0.1",
        ) as here,
        WorkerPool(scheduler=here.scheduler_address) as pool,
    ):
        return {name: seconds(pool, part) for name, part in parts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--networks", type=int, default=24)
    parser.add_argument("--space", default="autoformer-nano")
    parser.add_argument("--search", default="autoformer-nano")
    parser.add_argument("--proxies", default="snip,dss++,naswot,zico")
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    counts = [int(count) for count in options.workers.split(",")]
    results: dict[str, Any] = {
        "machine": {
            "platform": platform.platform(),
            "cores": os.cpu_count(),
            "load": os.getloadavg()[0],
            "torch": torch.__version__,
        },
        "networks": options.networks,
    }
    out = options.out and options.out.absolute()
    os.chdir(tempfile.mkdtemp())
    parts = {name: PARTS[name](options) for name in options.parts or PARTS}
    nothing: Part = (itself, (), list(range(options.calls)))
    alone = {name: seconds(WorkerPool(1), part) for name, part in parts.items()}
    taken = {n: spread(n, {**parts, "nothing": nothing}) for n in counts}
    for name, part in parts.items():
        each = {"seconds_for_each": alone[name] / options.networks, **sent(part)}
        each["speedup"] = {n: round(alone[name] / own[name], 2) for n, own in taken.items()}
        results[name] = each
    results["calls_per_second"] = {n: options.calls / own["nothing"] for n, own in taken.items()}
    results["machine"]["load_at_the_end"] = os.getloadavg()[0]
    print(json.dumps(results, indent=1))
    if out is not None:
        out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
