"""How well `autoprox evolve` ranks test networks, next to the baselines, over several splits.

    python runs/scripts/evolution_splits.py run --tables gpt2-nano --splits 20
    python runs/scripts/evolution_splits.py page

`run` keeps the figures of each split in runs/evolution-splits/TABLE.json and goes on where it was
stopped; `page` makes docs/results/splits.md of them.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from leaderboard import TABLES
from ranked_tables import WORK, Table, figure, show_progress

from autoprox.commands.evolve import EvolveSummary
from autoprox.configurations.commands import EvolveConfig
from autoprox.files.atomic_writes import write_json
from autoprox.files.json_documents import read_object
from autoprox.runner import start

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "runs" / "evolution-splits"
PAGE = ROOT / "docs" / "results" / "splits.md"
LARGE, SAMPLE, LABELS = 200, 320, 120  # networks of a large table: those drawn, and for training
SHOWN = ("proxy", "committee", "ridge", "gaussian-process", "params", "non-embedding")
TITLES = {
    "proxy": "power law",
    "gaussian-process": "Gaussian process",
    "params": "parameters",
    "non-embedding": "non-embedding parameters",
}


def evolved(table: Table, split: int, form: str, weights: str, workers: int) -> dict[str, Any]:
    """Evolve on one split, and return the mean taus on the test part."""
    count = len(table.load().architectures)
    options: dict[str, Any] = {**table.options(), "zoo": ("none",), "split_seed": split}
    if count >= LARGE:
        drawn = min(count, SAMPLE)
        options |= {"networks": drawn, "train": LABELS / drawn}
    folder = WORK / f"splits-{table.name}"
    config = EvolveConfig(**options, form=form, weights=weights, runs=folder, workers=workers)
    summary = start(config, show_progress)
    assert isinstance(summary, EvolveSummary)
    [quality] = summary.folds[0].spaces.values()
    shutil.rmtree(folder)
    return {
        "networks": len(quality.networks["test"].network),
        "labels": len(quality.networks["train"].network),
        "expression": summary.expression,
        "seconds": summary.seconds,
        "test": {name: own.test.kendall for name, own in quality.means.items()},
        "partial": {name: own.test.partial_tau for name, own in quality.means.items()},
        "verdicts": {name: own.kendall.verdict for name, own in quality.comparison.items()},
    }


def run(tables: Sequence[str], splits: int, form: str, weights: str, workers: int) -> None:
    """Evolve on the splits that are missing."""
    chosen = [table for table in TABLES if not tables or table.name in tables]
    for table in chosen:
        if why := table.absent():
            print(f"{table.name}: left out, since {why}")
            continue
        path = RESULTS / f"{table.name}-{form}-{weights}.json"
        known: dict[str, Any] = read_object(path) if path.exists() else {}
        for split in range(splits):
            if str(split) not in known:
                known[str(split)] = evolved(table, split, form, weights, workers)
                RESULTS.mkdir(exist_ok=True)
                write_json(path, known)
            found = known[str(split)]["test"]
            print(table.name, split, {n: figure(found[n]) for n in SHOWN if n in found}, flush=True)


def page() -> str:
    """Return the page of results."""
    lines = [
        "# Power laws and regressions from the same labels",
        "",
        "Kendall tau on test networks, ties counted as unordered: mean over splits into training",
        "and test networks, with the standard error of that mean. All methods of a row are fitted",
        "to the same training networks. *Better* and *worse* count the splits on which the power",
        "law's tau is significantly above or below that of ridge regression (paired bootstrap,",
        "95 %).",
        "",
        "| table | weights | splits | labels | "
        + " | ".join(TITLES.get(n, n) for n in SHOWN)
        + " | better / worse than ridge |",
        "|---|---|---|---|" + "---|" * (len(SHOWN) + 1),
    ]
    for table in TABLES:
        for path in sorted(RESULTS.glob(f"{table.name}-power-law-*.json")):
            splits = list(read_object(path).values())
            cells = [_cell([own["test"].get(name) for own in splits]) for name in SHOWN]
            verdicts = [own["verdicts"]["ridge"] for own in splits]
            weights = path.stem.rpartition("-")[2]
            facts = [table.title, weights, str(len(splits)), str(splits[0]["labels"]), *cells]
            counts = f"{verdicts.count('better')} / {verdicts.count('worse')}"
            lines.append(f"| {' | '.join([*facts, counts])} |")
    lines += [
        "",
        "Made by `python runs/scripts/evolution_splits.py page` from `runs/evolution-splits`.",
    ]
    return "\n".join(lines) + "\n"


def _cell(values: Sequence[float | None]) -> str:
    """Format the mean of some taus with its standard error."""
    known = np.array([value for value in values if value is not None])
    if not len(known):
        return "-"
    error = known.std(ddof=1) / len(known) ** 0.5 if len(known) > 1 else None
    return figure(known.mean()) + (f" ± {figure(error)}" if error is not None else "")


def main() -> None:
    """Run one of the modes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    modes = parser.add_subparsers(dest="mode", required=True)
    running = modes.add_parser("run")
    running.add_argument("--tables", default="")
    running.add_argument("--splits", type=int, default=10)
    running.add_argument("--form", default="power-law")
    running.add_argument("--weights", default="fresh")
    running.add_argument("--workers", type=int, default=1)
    modes.add_parser("page")
    given = parser.parse_args()
    if given.mode == "page":
        PAGE.write_text(page())
        return
    tables = [name for name in given.tables.split(",") if name]
    run(tables, given.splits, given.form, given.weights, given.workers)


if __name__ == "__main__":
    main()
