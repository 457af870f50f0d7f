"""How the terminal shows texts and tables, or one JSON document."""

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from autoprox.errors import printable
from autoprox.files.atomic_writes import to_json
from autoprox.shortfalls import Shortfall

WIDTH = 80
FIGURE = 6  # characters of a figure
GAP = 2  # characters between columns
INTERVAL = " 95 % interval"  # a heading as wide as any of them

Part = str | Table


def show(*parts: Part) -> None:
    """Print the parts with an empty line between two."""
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = max(console.width, WIDTH)
    for number, part in enumerate(parts):
        if number:
            print()
        if isinstance(part, str):
            print(printable(part), flush=True)
        else:
            console.print(part)


def show_json(value: Any) -> None:
    """Print one JSON document, in which escape sequences are spelt out."""
    text = to_json(value, indent=2)
    print("".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text))


class PlainTable(Table):
    """A table that shows texts from outside, and obeys nothing in them."""

    def add_column(self, header: RenderableType = "", *others: Any, **options: Any) -> None:
        plain = printable(header) if isinstance(header, str) else header
        super().add_column(plain, *others, **options)

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        plain = [printable(cell) if isinstance(cell, str) else cell for cell in cells]
        if isinstance(plain[0], str) and "/" in plain[0] and "(" not in plain[0]:
            # A path is to be copied: it is never cut, as a long expression is.
            plain[0] = Text(plain[0], overflow="fold", no_wrap=False)
        super().add_row(*plain, **options)


def new_table(first: str) -> Table:
    """A table with this heading of its first column."""
    table = PlainTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column(first)
    return table


def room(headings: Iterable[str], least: int) -> int:
    """The characters that columns of figures leave to names, whose column is at least so wide."""
    widths = (max(FIGURE, *map(len, heading.split("\n"))) + GAP for heading in headings)
    return max(least, WIDTH - sum(widths))


def aligned(facts: Mapping[str, str]) -> str:
    """A line for each fact, its name in front, wrapped."""
    width = max(map(len, facts)) + 2
    wrap = textwrap.TextWrapper(
        WIDTH,
        subsequent_indent=width * " ",
        drop_whitespace=True,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(wrap.fill(f"{name:{width}}{text}") for name, text in facts.items())


def markdown_line(cells: Iterable[str]) -> str:
    """A line of a table in Markdown."""
    return f"| {' | '.join(cells)} |"


def number(value: float | None) -> str:
    """A correlation, or a dash where there is none."""
    return "-" if value is None else f"{round(value, 3) + 0.0:.3f}"


def interval(bounds: Sequence[float | None]) -> str:
    """Both ends, or a dash."""
    low, high = bounds
    return "-" if low is None or high is None else f"[{low:.2f}, {high:.2f}]"


def shortfall_parts(shortfalls: Iterable[Shortfall]) -> list[Part]:
    """Show a line for each count that falls short of what was asked for."""
    lines = [
        textwrap.fill(
            f"{own.of}: {own.asked} asked for, {own.found} {own.reason}",
            WIDTH,
            subsequent_indent="  ",
            break_long_words=False,
        )
        for own in shortfalls
    ]
    return ["\n".join(lines)] if lines else []
