"""Compares the estimates of evolutions with what they take: `python tests/bench/estimate.py`.

Each of the built-in benchmark spaces is evolved on with the default options and an empty cache, in
a process of its own. Printed as JSON: seconds of all stages as estimated and as measured, and the
ratio of their sums. Other processes on the machine slow down the estimate and the run, though not
by the same factor at every moment: with `--processor` both are the processor time of one worker.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

from autoprox.commands.evolve import EvolveSummary, EvolveTask
from autoprox.configurations.commands import EvolveConfig
from autoprox.runner import begin

TRAINED = ("cifar100", "flowers", "chaoyang")
SPACES: dict[str, dict[str, Any]] = {
    "autoformer-ti": {"space": "autoformer", "datasets": TRAINED},
    "pit": {"space": "pit", "datasets": TRAINED},
    "autoformer-nano": {"space": "autoformer-nano"},
    "pit-nano": {"space": "pit-nano"},
    "gpt2-nano": {"space": "gpt2-nano"},
}
STAGES = ("collect", "evolve", "measure", "zoo")


class Stages:
    """A progress function that adds up the time of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.cpu: dict[str, float] = defaultdict(float)
        self._stage, self._last = "collect", (time.monotonic(), time.process_time())

    def __call__(self, task: str, done: int, total: int, note: str) -> None:
        now = time.monotonic(), time.process_time()
        self.seconds[self._stage] += now[0] - self._last[0]
        self.cpu[self._stage] += now[1] - self._last[1]
        self._last = now
        if task in STAGES:
            self._stage = task


def staged(options: dict[str, Any]) -> dict[str, Any]:
    """An evolution with an empty cache: its estimate, and the seconds of its stages."""
    with tempfile.TemporaryDirectory() as folder:
        config = EvolveConfig(**options, cache=f"{folder}/cache", runs=f"{folder}/runs")
        (Path(folder) / "cache").mkdir()
        task = EvolveTask(config)
        started = time.monotonic()
        estimate = task.estimate()
        estimating = time.monotonic() - started
        assert estimate is not None  # on one space
        stages, started, cpu = Stages(), time.monotonic(), time.process_time()
        summary = begin(task, stages)
        assert isinstance(summary, EvolveSummary)
        stages("end", 0, 0, "")
        seconds = time.monotonic() - started
        return {
            "estimate": str(estimate),
            "estimated": {**estimate.stages, "all": estimate.seconds},
            "measured": {**stages.seconds, "all": seconds},
            "cpu": {**stages.cpu, "all": time.process_time() - cpu},
            "ratio": estimate.seconds / seconds,
            "estimating": estimating,
            "expression": summary.expression,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("spaces", nargs="*", choices=[[], *SPACES], default=[])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--processor", action="store_true", help="time of the processor")
    parser.add_argument("--alone", action="store_true", help="in this process, one space")
    given = parser.parse_args()
    if given.processor:
        given.workers = 1
        time.monotonic = time.process_time
    if given.alone:
        own = {"workers": given.workers, "iterations": given.iterations}
        json.dump(staged({**SPACES[given.spaces[0]], **own}), sys.stdout)
        return
    found = {}
    options = ["--processor"] * given.processor + [
        f"--workers={given.workers}",
        f"--iterations={given.iterations}",
    ]
    for space in given.spaces or SPACES:
        command = [sys.executable, __file__, space, "--alone", *options]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
        found[space] = json.loads(done.stdout)
        print(f"{space}: {found[space]['ratio']:.2f}", file=sys.stderr, flush=True)
    machine = platform.platform()
    json.dump({"machine": machine, "command": sys.argv, "spaces": found}, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
