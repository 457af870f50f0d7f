"""What a search of architectures found."""

import textwrap
from collections.abc import Mapping
from typing import Any

from autoprox.files.human_readable import compact
from autoprox.report.terminal.layout import WIDTH, Part, new_table, number
from autoprox.report.terminal.worth import comparison_parts, near_size_parts


def search_report(summary: Mapping[str, Any]) -> list[Part]:
    """The best architecture, sizes and scores of the best ones, and what was done for them."""
    value = ["value"] if summary["evaluator"] else []
    table = new_table("candidate")
    table.columns[0].justify = "right"
    for heading in ("params", "flops", "score", *value):
        table.add_column(heading, justify="right")
    for row in summary["top"]:
        sizes = (compact(row[name]) for name in ("params", "flops"))
        numbers = (row[name] for name in ("score", *value))
        table.add_row(
            str(row["candidate"]), *sizes, *("-" if n is None else f"{n:.6g}" for n in numbers)
        )
    return [
        _choices(summary["best"]["arch"]),
        table,
        *_evaluated(summary),
        textwrap.fill(_size(summary), WIDTH),
        textwrap.fill(_counts(summary), WIDTH),
        f"Run: {summary['run']}",
    ]


def _size(summary: Mapping[str, Any]) -> str:
    """How like size the candidates' order is, and what to do about it."""
    size, largest = summary["size"], summary["size"]["largest"]
    found = [
        f"Spearman of score and parameters: {number(size['spearman'])} "
        f"({size['candidates']} candidates)."
    ]
    if size["pick_is_largest"]:
        found.append("The pick is simply the largest.")
    if size["near_largest"]:
        found.append(
            f"Of the best {size['top']}, {size['near_largest']} are within 2 % of the largest, "
            f"{compact(largest['params'])}."
        )
    if size["pick_is_largest"] and summary["objective"] == "score":
        found.append("--objective equal-size and --match-size compare at equal size.")
    return " ".join(found)


def _evaluated(summary: Mapping[str, Any]) -> list[Part]:
    """What the evaluator says of the pick, of the largest, and of the scores."""
    worth = summary.get("worth")
    if not worth:
        return []
    told = [
        f"{name} (candidate {own['candidate']}): value {own['value']:.6g}, regret "
        f"{own['regret']:.3g}"
        for name, own in (("The proxy's pick", worth["pick"]), ("The largest", worth["largest"]))
        if own
    ]
    if not worth["means"]:
        return ["\n".join(told)]
    return [
        "\n".join(told),
        *near_size_parts(worth["means"], worth["networks"], worth["pairs"]),
        *comparison_parts(worth["comparison"]),
    ]


def _choices(arch: Mapping[str, Any]) -> str:
    """A line for each choice, lists without brackets."""
    width = max(map(len, arch)) + 2
    lines = []
    for name, value in arch.items():
        text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
        lines.append(textwrap.fill(f"{name:{width}}{text}", WIDTH, subsequent_indent=width * " "))
    return "\n".join(lines)


def _counts(summary: Mapping[str, Any]) -> str:
    reasons = ", ".join(f"{count} {reason}" for reason, count in summary["failed"].items())
    failed = f"{sum(summary['failed'].values())} failed" + (f" ({reasons})" if reasons else "")
    evaluated = f", {summary['evaluated']} evaluated" if summary["evaluator"] else ""
    return f"Candidates: {summary['evaluations']}{evaluated}, {failed}; {summary['seconds']:.0f} s"
