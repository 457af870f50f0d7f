"""Rankings of the zoo as a table each: `python runs/scripts/zoo_tables.py RUN ... [--together]`.

A RUN is one of `autoprox rank`. A table has the Kendall tau, with ties counted as unordered, by
dataset with the standard deviation over the seeds, and the means of the partial tau and of the
near-size tau over the datasets. Together: one table with the mean taus and near-size taus of every
run, sorted by the latter.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import autoprox
from autoprox.commands.rank import RankSummary
from autoprox.loaded_runs import RankResult
from autoprox.report.terminal.layout import markdown_line


def table(summary: RankSummary) -> list[str]:
    """Return a line for each proxy, the best first."""
    cells = {(row.proxy, row.dataset): row for row in summary.rows}
    datasets = list(dict.fromkeys(dataset for _, dataset in cells))
    means = summary.means
    order = sorted(means, key=lambda name: -(means[name].kendall or -1))
    lines: list[Sequence[str]] = [("proxy", *datasets, "partial tau", "near-size tau")]
    lines.append(["---"] * (3 + len(datasets)))
    for name in order:
        own = [cells[name, dataset] for dataset in datasets]
        taus = [f"{row.kendall:.3f} ± {row.std.kendall:.3f}" for row in own]
        sized = [means[name].partial_tau, means[name].near_size_tau]
        shown = ["-" if value is None else f"{value:.3f}" for value in sized]
        lines.append((f"`{name}`", *taus, *shown))
    return [markdown_line(line) for line in lines]


def together(spaces: Sequence[str], summaries: Sequence[RankSummary]) -> list[str]:
    """Return a line for each proxy, that of the highest near-size taus first."""

    def figures(name: str, figure: str) -> list[float]:
        return [getattr(summary.means[name], figure) or 0.0 for summary in summaries]

    lines = [("proxy", *spaces, *(f"{space}, near-size" for space in spaces))]
    lines.append(("---",) * len(lines[0]))
    for name in sorted(summaries[0].means, key=lambda own: -sum(figures(own, "near_size_tau"))):
        own = figures(name, "kendall") + figures(name, "near_size_tau")
        lines.append((f"`{name}`", *(f"{figure:.2f}" for figure in own)))
    return [markdown_line(line) for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--together", action="store_true")
    given = parser.parse_args()
    runs = [run for run in map(autoprox.load_run, given.runs) if isinstance(run, RankResult)]
    summaries = [run.summary for run in runs]
    for summary in [] if given.together else summaries:
        print(f"{summary.networks} networks, {summary.seeds} seeds, {summary.pairs} pairs\n")
        print("\n".join(table(summary)), end="\n\n")
    if given.together:
        print("\n".join(together([run.config["space"] for run in runs], summaries)))


if __name__ == "__main__":
    main()
