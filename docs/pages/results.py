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
MARKS = re.compile(r"(<!-- leaderboard:[^\n]*-->\n).*?(<!-- end -->)", re.DOTALL)


def with_results(readme: str) -> str:
    """Return README with the first rows of the leaderboard."""
    return MARKS.sub(lambda marks: f"{marks[1]}{first_rows()}\n{marks[2]}", readme)


def first_rows() -> str:
    """Return the rows of the best mean ranks, without partial taus; labels not trained are said."""
    section = LEADERBOARD.read_text().partition(SECTION)[2].partition("\n## ")[0]
    (headings, *rows), (about, *facts) = tables_of(section)
    labels = {row[0]: row[about.index("labels")] for row in facts}
    shown = [n for n, name in enumerate(headings) if name != LEFT_OUT]
    kinds = [labels.get(headings[n], TRAINED) for n in shown]
    marked = [
        headings[n] + (f" (labels: {kind})" if kind != TRAINED else "")
        for n, kind in zip(shown, kinds, strict=True)
    ]
    return table(marked, ([row[n].partition("<br>")[0] for n in shown] for row in rows[:ROWS]))


def tables_of(text: str) -> list[list[list[str]]]:
    """Return the tables of a page as rows of cells, the headings first."""
    groups = groupby(text.splitlines(), key=lambda line: line.startswith("|"))
    found = [
        [line.strip("|").split("|") for line in lines] for is_table, lines in groups if is_table
    ]
    return [
        [[cell.strip() for cell in row] for n, row in enumerate(rows) if n != 1] for rows in found
    ]
