"""The figure of curves: Kendall's tau by the number of labels, one panel for each table."""

import html
from collections.abc import Sequence

from autoprox.commands.curve import CurveSummary
from autoprox.evaluation.label_curves import (
    BEST_OF_ZOO,
    METHODS,
    PARAMS,
    PROCESS,
    PROCESS_WITH_PRIOR,
    RIDGE,
    SCRATCH,
    WITH_PRIOR,
)

WIDE, HIGH = 300, 190  # of a panel
LEFT, TOP, LEGEND = 40, 26, 64
COLUMNS = 3
# Classes of the style: a colour, and whether the line is dashed.
LINES = {
    PARAMS: "grey",
    BEST_OF_ZOO: "purple",
    RIDGE: "orange dashed",
    PROCESS: "orange",
    SCRATCH: "blue dashed",
    WITH_PRIOR: "blue thick",
    PROCESS_WITH_PRIOR: "green",
}
STYLE = """
.page { fill: #fff } text { fill: #1c2026; font: 12px system-ui, sans-serif }
.axis { stroke: #8b949e; fill: none } .line { fill: none; stroke-width: 1.6 }
.dashed { stroke-dasharray: 5 3 } .thick { stroke-width: 3 } .range { stroke: none; opacity: .15 }
.grey { stroke: #6b7280; fill: #6b7280 } .purple { stroke: #7a4bb5; fill: #7a4bb5 }
.orange { stroke: #c2570c; fill: #c2570c } .blue { stroke: #1f66c1; fill: #1f66c1 }
.green { stroke: #1e7d4f; fill: #1e7d4f }
.line { fill: none } .range { stroke: none }
@media (prefers-color-scheme: dark) { .page { fill: #14171b } text { fill: #e6e9ed }
.grey { stroke: #9aa4b0; fill: #9aa4b0 } .purple { stroke: #bd9bec; fill: #bd9bec }
.orange { stroke: #f29b5c; fill: #f29b5c } .blue { stroke: #6fabf5; fill: #6fabf5 }
.green { stroke: #66c795; fill: #66c795 } .line { fill: none } .range { stroke: none } }
"""


def curve_figure(tables: Sequence[tuple[str, CurveSummary]]) -> str:
    """Draw a panel for each table, and one legend."""
    columns = min(COLUMNS, len(tables))
    rows = -(-len(tables) // columns)
    width, height = max(columns * WIDE, 420), rows * HIGH + LEGEND + 24
    parts = [
        f'<svg viewBox="0 0 {width} {height}" role="img" xmlns="http://www.w3.org/2000/svg">',
        "<title>Kendall tau on the other networks, by the number of labels</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{width}" height="{height}"/>',
    ]
    for index, (title, summary) in enumerate(tables):
        row, column = divmod(index, columns)
        parts.append(f'<g transform="translate({column * WIDE} {row * HIGH})">')
        parts += [*_panel(title, summary), "</g>"]
    parts.append(
        f'<text x="{width / 2:g}" y="{rows * HIGH + 16}" text-anchor="middle">'
        "labels (Kendall tau on the other networks; shaded: 95 % of the draws)</text>"
    )
    across = 3 if columns > 1 else 2
    for index, method in enumerate(METHODS):
        row, column = divmod(index, across)
        x, y = 12 + column * width / across, rows * HIGH + 36 + row * 16
        parts.append(f'<path class="line {LINES[method]}" d="M{x:g} {y - 4:g}h22"/>')
        parts.append(f'<text x="{x + 28:g}" y="{y:g}">{method}</text>')
    return "\n".join([*parts, "</svg>\n"])


def _panel(title: str, summary: CurveSummary) -> list[str]:
    """Return the elements of a panel; the numbers of labels are spread evenly."""
    counts = sorted({row.labels for row in summary.rows})
    bounds = [own for row in summary.rows for own in (row.tau, *row.interval) if own is not None]
    low, high = min([*bounds, 0.0]), max([*bounds, 0.1])
    bottom = HIGH - 22

    def x(count: int) -> float:
        return LEFT + 10 + counts.index(count) * (WIDE - LEFT - 26) / max(len(counts) - 1, 1)

    def y(tau: float) -> float:
        return bottom - (tau - low) / (high - low) * (bottom - TOP)

    parts = [
        f'<text x="{LEFT}" y="16" font-weight="bold">{html.escape(title)}</text>',
        f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{WIDE - 8}"/>',
    ]
    for count in counts:
        parts.append(
            f'<text x="{x(count):g}" y="{bottom + 16}" text-anchor="middle">{count}</text>'
        )
    for step in range(-10, 11):
        tau = step / 5
        if low <= tau <= high:
            parts.append(
                f'<text x="{LEFT - 6}" y="{y(tau) + 4:.1f}" text-anchor="end">{tau:g}</text>'
            )
            parts.append(f'<path class="axis" d="M{LEFT - 3} {y(tau):.1f}h3"/>')
    for method in METHODS:
        known = [
            (x(row.labels), row.tau, *row.interval)
            for row in summary.rows
            if row.method == method and row.tau is not None
        ]
        points = [f"{px:.1f} {y(tau):.1f}" for px, tau, _, _ in known]
        if method == WITH_PRIOR:
            upper = [f"{px:.1f} {y(high_):.1f}" for px, _, _, high_ in known if high_ is not None]
            lower = [f"{px:.1f} {y(low_):.1f}" for px, _, low_, _ in known if low_ is not None]
            area = "L".join([*upper, *reversed(lower)])
            parts.append(f'<path class="range {LINES[method]}" d="M{area}Z"/>')
        if points:
            parts.append(f'<path class="line {LINES[method]}" d="M{"L".join(points)}"/>')
        for px, tau, _, _ in known:
            shape = f'cx="{px:.1f}" cy="{y(tau):.1f}" r="2"'
            parts.append(f'<circle class="{LINES[method].split()[0]}" {shape}/>')
    return parts
