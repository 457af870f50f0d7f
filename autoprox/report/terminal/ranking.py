"""How well proxies rank: for the terminal, for other programs, for papers."""

import csv
import io
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autoprox.report.terminal.layout import (
    INTERVAL,
    WIDTH,
    Part,
    interval,
    markdown_line,
    new_table,
    number,
    room,
)
from autoprox.report.terminal.published import published_markdown, published_parts
from autoprox.report.terminal.worth import near_size_parts, regret_parts, size_parts, verdict_parts
from autoprox.scoring.correlations import CORRELATIONS
from autoprox.scoring.evaluation_set import MOSTLY_SIZE, mostly_size

HEADINGS = ("proxy", "Kendall", "95 % interval", "Spearman", "Pearson", "published KT", "invalid")
FAILED, NOT_FINITE = "network failed", "not finite"  # why networks are left out: of all, of one
UNEQUAL = "So not all proxies are compared on the same networks."
INTERVALS = {"kendall": "interval", "partial_tau": "partial_tau_interval"}


def rank_report(summary: Mapping[str, Any]) -> list[Part]:
    """How well each proxy ranks, the best first, a part for each dataset."""
    rows = summary["rows"]
    shown: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "Ken-\ndall": lambda row: number(row["kendall"]),
        "std of\nseeds": lambda row: number(row["std"]["kendall"]),
        f"\n{INTERVAL}": lambda row: interval(row["interval"]["kendall"]),
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
    table.columns[0].no_wrap, table.columns[0].max_width = True, room(shown, 26)
    for heading in shown:
        table.add_column(heading, justify="right", no_wrap=True)
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        table.add_row(dataset)
        for row in rows:
            if row["dataset"] == dataset:
                table.add_row(f"  {row['proxy']}", *(cell(row) for cell in shown.values()))
    return [
        table,
        *(published_parts(summary["published"]) if "published" in summary else ()),
        *_beside(summary),
        *_regrets(summary),
        textwrap.fill(_sentences(summary), WIDTH),
        *_evolved_on(summary),
        "\n".join([*_reasons(summary), _counts(summary)]),
        f"Run: {summary['run']}",
    ]


def _beside(summary: Mapping[str, Any]) -> list[Part]:
    """At equal size, beside the baselines, and how much of it is size."""
    own = summary["budgets"].values()
    networks = max(max(found["networks"]) for found in own)
    means = {**summary["means"], **summary["baseline_means"]}
    baselines = list(summary["baseline_means"])
    return [
        *near_size_parts(means, networks, summary["pairs"]),
        *verdict_parts(summary["comparison"], baselines),
        *size_parts(summary["size"], "proxy"),
    ]


def _regrets(summary: Mapping[str, Any]) -> list[Part]:
    by_proxy: dict[str, dict[str, Any]] = {}
    for row in summary["rows"]:
        by_proxy.setdefault(row["proxy"], {})[row["dataset"]] = row["regret"]
    for name, table in summary["baselines"].items():
        by_proxy[name] = {dataset: row["regret"] for dataset, row in table.items()}
    return regret_parts(summary["budgets"], by_proxy)


def _sentences(summary: Mapping[str, Any]) -> str:
    """Which proxies are mostly size or choices, and which one some of the networks choose."""
    found = []
    if names := [name for name, check in summary["size"].items() if mostly_size(check)]:
        found.append(f"Mostly size (a tau of {MOSTLY_SIZE:g} or more): {', '.join(names)}.")
    if names := summary["choices_alone"]:
        found.append(f"Functions of the architecture's choices alone: {', '.join(names)}.")
    chosen = summary["chosen"]
    for figure, where in (("kendall", "by tau"), ("partial_tau", "given the size")):
        if best := chosen["by"].get(figure):
            tau = f"{number(best['test'][figure])} {interval(best['test'][INTERVALS[figure]])}"
            found.append(
                f"Best {where} on {chosen['train']} of the networks: {best['proxy']}, which has "
                f"{tau} on the other {chosen['test']}."
            )
    return " ".join(found)


def _evolved_on(summary: Mapping[str, Any]) -> list[Part]:
    """A line for each proxy that was evolved on some of these networks."""
    lines = []
    for proxy, own in summary.get("evolved_on", {}).items():
        line = f"{proxy} was evolved on {own['networks']} of the {summary['networks']} networks"
        if (worth := own["on_others"]) is None:
            lines.append(f"{line}, and there are too few others for a tau.")
        else:
            tau = f"{number(worth['kendall'])} {interval(worth['interval'])}"
            lines.append(f"{line}; its Kendall tau on the other {own['others']}: {tau}.")
    return ["\n".join(lines)] if lines else []


def _reasons(summary: Mapping[str, Any]) -> list[str]:
    invalid = summary["invalid"]
    lines = [
        f"{proxy}: {count} networks left out, {reason}"
        for proxy, found in invalid.items()
        for reason, count in found.items()
    ]
    unequal = any(NOT_FINITE in found for found in invalid.values())
    return [*lines, UNEQUAL] if unequal else lines


def _counts(summary: Mapping[str, Any]) -> str:
    ties = "ties forgiven; " if summary["ties"] == "tau-b" else ""
    return (
        f"{summary['networks']} networks, seeds: {summary['seeds']}; {ties}"
        f"{summary['seconds']:.0f} s"
    )


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """One line a row, with the deviation over seeds, the interval and the published figure."""
    columns = [
        f"{name}{part}"
        for name in CORRELATIONS
        for part in ("", "_std", "_low", "_high", "_published")
    ]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    more = ("tau_b", "partial_tau", "near_size_tau")
    writer.writerow(["proxy", "dataset", *columns, *more, "invalid"])
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
        numbers += [row[name] for name in more]
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
    for own in _evolved_on(summary):
        lines += ["", str(own)]
    if "published" in summary:
        lines += published_markdown(summary["published"])
    return "\n".join(lines) + "\n"


def _with_deviation(row: Mapping[str, Any], name: str) -> str:
    return f"{number(row[name])} ± {number(row['std'][name])}"
