"""Measures work on the AutoFormers of ood-vit-nas: `python tests/bench/large_table.py PART ...`.

Parts, whose figures are added to runs/measured/large_table.json:

- passes: processor time of one thread that measures all 1,001 Tiny networks, the statistics of the
  passes of data, against the bare passes; network by network, each of both first by turns
- evolve: time and peak of resident memory of an evolution with 5,000 formulas on 600 of them, which
  streams the statistics, subsamples matrices and halves the networks; nothing is in its cache
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.evolutions import only_fold, only_problem

from autoprox.commands.evolve import EvolveSummary, EvolveTask
from autoprox.configurations.commands import EvolveConfig
from autoprox.files.atomic_writes import write_json
from autoprox.files.json_documents import read_object
from autoprox.runner import start
from autoprox.statistics.matrix_cache import CachedMatrices
from autoprox.statistics.untrained_networks import untrained_space_networks

MEASURED = Path(__file__).parents[2] / "runs" / "measured" / "large_table.json"
TABLE: dict[str, Any] = {"benchmark": "ood-vit-nas", "space": "autoformer-supernet-ti"}
NETWORKS, TRAIN, EVALUATIONS, CHILDREN = 1000, 0.6, 5000, 175
GIB = 2**30
MEMORY = 2 * GIB  # for statistics


def passes(count: int) -> dict[str, Any]:
    """Measure the networks one by one."""
    torch.set_num_threads(1)
    task = EvolveTask(EvolveConfig(**TABLE, device="cpu", workers=1))
    problem = only_problem(task)
    needs = [own for own in task.needs() if own.probe == "data"]
    archs = problem.benchmark.architectures[:count]
    networks = untrained_space_networks(problem.space, archs)
    spent = {"bare": 0.0, "measured": 0.0}
    [batch] = problem.batches.values()

    def bare(index: int) -> None:
        network = problem.space.build(archs[index], batch.classes, seed=0)
        functional.cross_entropy(network(batch.inputs), batch.labels).backward()

    def measured(index: int) -> None:
        with tempfile.TemporaryDirectory() as folder:
            own = [networks[index]]
            CachedMatrices(problem.setting(), own, needs, folder=Path(folder)).collect()

    both: Sequence[tuple[str, Callable[[int], None]]] = (("bare", bare), ("measured", measured))
    for index in (0, *range(len(archs))):
        for name, call in both[:: 1 if index % 2 else -1]:
            begin = time.process_time()
            call(index)
            spent[name] += time.process_time() - begin
            if not spent.get("warm"):
                spent[name] = 0.0
        spent["warm"] = 1.0
        if index % 100 == 0:
            print(f"{index} of {len(archs)}", file=sys.stderr, flush=True)
    del spent["warm"]
    return {
        "networks": len(archs),
        **{f"{name}_cpu_seconds": own for name, own in spent.items()},
        "ratio": spent["measured"] / spent["bare"],
    }


def evolve() -> dict[str, Any]:
    """Evolve with an empty cache."""
    with tempfile.TemporaryDirectory() as folder:
        config = EvolveConfig(
            **TABLE,
            networks=NETWORKS,
            train=TRAIN,
            zoo=("none",),
            form="tree",
            halving=True,
            children=CHILDREN,
            population=EVALUATIONS - 20 * CHILDREN,
            iterations=20,
            evaluations=EVALUATIONS,
            cache=Path(folder) / "cache",
            runs=Path(folder),
            memory=MEMORY,
            device="cpu",
            workers=2,
        )
        task = EvolveTask(config)
        begin = time.perf_counter()
        ends: dict[str, float] = {}

        def progress(stage: str, done: int, total: int, note: str) -> None:
            ends[stage] = time.perf_counter() - begin
            show(stage, done, total, note)

        summary = start(config, progress)
        assert isinstance(summary, EvolveSummary)
        fold = only_fold(summary)
        [quality] = fold.spaces.values()
    return {
        "training_networks": len(quality.networks["train"].network),
        "statistics": len(task.needs()),
        "stride": config.stride,
        "evaluations": fold.evaluations,
        "collecting_seconds": ends["collect"],
        "evolving_seconds": ends["evolve"] - ends["collect"],
        "expression": summary.expression,
        "test_tau": quality.means["proxy"].test.kendall,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / GIB,
    }


def show(stage: str, done: int, total: int, note: str) -> None:
    if not done % max(total // 20, 1):
        print(stage, done, total, f"{time.perf_counter():.0f}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=("passes", "evolve"))
    parser.add_argument("--networks", type=int, default=1001, help="of `passes`, the first ones")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        print(json.dumps(passes(options.networks) if "passes" in options.parts else evolve()))
        return
    for part in options.parts:
        command = [sys.executable, __file__, "--here", part, "--networks", str(options.networks)]
        found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        machine = {"platform": platform.platform(), "torch": torch.__version__}
        known = read_object(MEASURED) if MEASURED.exists() else {}
        write_json(MEASURED, {**known, "machine": machine, part: found})
        print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
