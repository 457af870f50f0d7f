"""Measures `autoprox rank` and prints JSON: `python tests/bench/rank.py [--networks N]`.

The whole zoo at once against each proxy alone, on some of ViT-Bench-101's AutoFormers with its
three datasets, and the peak resident memory of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
import time

import torch

from autoprox.commands.rank import RankTask
from autoprox.configurations.commands import RankConfig
from autoprox.evaluation.proxy_measurement import all_proxy_names
from autoprox.statistics.untrained_networks import untrained_space_networks

DATASETS = ("cifar100", "flowers", "chaoyang")


def seconds(proxies: tuple[str, ...], networks: int, workers: int) -> float:
    """Measure these proxies on the first networks, and return the time it takes."""
    config = RankConfig(proxies=proxies, space="autoformer", datasets=DATASETS, workers=workers)
    ranking = RankTask(config)
    architectures = ranking.benchmark.architectures[:networks]
    untrained = untrained_space_networks(ranking.space, architectures, config.seed)
    setting = ranking.setting(config.seed)
    start = time.perf_counter()
    ranking.proxies.measured(untrained, setting, config.seed, ranking.pool, lambda values: None)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--networks", type=int, default=4)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    seconds(("snip",), 1, options.workers)  # to warm up
    whole = seconds(all_proxy_names(), options.networks, options.workers)
    alone = {}
    for proxy in all_proxy_names():
        alone[proxy] = seconds((proxy,), options.networks, options.workers)
        print(f"{proxy} {alone[proxy]:.1f} s", file=sys.stderr, flush=True)
    slowest = max(alone, key=lambda proxy: alone[proxy])
    result = {
        "machine": {"platform": platform.platform(), "cores": os.cpu_count()},
        "torch": torch.__version__,
        "command": ["tests/bench/rank.py", *sys.argv[1:]],
        "networks": options.networks,
        "whole_zoo_seconds": whole,
        "slowest": slowest,
        "slowest_seconds": alone[slowest],
        "ratio": whole / alone[slowest],
        "alone_seconds": alone,
        "peak_resident_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    json.dump(result, sys.stdout, indent=2)
    print()


if __name__ == "__main__":
    main()
