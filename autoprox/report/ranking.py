"""The rows of a ranking as files for other programs, and for papers."""

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from autoprox.scoring.correlations import CORRELATIONS

HEADINGS = ("proxy", "Kendall", "95 % interval", "Spearman", "Pearson", "published KT", "invalid")


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line a row, with the deviation over seeds, the interval and the published figure."""
    columns = [
        f"{name}{part}"
        for name in CORRELATIONS
        for part in ("", "_std", "_low", "_high", "_published")
    ]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["proxy", "dataset", *columns, "invalid"])
    for row in rows:
        numbers = [
            number
            for name in CORRELATIONS
            for number in (
                row[name],
                row["std"][name],
                *row["interval"][name],
                row["published"][name],
            )
        ]
        writer.writerow([row["proxy"], row["dataset"], *numbers, row["invalid"]])
    return file.getvalue()


def as_markdown(summary: Mapping[str, Any]) -> str:
    """A table for each dataset, the best first."""
    rows = summary["rows"]
    lines = [f"{summary['benchmark']}; {summary['seeds']} seeds"]
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        headings = (
            "proxy",
            "Kendall",
            "95 % interval",
            "Spearman",
            "Pearson",
            "published KT",
            "invalid",
        )
        lines += ["", f"### {dataset}", "", _line(headings), _line(["---"] * len(headings))]
        for row in rows:
            if row["dataset"] == dataset:
                low, high = row["interval"]["kendall"]
                lines.append(
                    _line(
                        [
                            f"`{row['proxy']}`",
                            *(_with_deviation(row, "kendall"), f"{_text(low)} to {_text(high)}"),
                            *(_with_deviation(row, "spearman"), _with_deviation(row, "pearson")),
                            *(_text(row["published"]["kendall"]), str(row["invalid"])),
                        ]
                    )
                )
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _with_deviation(row: Mapping[str, Any], name: str) -> str:
    return f"{_text(row[name])} ± {_text(row['std'][name])}"


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
