"""What a search of architectures found."""

import textwrap
from collections.abc import Mapping
from typing import Any

from autoprox.files.sizes import short
from autoprox.report.layout import WIDTH, Part, new_table


def search_report(summary: Mapping[str, Any]) -> list[Part]:
    """The best architecture, sizes and scores of the best ones, and what was done for them."""
    value = ["value"] if summary["evaluator"] else []
    table = new_table("candidate")
    table.columns[0].justify = "right"
    for heading in ("params", "flops", "score", *value):
        table.add_column(heading, justify="right")
    for row in summary["top"]:
        sizes = (short(row[name]) for name in ("params", "flops"))
        numbers = (row[name] for name in ("score", *value))
        table.add_row(
            str(row["candidate"]), *sizes, *("-" if n is None else f"{n:.6g}" for n in numbers)
        )
    return [
        _choices(summary["best"]["arch"]),
        table,
        textwrap.fill(_counts(summary), WIDTH),
        f"Run: {summary['run']}",
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
