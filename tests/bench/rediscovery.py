"""How often a proxy is rediscovered, by target and seed: `python tests/bench/rediscovery.py FILE`.

Every finished job is a line of FILE and isn't run again; the table of all is printed as JSON.
Nothing is shared between jobs: each measures its own networks. The search was built with an eye on
seeds 0 to 10, so these aren't among the default ones.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import autoprox

TARGETS = ("snip", "dss++", "ntsr")


def job(target: str, seed: int, seconds: float) -> dict[str, Any]:
    """One rediscovery, in a folder of its own."""
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        found = autoprox.rediscover(
            proxy=target, seed=seed, seconds=seconds, cache=folder, runs=folder
        )
    summary = found.to_dict()
    evidence = summary["evidence"] or {}
    return {
        "target": target,
        "seed": seed,
        "limit": seconds,
        "success": summary["success"],
        "evidence": evidence.get("kind"),
        "deviation": evidence.get("deviation"),
        "cpu_seconds": round(time.process_time() - started, 1),
        **{name: summary[name] for name in ("seconds", "rounds", "evaluations", "expression")},
    }


def table(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """By target: how many succeeded, by what evidence, after how long, and every job."""
    jobs = defaultdict(list)
    for row in rows:
        jobs[row["target"]].append(row)
    return {
        target: {
            "jobs": len(own),
            "successes": sum(row["success"] for row in own),
            "evidence": dict(Counter(row["evidence"] for row in own if row["success"])),
            "limit": max(row["limit"] for row in own),
            "median_seconds": median(row["seconds"] for row in own),
            "most_seconds": max(row["seconds"] for row in own),
            "median_cpu_seconds": median(row["cpu_seconds"] for row in own),
            "most_cpu_seconds": max(row["cpu_seconds"] for row in own),
            "seeds": sorted(own, key=lambda row: row["seed"]),
        }
        for target, own in jobs.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path, help="lines of finished jobs, made or continued")
    parser.add_argument("--targets", nargs="+", default=TARGETS)
    parser.add_argument("--seeds", type=int, nargs="+", default=range(11, 21))
    parser.add_argument("--seconds", type=float, default=600.0)
    options = parser.parse_args()
    options.file.touch()
    rows = [json.loads(line) for line in options.file.read_text().splitlines()]
    done = {(row["target"], row["seed"]) for row in rows}
    for target in options.targets:
        for seed in options.seeds:
            if (target, seed) not in done:
                rows.append(job(target, seed, options.seconds))
                with options.file.open("a") as file:
                    file.write(f"{json.dumps(rows[-1])}\n")
    print(json.dumps(table(rows), indent=2))


if __name__ == "__main__":
    main()
