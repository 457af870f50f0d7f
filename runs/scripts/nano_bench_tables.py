"""Writes the tables of nano-bench, which the package has, from the trainings in parts/.

    python runs/scripts/nano_bench_tables.py [--seeds 2] [--parts FOLDER] [--out FOLDER]

A table has the architectures that were trained on both datasets of their space with so many
seeds, and in `training` the recipe and the reliability of the labels. Prints what the package pins.
"""

import argparse
import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

import autoprox
from autoprox.files.atomic_writes import write_json
from autoprox.scoring.true_score_reliability import true_score_reliability

FOLDER = Path(__file__).resolve().parents[1] / "nano-bench"
PACKAGED = Path(autoprox.__file__).parent / "data" / "nano-bench"
MEASURES = {"cross-entropy": "cross_entropy", "accuracy": "accuracy"}  # label -> in the parts
BYTES, IMAGE_CLASSES = 256, 10

Row = Mapping[str, Any]
Runs = dict[str, dict[str, list[float]]]  # dataset -> label -> of each seed


def read_parts(path: Path) -> list[Row]:
    """The finished trainings of a space."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def key(row: Row) -> str:
    """What tells its architecture from others."""
    return json.dumps(row["arch"], sort_keys=True)


def finished(rows: Sequence[Row], datasets: Sequence[str], seeds: int) -> dict[str, Runs]:
    """What each architecture reached that has all seeds on all datasets, by its choices."""
    found: dict[str, dict[tuple[str, int], Row]] = defaultdict(dict)
    for row in rows:
        found[key(row)][row["dataset"], row["seed"]] = row
    wanted = {(dataset, seed) for dataset in datasets for seed in range(seeds)}
    return {
        arch: {
            dataset: {
                label: [own[dataset, seed][measure] for seed in range(seeds)]
                for label, measure in MEASURES.items()
            }
            for dataset in datasets
        }
        for arch, own in found.items()
        if wanted <= own.keys()
    }


def make_table(recipe: Row, plan: Row, rows: Sequence[Row], seeds: int) -> dict[str, Any]:
    """The table of a plan's space, in the form of a table of one's own."""
    datasets = plan["datasets"]
    runs = finished(rows, datasets, seeds)
    params = {key(row): row["params"] for row in rows}
    sizes = np.array([params[arch] for arch in runs], dtype=np.float64)
    worth = {
        label: {
            d: true_score_reliability(np.array([own[d][label] for own in runs.values()]), sizes)
            for d in datasets
        }
        for label in MEASURES
    }
    classes = BYTES if plan["recipe"]["length"] else IMAGE_CLASSES
    seconds = sum(row["seconds"] for row in rows if key(row) in runs)
    return {
        "format": 1,
        "name": f"nano-bench-{plan['space']}",
        "space": plan["space"],
        "datasets": {d: {"classes": classes, "higher_is_better": False} for d in datasets},
        "training": {
            "measure": "cross-entropy",
            "seeds": seeds,
            "reliability": worth,
            "core_hours": round(seconds / 3600, 2),
            "recipe": plan["recipe"],
            "recipe_hash": plan["recipe_hash"],
            "sha256": {d: recipe["sha256"][d] for d in datasets},
            "versions": recipe["versions"],
        },
        "architectures": [
            {
                "arch": json.loads(arch),
                "scores": {d: round(fmean(own[d]["cross-entropy"]), 6) for d in datasets},
                "runs": own,
            }
            for arch, own in runs.items()
        ],
    }


def main() -> None:
    """Write the tables, and print of each its hash, its size and its reliability."""
    parser = argparse.ArgumentParser(description="Write the tables of nano-bench.")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--parts", type=Path, default=FOLDER / "parts")
    parser.add_argument("--out", type=Path, default=PACKAGED)
    options = parser.parse_args()
    recipe = json.loads((FOLDER / "recipe.json").read_text())
    options.out.mkdir(exist_ok=True)
    for plan in recipe["plans"]:
        path = options.out / f"{plan['space']}.json"
        rows = read_parts(options.parts / f"{plan['space']}.jsonl")
        table = make_table(recipe, plan, rows, options.seeds)
        write_json(path, table)
        content = path.read_bytes()
        print(path.name, hashlib.sha256(content).hexdigest(), len(content))
        print(" ", len(table["architectures"]), table["training"]["reliability"])


if __name__ == "__main__":
    main()
