"""How well `autoprox evolve` ranks test networks, next to the baselines, over several splits.

    python runs/scripts/evolution_splits.py --tables gpt2-nano --splits 20
    python runs/scripts/evolution_splits.py --tables autoformer-nano --splits 20 --each-dataset

Keeps the figures of each split in runs/evolution-splits/TABLE-FORM-WEIGHTS.json, and goes on where
it was stopped. With --each-dataset, a formula is evolved for each dataset alone, as the regressions
are, and the figures are means (TABLE-FORM-WEIGHTS-each.json). runs/scripts/results_pages.py makes a
page of them.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from leaderboard import TABLES
from ranked_tables import WORK, Table, figure, installed_tables, show_progress
from scipy.stats import rankdata

from autoprox.commands.evolve import EvolveSummary, EvolveTask
from autoprox.configurations.commands import EvolveConfig
from autoprox.files.atomic_writes import write_json
from autoprox.files.json_documents import read_object
from autoprox.runner import start
from autoprox.scoring.baselines import regression_features, ridge_predictions
from autoprox.scoring.correlations import kendall_unordered_ties

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "runs" / "evolution-splits"
SHOWN = ("proxy", "committee", "joint-ridge", "ridge", "gaussian-process", "predictor", "params")


def evolved(table: Table, split: int, **options: Any) -> dict[str, Any]:
    """Evolve on one split, and return the mean taus on the test part."""
    folder = WORK / f"splits-{table.name}"
    config = EvolveConfig(
        **{**table.evolve_options(), "split_seed": split, "runs": folder, **options}
    )
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


def joint_ridge(table: Table, split: int) -> float:
    """Return the mean test tau of a ridge regression that ranks alike for all datasets.

    It is fitted to the networks' mean ranks over the datasets.
    """
    config = EvolveConfig(**{**table.evolve_options(), "split_seed": split})
    [problem] = EvolveTask(config).problems.values()
    train, test = problem.parts["train"], problem.parts["test"]
    scores = problem.benchmark.scores.values()
    features = regression_features("ridge", problem.space, problem.benchmark.architectures)
    ranks = np.mean([rankdata(own[train]) for own in scores], axis=0)
    predicted = ridge_predictions(features[train], ranks, features[test])
    return fmean(kendall_unordered_ties(predicted, own[test]) for own in scores)


def evolved_for_each(table: Table, split: int, **options: Any) -> dict[str, Any]:
    """Evolve for each dataset alone, and return the means of the figures over the datasets."""
    names = table.load().datasets
    found = [evolved(table, split, **options, datasets=(name,)) for name in names]
    return {
        **{name: found[0][name] for name in ("networks", "labels")},
        "expression": {name: own["expression"] for name, own in zip(names, found, strict=True)},
        "seconds": sum(own["seconds"] for own in found),
        **{
            figures: {
                name: fmean(own[figures][name] for own in found)
                for name in found[0][figures]
                if all(own[figures][name] is not None for own in found)
            }
            for figures in ("test", "partial")
        },
    }


def run(tables: Sequence[str], splits: int, each: bool, **options: Any) -> None:
    """Evolve on the splits that are missing."""
    for table in installed_tables(TABLES, tables):
        parts = (table.name, options["form"], options["weights"], *(["each"] if each else []))
        path = RESULTS / f"{'-'.join(parts)}.json"
        known: dict[str, Any] = read_object(path) if path.exists() else {}
        for split in range(splits):
            if str(split) not in known:
                known[str(split)] = (evolved_for_each if each else evolved)(table, split, **options)
                RESULTS.mkdir(exist_ok=True)
                write_json(path, known)
            found = known[str(split)]["test"]
            if "joint-ridge" not in found and not each:
                found["joint-ridge"] = joint_ridge(table, split)
                write_json(path, known)
            print(table.name, split, {n: figure(found[n]) for n in SHOWN if n in found}, flush=True)


def main() -> None:
    """Evolve on what is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--tables", default="", help="all that are installed, if none is given")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--form", default="power-law")
    parser.add_argument("--weights", default="fresh")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--each-dataset", action="store_true", help="evolve for each one alone")
    given = parser.parse_args()
    options = {name: getattr(given, name) for name in ("form", "weights", "workers")}
    tables = [name for name in given.tables.split(",") if name]
    run(tables, given.splits, given.each_dataset, **options)


if __name__ == "__main__":
    main()
