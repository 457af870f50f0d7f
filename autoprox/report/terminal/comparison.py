"""Discoveries beside each other."""

from collections.abc import Mapping
from typing import Any

from autoprox.report.terminal.layout import Part, number
from autoprox.report.terminal.ranking import rank_report
from autoprox.report.terminal.worth import named_table


def compare_report(summary: Mapping[str, Any]) -> list[Part]:
    """What each proxy is worth on networks that no run has seen, and how alike they are."""
    between = summary["between"]
    places = {name: str(place) for place, name in enumerate(between, start=1)}
    table = named_table("tau with", *places.values())
    for name, taus in between.items():
        table.add_row(f"{places[name]} {name}", *map(number, taus.values()))
    head = f"On the {summary['networks']} networks that no run was evolved on"
    *parts, end = rank_report(summary)
    return [head, *parts, "Kendall's tau-b of the scores with each other's", table, end]
