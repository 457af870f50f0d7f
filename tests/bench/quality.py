"""How well the reference proxies rank test networks: `python tests/bench/quality.py [RUN ...]`.

Reads runs of `autoprox evolve` on one space (those in runs/reference without arguments), groups
them by space and prints the means over the runs as JSON, or with `--markdown` as tables. Ties are
counted as unordered. *Best of the zoo* is the published proxy that was best on the training part of
each split, by tau or by partial tau. The regret is the mean over five budgets and the datasets, in
the datasets' units.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

import autoprox
from autoprox.evaluation.full_resolution_choice import RankingQuality
from autoprox.loaded_runs import EvolveResult

REFERENCE = Path(__file__).parents[2] / "runs" / "reference"
METRICS = {"kendall": "tau", "partial_tau": "partial tau", "near_size_tau": "near-size tau"}
FIXED = ("proxy", "params", "flops", "ridge")
BEST = "best of the zoo"
Row = dict[str, float | None]


def metrics(quality: RankingQuality, name: str) -> Row:
    """Return those of a proxy or baseline on the test part, means over the datasets."""
    own = quality.means[name].test
    losses = [loss for row in quality.tables[name].test.values() for loss in row.regret]
    known = [loss for loss in losses if loss is not None]
    regret = mean(known) if len(known) == len(losses) else None
    return {**{metric: getattr(own, metric) for metric in METRICS}, "regret": regret}


def best_of_zoo(quality: RankingQuality) -> Row:
    """Return the taus of the proxy that is best by tau, the others of that by partial tau."""
    rows = {metric: metrics(quality, name) for metric, name in quality.zoo.best.items()}
    by_partial_tau = rows["partial_tau"]
    return {
        **rows["kendall"],
        "partial_tau": by_partial_tau["partial_tau"],
        "near_size_tau": by_partial_tau["near_size_tau"],
    }


def read(paths: list[Path]) -> dict[str, Any]:
    """Return every run's formula and metrics, and their means, by space."""
    spaces: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in paths:
        run = autoprox.load_run(path)
        if not isinstance(run, EvolveResult):
            raise SystemExit(f"{path} must be a run of evolve")
        [quality] = run.summary.folds[0].spaces.values()
        rows = {name: metrics(quality, name) for name in FIXED}
        if quality.zoo.best:
            rows[BEST] = best_of_zoo(quality)
        verdicts = {
            name: {metric: getattr(own, metric).verdict for metric in METRICS}
            for name, own in quality.comparison.items()
        }
        facts = {"run": path.name, "split": run.config["split_seed"], "seconds": run.seconds}
        facts |= {"tau_with_params": quality.size["test"].params}
        facts |= {"seed_share": quality.seed_share, "expression": run.expression}
        spaces[run.config["space"]].append({**facts, "rows": rows, "verdicts": verdicts})
    return {
        space: {
            "runs": sorted(runs, key=lambda run: run["split"]),
            "mean": means([run["rows"] for run in runs]),
        }
        for space, runs in sorted(spaces.items())
    }


def means(tables: list[dict[str, Row]]) -> dict[str, Row]:
    """Return the mean of each metric that every run has."""
    found: dict[str, Row] = {}
    for name in tables[0]:
        found[name] = {}
        for figure in tables[0][name]:
            values = [table[name][figure] for table in tables if name in table]
            known = [value for value in values if value is not None]
            found[name][figure] = mean(known) if len(known) == len(tables) else None
    return found


def markdown(results: dict[str, Any]) -> str:
    lines = []
    for space, result in results.items():
        count = len(result["runs"])
        lines += [
            f"### {space}: test networks, {f'mean of {count} splits' if count > 1 else '1 split'}",
            "",
        ]
        lines += [f"| scored by | {' | '.join(METRICS.values())} | regret |", "|---" * 5 + "|"]
        for name, row in result["mean"].items():
            lines.append(f"| {name} | " + " | ".join(map(_cell, row.values())) + " |")
        lines += [
            "",
            "| split | proxy | params | ridge | partial tau | tau with params | formula |",
        ]
        lines.append("|---" * 7 + "|")
        for run in result["runs"]:
            taus = [run["rows"][name]["kendall"] for name in ("proxy", "params", "ridge")]
            cells = [*taus, run["rows"]["proxy"]["partial_tau"], run["tau_with_params"]]
            shown = " | ".join(map(_cell, cells))
            lines.append(f"| {run['split']} | {shown} | `{run['expression']}` |")
        lines.append("")
    return "\n".join(lines)


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="*", type=Path)
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    runs = options.runs or sorted(p.parent for p in REFERENCE.glob("*/summary.json"))
    results = read(runs)
    print(markdown(results) if options.markdown else json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
