"""Which form ranks best for the objectives of `evolve`, by nested cross-validation.

    python runs/scripts/choose_form.py run [--spaces gpt2-nano] [--splits 5]
    python runs/scripts/choose_form.py page

The training part of each split becomes a table of its own, on which `autoprox evolve` is called
with each form: 70 % of it are evolved on, and the others give the figures. No label of a test part
is read. `run` adds what is missing to runs/measured/form.json; `page` prints the table of
docs/results/selection.md.
"""

from __future__ import annotations

import argparse
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from choose_power_law import CHOOSING, INNER
from ranked_tables import WORK, show_progress
from scipy.stats import ttest_1samp

from autoprox import evolve
from autoprox.benchmarks import load_benchmark
from autoprox.files.atomic_writes import write_json
from autoprox.files.json_documents import read_object
from autoprox.report.terminal.layout import markdown_line
from autoprox.scoring.bootstrap import split_networks

ROOT = Path(__file__).parents[2]
MEASURED = ROOT / "runs" / "measured" / "form.json"
TABLES = ROOT / "autoprox" / "data" / "nano-bench"
OBJECTIVES, FORMS = ("jcm", "size-adjusted", "both"), ("power-law", "tree")
FIGURES = {"kendall": "tau", "partial_tau": "partial tau"}
TRAIN = 0.6  # of a table, as in `evolve`
CONFIDENCE = 0.95


def inner_table(space: str, split: int, folder: Path) -> Path:
    """Write the training part of a split as a table."""
    whole = read_object(TABLES / f"{space}.json")
    count = len(load_benchmark("nano-bench", space=space).architectures)
    train, _ = split_networks(count, split, TRAIN)
    path = folder / f"{space}-{split}.json"
    rows = [whole["architectures"][index] for index in train]
    write_json(path, {**whole, "name": path.stem, "architectures": rows})
    return path


def measured(space: str, split: int, objective: str, form: str) -> dict[str, Any]:
    """Return the figures on what evolution didn't see of a training part."""
    folder = WORK / "forms"
    folder.mkdir(parents=True, exist_ok=True)
    found = evolve(
        benchmark=str(inner_table(space, split, folder)),
        objective=objective,
        form=form,
        train=INNER,
        split_seed=split,
        zoo=("none",),
        prior=False,
        workers=1,
        runs=folder,
        progress=show_progress,
    ).summary
    [quality] = found.folds[0].spaces.values()
    shutil.rmtree(folder)
    test = quality.means["proxy"].test
    return {name: getattr(test, name) for name in FIGURES} | {"seconds": found.seconds}


def run(spaces: list[str], splits: int) -> None:
    """Measure what is missing."""
    known: dict[str, Any] = read_object(MEASURED) if MEASURED.exists() else {}
    for split in range(splits):
        for space in spaces:
            for objective in OBJECTIVES:
                for form in FORMS:
                    key = f"{objective} {form} {space} {split}"
                    if key not in known:
                        known[key] = measured(space, split, objective, form)
                        write_json(MEASURED, known)
                        print(key, known[key], flush=True)


def page() -> Iterator[str]:
    """Yield the lines of the table: means over the complete splits, and of the differences."""
    known = read_object(MEASURED)
    found = Counter(int(key.split()[-1]) for key in known)
    splits = [split for split, count in sorted(found.items()) if count == max(found.values())]
    columns = ("objective", "figure", "space", *FORMS, "difference, 95 % interval")
    yield markdown_line(columns)
    yield markdown_line(["---"] * len(columns))
    for objective in OBJECTIVES:
        for figure, title in FIGURES.items():
            each = np.array([
                [
                    [known[f"{objective} {form} {space} {split}"][figure] for space in CHOOSING]
                    for split in splits
                ]
                for form in FORMS
            ])  # fmt: skip
            columns_of = zip((*CHOOSING, "mean"), [*each.T, each.mean(axis=2).T], strict=True)
            for space, values in columns_of:
                gains = values[:, 0] - values[:, 1]
                ends = ttest_1samp(gains, 0.0).confidence_interval(CONFIDENCE)
                means = [f"{own:.3f}" for own in values.mean(axis=0)]
                gain = f"{gains.mean():+.3f} [{ends.low:+.3f}, {ends.high:+.3f}]"
                yield markdown_line([f"`{objective}`", title, space, *means, gain])


def main() -> None:
    """Measure, or print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("action", choices=("run", "page"))
    parser.add_argument("--spaces", default=",".join(CHOOSING))
    parser.add_argument("--splits", type=int, default=5)
    given = parser.parse_args()
    spaces = given.spaces.split(",")
    if unknown := sorted(set(spaces) - set(CHOOSING)):
        raise SystemExit(f"unknown space {unknown[0]}; choose from {', '.join(CHOOSING)}")
    if given.action == "page":
        print("\n".join(page()))
    else:
        run(spaces, given.splits)


if __name__ == "__main__":
    main()
