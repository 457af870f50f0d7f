"""The report of a rediscovery."""

import textwrap

from autoprox.commands.rediscover import RediscoverSummary
from autoprox.report.terminal.layout import WIDTH, Part


def rediscovery_report(summary: RediscoverSummary) -> list[Part]:
    """Show the target, the formula that was found, the evidence, and the counts."""
    source = summary.target.source
    if summary.evidence:
        label, outcome = "found", f"Rediscovered {source}: {summary.evidence.statement}."
    else:
        label, outcome = (
            "best ",
            (
                f"{source} was not rediscovered. The term that correlates best with its scores "
                f"(Pearson's r {summary.correlation:.6f}):"
            ),
        )
    counts = (
        f"Formulas scored: {summary.evaluations} in {summary.rounds} rounds; "
        f"{summary.seconds:.0f} s"
    )
    return [
        textwrap.fill(outcome, WIDTH),
        summary.formula,
        f"{label}   {summary.expression}\ntarget  {summary.target.expression}",
        f"{counts}\nRun: {summary.run}",
    ]
