"""The report of curve: the mean tau of each method by the number of labels."""

from autoprox.commands.curve import CurveRow, CurveSummary
from autoprox.evaluation.label_curves import METHODS, WITH_PRIOR
from autoprox.report.terminal.headlines import prior_tables
from autoprox.report.terminal.layout import Part, interval, named_table, number, paragraph


def curve_report(summary: CurveSummary) -> list[Part]:
    """Show the taus, and whether the power law with the prior is the best."""
    cells = {(row.method, row.labels): row for row in summary.rows}
    counts = sorted({row.labels for row in summary.rows})
    table = named_table("Kendall tau on the other networks,\nby labels", *map(str, counts))
    for method in METHODS:
        own = [cells.get((method, count)) for count in counts]
        table.add_row(method, *("" if row is None else number(row.tau) for row in own))
    tables = prior_tables(summary.prior_tables, summary.space)
    return [
        table,
        paragraph(" ".join(verdict(summary.rows, count) for count in counts)),
        paragraph(
            f"Means over {summary.draws} draws of the labels among {summary.networks} networks; "
            f"intervals have 95 % of the draws. The prior is of other tables: {tables}."
        ),
        f"Plot: {summary.run}/curve.svg",
        f"{summary.terms} terms; {summary.seconds:.0f} s",
        f"Run: {summary.run}",
    ]


def verdict(rows: tuple[CurveRow, ...], count: int) -> str:
    """Say how the power law with the prior compares with the best other method."""
    others = [
        r for r in rows if r.labels == count and r.method != WITH_PRIOR and "prior" not in r.method
    ]
    known = [row for row in others if row.tau is not None]
    if not known:
        return ""
    best = max(known, key=lambda row: row.tau or 0)
    difference, bounds = number(best.behind), interval(best.behind_interval)
    return (
        f"{count} labels: the power law with the prior is {difference} {bounds} above "
        f"{best.method}, the best method without the prior."
    )
