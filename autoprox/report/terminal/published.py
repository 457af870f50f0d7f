"""Correlations that were measured, beside those that papers report."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from autoprox.report.terminal.layout import WIDTH, Part, markdown_line, new_table, number
from autoprox.scoring.correlations import CORRELATIONS

OTHERS = ", on other networks of the space"
NONE = "No paper reports a figure for these networks."


def published_parts(compared: Mapping[str, Any]) -> list[Part]:
    """A table of both, and of which proxies there is nothing to compare."""
    rows = compared["rows"]
    if not rows:
        return [NONE]
    table = new_table("\nproxy")
    table.columns[0].no_wrap, table.columns[0].max_width = True, 24
    for name in CORRELATIONS:
        for whose in ("ours", "paper"):
            table.add_column(f"{name.capitalize()}\n{whose}", justify="right", no_wrap=True)
    for heading, own in _grouped(rows):
        table.add_section()
        table.add_row(heading)
        for row in own:
            table.add_row(f"  {row['proxy']}", *_numbers(row))
    return [table, textwrap.fill(_without(compared), WIDTH)]


def published_markdown(compared: Mapping[str, Any]) -> list[str]:
    """The same for papers."""
    headings = [f"{name}, {whose}" for name in CORRELATIONS for whose in ("ours", "paper")]
    lines = ["", "### Beside what papers report"]
    for heading, own in _grouped(compared["rows"]):
        lines += ["", heading, "", markdown_line(["proxy", *headings])]
        lines.append(markdown_line(["---"] * (1 + len(headings))))
        lines += [markdown_line([f"`{row['proxy']}`", *_numbers(row)]) for row in own]
    return [*lines, "", _without(compared) if compared["rows"] else NONE]


def _grouped(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        others = "" if row["same_networks"] else OTHERS
        groups.setdefault(f"{row['dataset']}: {row['source']}{others}", []).append(row)
    return list(groups.items())


def _numbers(row: Mapping[str, Any]) -> list[str]:
    return [
        number(row.get(name, {}).get(whose))
        for name in CORRELATIONS
        for whose in ("ours", "published")
    ]


def _without(compared: Mapping[str, Any]) -> str:
    names = ", ".join(compared["without"])
    return f"No paper reports a figure here for: {names}" if names else "All have a figure."
