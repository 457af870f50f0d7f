"""How well proxies rank: for the terminal, for other programs, for papers."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autoprox.report.layout import Part, interval, markdown_line, new_table, number
from autoprox.report.published import published_markdown, published_parts
from autoprox.scoring.correlations import CORRELATIONS

HEADINGS = ("proxy", "Kendall", "95 % interval", "Spearman", "Pearson", "published KT", "invalid")


def rank_report(summary: Mapping[str, Any]) -> list[Part]:
    """How well each proxy ranks, the best first, a part for each dataset."""
    rows = summary["rows"]
    shown: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "Ken-\ndall": lambda row: number(row["kendall"]),
        "std of\nseeds": lambda row: number(row["std"]["kendall"]),
        "\n95 % interval": lambda row: interval(row["interval"]["kendall"]),
        "Spear-\nman": lambda row: number(row["spearman"]),
        "Pear-\nson": lambda row: number(row["pearson"]),
        "pub-\nlished": lambda row: number(row["published"]["kendall"]),
        "left\nout": lambda row: str(row["invalid"] or ""),
    }
    if summary["seeds"] == 1:
        del shown["std of\nseeds"]
    if all(row["published"]["kendall"] is None for row in rows):
        del shown["pub-\nlished"]
    if not summary["invalid"]:
        del shown["left\nout"]
    table = new_table("\nproxy")
    table.columns[0].no_wrap, table.columns[0].max_width = True, 26
    for heading in shown:
        table.add_column(heading, justify="right", no_wrap=True)
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        table.add_row(dataset)
        for row in rows:
            if row["dataset"] == dataset:
                table.add_row(f"  {row['proxy']}", *(cell(row) for cell in shown.values()))
    reasons = [
        f"{proxy}: {count} networks left out, {reason}"
        for proxy, found in summary["invalid"].items()
        for reason, count in found.items()
    ]
    counts = (
        f"{summary['networks']} networks, seeds: {summary['seeds']}; {summary['seconds']:.0f} s"
    )
    beside = published_parts(summary["published"]) if "published" in summary else []
    return [table, *beside, "\n".join([*reasons, counts]), f"Run: {summary['run']}"]


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
        lines += [
            "",
            f"### {dataset}",
            "",
            markdown_line(HEADINGS),
            markdown_line(["---"] * len(HEADINGS)),
        ]
        for row in rows:
            if row["dataset"] == dataset:
                low, high = row["interval"]["kendall"]
                lines.append(
                    markdown_line(
                        [
                            f"`{row['proxy']}`",
                            *(_with_deviation(row, "kendall"), f"{number(low)} to {number(high)}"),
                            *(_with_deviation(row, "spearman"), _with_deviation(row, "pearson")),
                            *(number(row["published"]["kendall"]), str(row["invalid"])),
                        ]
                    )
                )
    if "published" in summary:
        lines += published_markdown(summary["published"])
    return "\n".join(lines) + "\n"


def _with_deviation(row: Mapping[str, Any], name: str) -> str:
    return f"{number(row[name])} ± {number(row['std'][name])}"
