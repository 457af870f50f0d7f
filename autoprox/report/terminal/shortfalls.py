"""What a command did less of than it was asked to."""

import textwrap
from collections.abc import Mapping
from typing import Any

from autoprox.report.terminal.layout import WIDTH, Part


def shortfall_report(summary: Mapping[str, Any]) -> list[Part]:
    """A line for each count that falls short; nothing if there is none."""
    lines = [
        textwrap.fill(
            f"{own['of']}: {own['asked']} asked for, {own['found']} {own['reason']}",
            WIDTH,
            subsequent_indent="  ",
            break_long_words=False,
        )
        for own in summary.get("shortfalls", ())
    ]
    return ["\n".join(lines)] if lines else []
