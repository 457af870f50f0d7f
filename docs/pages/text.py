"""Markdown, piece by piece."""

from collections.abc import Iterable, Sequence

FROM = "<!-- Written by docs/make.py: change the code, and run it. -->"


def page(title: str, *parts: str) -> str:
    """A page with a title."""
    return "\n\n".join([FROM, f"# {title}", *parts]) + "\n"


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; a bar within a cell stays a bar."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(map(cell, line))} |" for line in lines)


def cell(text: str) -> str:
    """What a cell of a table can hold."""
    return text.replace("|", "&#124;").replace("\n", " ")


def code(text: str) -> str:
    """Text in the letters of a program, for a page or a cell."""
    mark = "``" if "`" in text else "`"
    return f"{mark}{text}{mark}"


def block(language: str, text: str) -> str:
    """A fenced block."""
    return f"```{language}\n{text.strip(chr(10))}\n```"
