"""Rankings of the zoo as one table each: `python runs/zoo_table.py RANK-RUN ... [--together]`.

Kendall's tau with ties worth nothing, mean and deviation over the seeds; and, means over the
datasets, what is left given the size, and over the pairs of networks of equal size. Together: one
table with the mean taus of every run, and those at equal size, by which it is sorted.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autoprox.report.terminal.layout import markdown_line


def table(summary: dict[str, Any]) -> list[str]:
    """The best first."""
    cells = {(row["proxy"], row["dataset"]): row for row in summary["rows"]}
    datasets = list(dict.fromkeys(dataset for _, dataset in cells))
    means = summary["means"]
    order = sorted(means, key=lambda name: -(means[name]["kendall"] or -1))
    lines = [("proxy", *datasets, "given the size", "at equal size"), ["---"] * (3 + len(datasets))]
    for name in order:
        own = [cells[name, dataset] for dataset in datasets]
        taus = [f"{row['kendall']:.3f} ± {row['std']['kendall']:.3f}" for row in own]
        sized = [means[name][figure] for figure in ("partial_tau", "near_size_tau")]
        shown = ["-" if value is None else f"{value:.3f}" for value in sized]
        lines.append((f"`{name}`", *taus, *shown))
    return [markdown_line(line) for line in lines]


def together(spaces: Sequence[str], summaries: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each proxy, the best at equal size first."""

    def figures(name: str, figure: str) -> list[float]:
        return [summary["means"][name][figure] or 0.0 for summary in summaries]

    lines = [("proxy", *spaces, *(f"{space}, equal size" for space in spaces))]
    lines.append(("---",) * len(lines[0]))
    for name in sorted(summaries[0]["means"], key=lambda own: -sum(figures(own, "near_size_tau"))):
        own = figures(name, "kendall") + figures(name, "near_size_tau")
        lines.append((f"`{name}`", *(f"{figure:.2f}" for figure in own)))
    return [markdown_line(line) for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--together", action="store_true")
    given = parser.parse_args()
    summaries = [json.loads((path / "summary.json").read_text()) for path in given.runs]
    for summary in [] if given.together else summaries:
        print(
            f"{summary['networks']} networks, {summary['seeds']} seeds, {summary['pairs']} pairs\n"
        )
        print("\n".join(table(summary)), end="\n\n")
    if given.together:
        spaces = [json.loads((path / "config.json").read_text())["space"] for path in given.runs]
        print("\n".join(together(spaces, summaries)))


if __name__ == "__main__":
    main()
