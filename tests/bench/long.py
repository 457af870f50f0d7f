"""Measures whether long runs stay flat: `python tests/bench/long.py [--out FILE] [--plot FILE]`.

20,000 formulas are evolved on nano-bench, and 100,000 candidates searched by slices of the
largest network of autoformer-nano, each in a process of its own. A hundred times in each, what it
holds then is noted: resident memory, open files, and the processor's seconds for each thousand
formulas or candidates since the last time. The summary compares the second tenth of a run with the
last one: the first fills caches.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from autoprox.configurations.commands import EvolveConfig, SearchConfig
from autoprox.configurations.shared_options import TaskConfig
from autoprox.runner import start

NOTES = 100
EVOLVED: dict[str, Any] = {
    "form": "tree",
    **{"datasets": ("fashion-mnist",), "batch_size": 2, "zoo": ("none",), "iterations": 10**6},
    **{"train": 0.3, "statistics": ("msa.weight", "mlp.grad")},  # so that it takes minutes
    "memory": 2**27,  # of which 16 MiB are for values of layers, soon full
}
SEARCHED: dict[str, Any] = {
    "space": "autoformer-nano",
    "dataset": "cifar10",
    "weights": "inherited",
}


class Watch:
    """A progress that prints what the process holds."""

    def __init__(self, task: str, every: int) -> None:
        self._task, self._every = task, every
        self._next, self._done, self._spent = every, 0, time.process_time()

    def __call__(self, task: str, done: int, total: int, note: str) -> None:
        if task != self._task or done < self._next:
            return
        spent = time.process_time()
        found = {
            "done": done,
            "resident_mb": resident(),
            "files": len(os.listdir("/proc/self/fd")),
            "seconds_per_thousand": 1000 * (spent - self._spent) / (done - self._done),
        }
        print(json.dumps(found), flush=True)
        self._next, self._done, self._spent = done + self._every, done, time.process_time()


def resident() -> float:
    """MB of memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def config_of(part: str, options: argparse.Namespace) -> TaskConfig:
    if part == "evolve":
        return EvolveConfig(**EVOLVED, evaluations=options.formulas, cache=options.cache)
    count = options.candidates
    strategy: dict[str, Any] = {
        "random": {"samples": count},
        "evolution": {"steps": (count - 100) // 10},
    }[options.strategy]
    return SearchConfig(**SEARCHED, proxy=options.proxy, strategy=options.strategy, **strategy)


def watched(part: str, options: argparse.Namespace) -> None:
    total = {"evolve": options.formulas, "search": options.candidates}[part]
    with tempfile.TemporaryDirectory() as folder:
        config = config_of(part, options).model_copy(update={"runs": folder})
        start(config, Watch(part, max(1, total // NOTES)))


def measured(part: str, options: argparse.Namespace) -> dict[str, Any]:
    """What a process of its own prints, until it ends or has had its minutes."""
    own = [a for a in sys.argv[1:] if a not in ("evolve", "search")]
    command = [sys.executable, __file__, part, "--here", *own]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        limit = threading.Timer(60 * options.minutes, process.terminate)
        limit.start()
        notes = [json.loads(line) for line in process.stdout or ()]
        limit.cancel()
    return {"ended": process.returncode == 0, "notes": notes, "summary": summary(notes)}


def summary(notes: list[dict[str, float]]) -> dict[str, Any]:
    """The second tenth and the last one, and what is held more for each thousand between them."""
    tenth = max(1, len(notes) // 10)
    early, late = notes[tenth : 2 * tenth], notes[-tenth:]
    found: dict[str, Any] = {}
    for name in ("resident_mb", "files", "seconds_per_thousand"):
        before, after = (fmean(note[name] for note in part) for part in (early, late))
        found[name] = {"early": round(before, 3), "late": round(after, 3)}
    between = fmean(note["done"] for note in late) - fmean(note["done"] for note in early)
    more = found["resident_mb"]["late"] - found["resident_mb"]["early"]
    found["kb_per_thousand"] = round(1e6 * more / between, 1)
    return found


def plot(results: dict[str, Any], path: Path) -> None:
    from matplotlib import pyplot

    figures = {
        "resident_mb": "resident memory (MB)",
        "files": "open files",
        "seconds_per_thousand": "processor seconds for 1,000",
    }
    parts = {"evolve": "formulas", "search": "candidates"}
    figure, axes = pyplot.subplots(len(figures), len(parts), figsize=(9, 8), squeeze=False)
    for column, (part, noun) in enumerate(parts.items()):
        notes = results.get(part, {"notes": []})["notes"]
        for row, (name, label) in enumerate(figures.items()):
            own = axes[row][column]
            own.plot([note["done"] for note in notes], [note[name] for note in notes], lw=1)
            own.set_ylim(bottom=0)
            own.set_ylabel(label)
            own.set_xlabel(noun)
    figure.tight_layout()
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[[], "evolve", "search"], default=[])
    parser.add_argument("--formulas", type=int, default=20_000)
    parser.add_argument("--candidates", type=int, default=100_000)
    parser.add_argument("--strategy", choices=("random", "evolution"), default="evolution")
    parser.add_argument("--proxy", default="snip")
    parser.add_argument("--cache", default=None)
    parser.add_argument("--minutes", type=float, default=60, help="after which a part is stopped")
    parser.add_argument("--out", type=Path, help="JSON; other parts stay in it")
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        watched(options.parts[0], options)
        return
    there = options.out is not None and options.out.exists()
    results = json.loads(options.out.read_text()) if there else {}
    results["machine"] = {"platform": platform.platform(), "torch": torch.__version__}
    for part in options.parts or ("evolve", "search"):
        results[part] = measured(part, options)
        print(part, json.dumps(results[part]["summary"]))
    if options.out is not None:
        options.out.write_text(json.dumps(results, indent=1) + "\n")
    if options.plot is not None:
        plot(results, options.plot)


if __name__ == "__main__":
    main()
