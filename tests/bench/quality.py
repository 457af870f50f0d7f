"""What the reference proxies are worth on test networks: `python tests/bench/quality.py [RUN ...]`.

Reads the summaries of runs of `autoprox evolve` (those in runs/reference without arguments), groups
them by space and prints the means over the runs as JSON, or with `--markdown` as tables. Ties are
worth nothing. *Best of the zoo* is the published proxy that was best on the training part of each
split, by the tau or by the partial one. Regret is the mean over five budgets and the datasets of
what a pick loses, in the datasets' units.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

REFERENCE = Path(__file__).parents[2] / "runs" / "reference"
FIGURES = {"kendall": "tau", "partial_tau": "given the size", "near_size_tau": "at equal size"}
FIXED = ("proxy", "params", "flops", "ridge")
BEST = "best of the zoo"
Row = dict[str, float | None]


def figures(summary: dict[str, Any], name: str) -> Row:
    """Those of a proxy or baseline on the test part, means over the datasets."""
    own = summary["means"][name]["test"]
    table = summary["test"] if name == "proxy" else summary["baselines"][name]["test"]
    losses = [loss for row in table.values() for loss in row["regret"]]
    return {**{f: own[f] for f in FIGURES}, "regret": None if None in losses else mean(losses)}


def best_of_zoo(summary: dict[str, Any]) -> Row:
    """By each figure that of the proxy that was best by it in training; its tau else."""
    best = summary["zoo"]["best"]
    rows = {figure: figures(summary, name) for figure, name in best.items()}
    at_size = rows["partial_tau"]
    return {
        **rows["kendall"],
        "partial_tau": at_size["partial_tau"],
        "near_size_tau": at_size["near_size_tau"],
    }


def read(paths: list[Path]) -> dict[str, Any]:
    """By space: every run's formula and figures, and their means."""
    spaces: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in paths:
        config = json.loads((path / "config.json").read_text())
        summary = json.loads((path / "summary.json").read_text())
        rows = {name: figures(summary, name) for name in FIXED}
        if summary["zoo"]["best"]:
            rows[BEST] = best_of_zoo(summary)
        verdicts = {
            name: {figure: own[figure]["verdict"] for figure in FIGURES}
            for name, own in summary["comparison"].items()
        }
        facts = {"run": path.name, "split": config["split_seed"], "seconds": summary["seconds"]}
        facts |= {"tau_with_params": summary["size"]["test"]["params"]}
        facts |= {"seed_share": summary["seed_share"], "expression": summary["expression"]}
        spaces[config["space"]].append({**facts, "rows": rows, "verdicts": verdicts})
    return {
        space: {
            "runs": sorted(runs, key=lambda run: run["split"]),
            "mean": means([run["rows"] for run in runs]),
        }
        for space, runs in sorted(spaces.items())
    }


def means(tables: list[dict[str, Row]]) -> dict[str, Row]:
    """Of each figure, where every run has it."""
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
        lines += [f"| scored by | {' | '.join(FIGURES.values())} | regret |", "|---" * 5 + "|"]
        for name, row in result["mean"].items():
            lines.append(f"| {name} | " + " | ".join(map(_cell, row.values())) + " |")
        lines += [
            "",
            "| split | proxy | params | ridge | given the size | tau with params | formula |",
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
