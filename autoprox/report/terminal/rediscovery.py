"""What a rediscovery found, and why it is that."""

import textwrap
from collections.abc import Mapping
from typing import Any

from autoprox.report.terminal.layout import WIDTH, Part


def rediscovery_report(summary: Mapping[str, Any]) -> list[Part]:
    """What was looked for, what was found, why it is that, and what was done for it."""
    target = summary["target"]
    if summary["success"]:
        outcome = f"Rediscovered {target['source']}: {summary['evidence']['statement']}."
    else:
        outcome = (
            f"{target['source']} was not rediscovered. The term that correlates best with its "
            f"scores (Pearson's r {summary['correlation']:.6f}):"
        )
    label = "found" if summary["success"] else "best "
    counts = (
        f"Formulas scored: {summary['evaluations']} in {summary['rounds']} rounds; "
        f"{summary['seconds']:.0f} s"
    )
    return [
        textwrap.fill(outcome, WIDTH),
        summary["formula"],
        f"{label}   {summary['expression']}\ntarget  {target['expression']}",
        f"{counts}\nRun: {summary['run']}",
    ]
