"""Rankings of the zoo as one table each: `python runs/zoo_table.py RANK-RUN ...`.

Kendall's tau with ties worth nothing, mean and deviation over the seeds; and, means over the
datasets, what is left given the size, and over the pairs of networks of equal size.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from autoprox.report.layout import markdown_line


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
        sized = [means[name][figure] for figure in ("given_size", "equal_size")]
        shown = ["-" if value is None else f"{value:.3f}" for value in sized]
        lines.append((f"`{name}`", *taus, *shown))
    return [markdown_line(line) for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    for path in parser.parse_args().runs:
        summary = json.loads((path / "summary.json").read_text())
        print(
            f"{summary['networks']} networks, {summary['seeds']} seeds, {summary['pairs']} pairs\n"
        )
        print("\n".join(table(summary)), end="\n\n")


if __name__ == "__main__":
    main()
