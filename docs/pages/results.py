"""README's leaderboard: the first rows of the page of results."""

import re
from itertools import groupby
from pathlib import Path

from .text import table

LEADERBOARD = Path(__file__).parent.parent / "results" / "leaderboard.md"
SECTION = "## Fresh weights"
ROWS = 6
LEFT_OUT = "s per network"
TRAINED = "trained"
BRACKETS = re.compile(r" \[|<br>")  # an interval, or a partial tau
MARKS = re.compile(r"(<!-- leaderboard:[^\n]*-->\n).*?(<!-- end -->)", re.DOTALL)


def with_results(readme: str) -> str:
    """Return README with the first rows of the leaderboard."""
    return MARKS.sub(lambda marks: f"{marks[1]}{first_rows()}\n{marks[2]}", readme)


def first_rows() -> str:
    """Return the taus of the rows with the best mean ranks, and which labels aren't trained."""
    section = LEADERBOARD.read_text().partition(SECTION)[2].partition("\n## ")[0]
    (headings, *rows), (about, *facts) = tables_of(section)
    labels = {row[0]: row[about.index("labels")] for row in facts}
    shown = [n for n, name in enumerate(headings) if name != LEFT_OUT]
    cells = ([BRACKETS.split(row[n])[0] for n in shown] for row in rows[:ROWS])
    marks = {title[-1]: own for title, own in labels.items() if own != TRAINED}
    notes = "; ".join(f"{mark} {own}" for mark, own in marks.items())
    drawn = table([headings[n] for n in shown], cells)
    return f"{drawn}\n\nLabels that aren't of trained networks: {notes}." if notes else drawn


def tables_of(text: str) -> list[list[list[str]]]:
    """Return the tables of a page as rows of cells, the headings first."""
    groups = groupby(text.splitlines(), key=lambda line: line.startswith("|"))
    found = [
        [line.strip("|").split("|") for line in lines] for is_table, lines in groups if is_table
    ]
    return [
        [[cell.strip() for cell in row] for n, row in enumerate(rows) if n != 1] for rows in found
    ]
