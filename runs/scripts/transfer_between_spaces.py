"""How proxies that were found on one search space rank the networks of the others.

    python runs/scripts/transfer_between_spaces.py PROXY ... [--seed 0] [--workers 2] [--json FILE]

A PROXY is a run, a published name or an expression. Each is measured at full resolution on the test
part of every benchmark, by the split of its own run, so that it wasn't chosen by any of these
networks. Weights and noise are those of --seed. Prints the mean Kendall tau over the datasets as a
table in Markdown. FILE gets all metrics by space and dataset; if it has those of the same proxies,
they aren't measured again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from autoprox.commands.evolve import EvolveTask
from autoprox.configurations.commands import EvolveConfig
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.files.atomic_writes import to_json, write_json
from autoprox.language import Tree, require_complete_proxy
from autoprox.parallel.worker_pool import WorkerPool
from autoprox.runs.folder import Run
from autoprox.scoring.baselines import baselines
from autoprox.scoring.bootstrap import split_networks
from autoprox.scoring.correlations import Floats
from autoprox.scoring.evaluation_set import EvaluationSet
from autoprox.statistics.matrix_sources import UncachedMatrices
from autoprox.zoo.proxy_loading import resolve_proxy

SPACES = ("autoformer-nano", "pit-nano", "autoformer-ti", "pit")
BASELINES = {"params": "parameter count", "ridge": "ridge regression on 60 %"}


class Proxy(NamedTuple):
    """A proxy, the space that it was found on, and the split whose test part it is measured on."""

    name: str
    tree: Tree
    space: str
    split: tuple[int, float]  # seed, training part


def read_proxy(source: str, seed: int) -> Proxy:
    """Return the proxy that a word of the command line means."""
    loaded, path = resolve_proxy(source), Path(source)
    tree = require_complete_proxy(loaded.tree)
    if path.is_dir():
        config = Run.open(path).read_config()
        division = config["split_seed"], config["train"]
        return Proxy(path.resolve().name, tree, config["space"], division)
    if loaded.found:
        raise SystemExit(f"{source} doesn't say which split it was found on: give its run")
    return Proxy(source, tree, "-", (seed, EvolveConfig().train))


def measure(
    space: str, proxies: Sequence[Proxy], seed: int, workers: int
) -> dict[str, list[dict[str, Any]]]:
    """Return the metrics of each proxy by dataset, and of each baseline on the same splits."""
    [problem] = EvolveTask(EvolveConfig(space=space, seed=seed, workers=workers)).problems.values()
    benchmark = problem.benchmark
    source = UncachedMatrices(problem.setting(stride=1), problem.networks(), WorkerPool(workers))
    engine = TreeEvaluator(source)
    engine.evaluate([proxy.tree for proxy in proxies])
    found: dict[str, list[dict[str, Any]]] = {"proxies": []}
    splits: dict[tuple[int, float], None] = {}
    for proxy in proxies:
        parts = split_networks(len(benchmark.architectures), *proxy.split)
        train, test = ([n for n in part if n not in source.failures] for part in parts)
        networks = EvaluationSet(benchmark, test, seed)

        def rows(
            scores: Mapping[str, Floats], networks: EvaluationSet = networks
        ) -> dict[str, Any]:
            return {
                dataset: networks.metrics(own, dataset).summary().model_dump(mode="json")
                for dataset, own in scores.items()
            }

        values = engine.evaluate([proxy.tree], test).values[0]
        found["proxies"].append(rows(dict(zip(benchmark.scores, values, strict=True))))
        if proxy.split not in splits:
            splits[proxy.split] = None
            simple = baselines(benchmark, train)
            for name in BASELINES:
                scores = {dataset: own[test] for dataset, own in simple[name].items()}
                found.setdefault(name, []).append(rows(scores))
    return found


def mean_tau(rows: Mapping[str, Any]) -> float:
    return fmean(row["kendall"] for row in rows.values())


def markdown(proxies: Sequence[Proxy], results: dict[str, Any]) -> str:
    """Return a row for each proxy, the mean of those of a space, and the baselines."""
    rows = [["found on", "proxy", *SPACES], ["---"] * (2 + len(SPACES))]
    means = {space: [mean_tau(rows) for rows in results[space]["proxies"]] for space in SPACES}
    for origin in dict.fromkeys(proxy.space for proxy in proxies):
        own = [i for i, proxy in enumerate(proxies) if proxy.space == origin]
        rows += [[origin, proxies[i].name, *(_cell([means[s][i]]) for s in SPACES)] for i in own]
        if origin in SPACES and len(own) > 1:
            mean = (_cell([means[space][i] for i in own]) for space in SPACES)
            rows.append([origin, f"mean of {len(own)}", *mean])
    for name, words in BASELINES.items():
        tables = (results[space][name] for space in SPACES)
        rows.append(["", words, *(_cell([mean_tau(rows) for rows in own]) for own in tables)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cell(taus: Sequence[float]) -> str:
    return f"{fmean(taus):.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("proxies", nargs="+", metavar="PROXY")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    proxies = [read_proxy(source, given.seed) for source in given.proxies]
    origins = to_json([{**proxy._asdict(), "tree": str(proxy.tree)} for proxy in proxies])
    known = json.loads(given.json.read_text()) if given.json and given.json.exists() else {}
    results = known["test"] if to_json(known.get("proxies")) == origins else {}
    for space in SPACES:
        if space not in results:
            print(f"measuring on {space}", file=sys.stderr)
            results[space] = measure(space, proxies, given.seed, given.workers)
            if given.json:
                write_json(given.json, {"proxies": json.loads(origins), "test": results})
    print(markdown(proxies, results))


if __name__ == "__main__":
    main()
