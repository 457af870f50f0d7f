"""What the reference proxies are worth on test networks: `python tests/bench_quality.py [RUN ...]`.

Reads the summaries of run folders (those in runs/reference without arguments), groups them by
space, and prints the mean test tau over the runs as JSON, or with `--markdown` as tables.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

REFERENCE = Path(__file__).parent.parent / "runs" / "reference"
Taus = dict[str, float]


def test_taus(summary: dict[str, Any]) -> dict[str, Taus]:
    """For the proxy and each baseline: test tau by dataset, and the means without and with ties."""
    tables = {"proxy": summary["test"]}
    tables |= {name: parts["test"] for name, parts in summary["baselines"].items()}
    return {
        name: {
            **{dataset: row["kendall"] for dataset, row in table.items()},
            "mean": mean(row["kendall"] for row in table.values()),
            **ties_broken(table),
        }
        for name, table in tables.items()
    }


def ties_broken(table: dict[str, Any]) -> Taus:
    """Nothing of a run of a version that didn't record it."""
    taus = [row["kendall"] for row in table.values() if "tau_b" in row]
    taus += [row["ties_broken"] for row in table.values() if "ties_broken" in row]
    return {"ties broken": mean(taus)} if taus else {}


def read(paths: list[Path]) -> dict[str, Any]:
    """By space: every run's formula and taus, and their means."""
    spaces: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for path in paths:
        config = json.loads((path / "config.json").read_text())
        summary = json.loads((path / "summary.json").read_text())
        row = {"run": path.name, "split": config["split_seed"], "taus": test_taus(summary)}
        spaces[config["space"]].append({**row, "expression": summary["expression"]})
    return {
        space: {"runs": runs, "mean": means([run["taus"] for run in runs])}
        for space, runs in spaces.items()
    }


def means(rows: list[dict[str, Taus]]) -> dict[str, Taus]:
    return {
        name: {
            column: mean(row[name][column] for row in rows)
            for column in rows[0][name]
            if all(column in row[name] for row in rows)
        }
        for name in rows[0]
    }


def markdown(results: dict[str, Any]) -> str:
    lines = []
    for space, result in results.items():
        datasets = list(result["mean"]["proxy"])
        lines += [f"### {space}: mean test tau of {len(result['runs'])} splits", ""]
        lines += [f"| scored by | {' | '.join(datasets)} |", "|---" * (len(datasets) + 1) + "|"]
        for name, taus in result["mean"].items():
            lines.append(f"| {name} | " + " | ".join(f"{taus[d]:.3f}" for d in datasets) + " |")
        lines += ["", "| split | proxy | ties broken | params | ridge | expression |"]
        lines.append("|---" * 6 + "|")
        for run in sorted(result["runs"], key=lambda run: run["split"]):
            taus = [run["taus"][name]["mean"] for name in ("proxy", "params", "ridge")]
            taus.insert(1, run["taus"]["proxy"].get("ties broken", math.nan))
            cells = " | ".join(f"{tau:.3f}" for tau in taus)
            lines.append(f"| {run['split']} | {cells} | `{run['expression']}` |")
        lines.append("")
    return "\n".join(lines)


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
