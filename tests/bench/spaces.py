"""How well a formula ranks a space that was held out: `python tests/bench/spaces.py`.

One evolution for each split and each space held out, by the defaults but for the budget; each split
is a run below --runs, and a run that was stopped goes on, a finished one is read. Prints a line in
Markdown for each held-out space, with means over the splits: tau, that of the parameter count,
their difference and in how many splits its interval lies above 0, and the same for partial tau.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from statistics import mean

from autoprox.commands.evolve import EvolutionFold, EvolveSummary
from autoprox.configurations.commands import EvolveConfig
from autoprox.configurations.shared_options import names
from autoprox.report.terminal.evolve_report import HeldOutRow, held_out_row
from autoprox.report.terminal.layout import markdown_line, number
from autoprox.runner import resume_run, start

SPACES = "autoformer,pit,autoformer-nano,pit-nano"
HEADINGS = ("held out", "tau", "params", "difference", "above 0", "partial tau", "above 0")


def folds(options: argparse.Namespace, seed: int) -> tuple[EvolutionFold, ...]:
    """Return those of a split, from its run if there is one."""
    runs = options.runs / f"split{seed}"
    if made := sorted(runs.glob("*Z-*")):
        found = resume_run(made[0], workers=options.workers)
        assert isinstance(found, EvolveSummary)
        return found.folds
    config = EvolveConfig(
        form="tree",
        spaces=names(options.spaces),
        hold_out="each",
        seed=seed,
        iterations=10**6,
        evaluations=options.evaluations,
        islands=options.islands,
        objective=options.objective,
        workers=options.workers,
        runs=runs,
    )
    summary = start(config)
    assert isinstance(summary, EvolveSummary)
    return summary.folds


def line(rows: list[HeldOutRow]) -> str:
    """Return the line of a space, of all splits."""

    def above(name: str) -> str:
        return f"{sum((getattr(row, name)[0] or 0) > 0 for row in rows)} of {len(rows)}"

    tau, params, difference, partial_tau = (
        number(mean(getattr(row, name) for row in rows))
        for name in ("tau", "params", "difference", "partial_tau")
    )
    cells = (tau, params, difference, above("interval"), partial_tau, above("partial_tau_interval"))
    return markdown_line((rows[0].held_out, *cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--spaces", default=SPACES)
    parser.add_argument("--splits", default="0,1,2,3,4")
    parser.add_argument("--evaluations", type=int, default=20_000)
    parser.add_argument("--islands", type=int, default=1)
    parser.add_argument("--objective", default="jcm")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=Path, default=Path("runs/spaces"))
    options = parser.parse_args()
    found: dict[str, list[HeldOutRow]] = {}
    for seed in map(int, options.splits.split(",")):
        for fold in folds(options, seed):
            found.setdefault(str(fold.held_out), []).append(held_out_row(fold))
        print(f"split {seed} done", file=sys.stderr, flush=True)
    print(markdown_line(HEADINGS))
    print(markdown_line(["---"] * len(HEADINGS)))
    for rows in found.values():
        print(line(rows))


if __name__ == "__main__":
    main()
