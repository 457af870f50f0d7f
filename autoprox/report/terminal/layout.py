"""Printing of texts, tables and JSON documents on the terminal."""

import json
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from autoprox.errors import printable
from autoprox.files.atomic_writes import to_json
from autoprox.files.rerun_command import rerun_command_line
from autoprox.shortfalls import Shortfall

WIDTH = 80
FIGURE = 6  # characters of a figure
GAP = 2  # characters between columns
MIN_NAME_WIDTH = 15
NEXT = "Next:\n"
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


def show_result(json_only: bool, value: Any, report: Callable[[], Iterable[Part]]) -> None:
    """Print a document, or a list of them, as JSON; otherwise its report."""
    if not json_only:
        show(*report())
    elif isinstance(value, list):
        show_json(
            [own.model_dump(mode="json") if isinstance(own, BaseModel) else own for own in value]
        )
    else:
        show_json(value.model_dump(mode="json") if isinstance(value, BaseModel) else value)


class PlainTable(Table):
    """A table whose cells may be texts from outside, with escape sequences spelt out."""

    def add_column(self, header: RenderableType = "", *others: Any, **options: Any) -> None:
        plain = printable(header) if isinstance(header, str) else header
        super().add_column(plain, *others, **options)

    def add_row(self, *cells: RenderableType | None, **options: Any) -> None:
        plain = [printable(cell) if isinstance(cell, str) else cell for cell in cells]
        if isinstance(plain[0], str) and "/" in plain[0] and "(" not in plain[0]:
            # A path is to be copied: it is never cut, as a long expression is.
            plain[0] = Text(plain[0], overflow="fold", no_wrap=False)
        super().add_row(*plain, **options)


def new_table(first: str, *figures: str) -> Table:
    """Return a table with the heading of its first column, and those of columns of figures."""
    table = PlainTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column(first)
    for heading in figures:
        table.add_column(heading, justify="right")
    return table


def named_table(first: str, *figures: str, least: int = MIN_NAME_WIDTH) -> Table:
    """Return a table whose names get the room that the figures leave; neither is wrapped."""
    table = new_table(first, *figures)
    for column in table.columns:
        column.no_wrap = True
    table.columns[0].max_width = room(figures, least)
    return table


def room(headings: Iterable[str], least: int) -> int:
    """Return the characters that columns of figures leave to names, and at least `least`."""
    widths = (max(FIGURE, *map(len, heading.split("\n"))) + GAP for heading in headings)
    return max(least, WIDTH - sum(widths))


def paragraph(text: str) -> str:
    """Wrap a text at the width of reports."""
    return textwrap.fill(text, WIDTH)


def weights_differ(proxy: str, evolved_with: str, weights: str) -> str:
    """Say that a proxy was evolved on networks whose weights were drawn in another way."""
    return paragraph(f"{proxy} was evolved with {evolved_with} weights; here they are {weights}.")


def found_elsewhere(proxy: str, space: str) -> str:
    """Say that a proxy was found on other networks than those that it scores."""
    return paragraph(f"{proxy} was found on another space, {space}.")


def next_command(*words: str) -> str:
    """Return a command that goes on from a result, on a line of its own."""
    return f"{NEXT}{rerun_command_line(*words)}"


def aligned(facts: Mapping[str, str]) -> str:
    """Return a line for each fact, its name in front, wrapped."""
    width = max(map(len, facts)) + 2
    wrap = textwrap.TextWrapper(
        WIDTH, subsequent_indent=width * " ", break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(wrap.fill(f"{name:{width}}{text}") for name, text in facts.items())


def markdown_line(cells: Iterable[str]) -> str:
    """Return a line of a table in Markdown."""
    return f"| {' | '.join(cells)} |"


def number(value: float | None) -> str:
    """Return a correlation with three decimals, or a dash if there is none."""
    return "-" if value is None else f"{round(value, 3) + 0.0:.3f}"


def interval(bounds: Sequence[float | None]) -> str:
    """Return both ends of an interval, or a dash."""
    low, high = bounds
    return "-" if low is None or high is None else f"[{low:.2f}, {high:.2f}]"


def shortfall_parts(shortfalls: Iterable[Shortfall]) -> list[Part]:
    """Show a line for each count that falls short of what was asked for."""
    wrap = textwrap.TextWrapper(WIDTH, subsequent_indent="  ", break_long_words=False)
    lines = [
        wrap.fill(f"{own.of}: {own.asked} asked for, {own.found} {own.reason}")
        for own in shortfalls
    ]
    return ["\n".join(lines)] if lines else []
