"""Elements of HTML and SVG: whatever text they are given is escaped."""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from rich.table import Table

from autoprox.errors import printable
from autoprox.report.terminal.layout import WIDTH, Part

LONG = 32  # characters of a name that is broken into lines
ALIGNED = re.compile(r"\S {2,}\S|^ |^(?:Run|Next|Report|Table|Weights): ", re.MULTILINE)
EMPTY = frozenset({"meta", "line", "rect", "circle", "path"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: Any) -> Markup:
    """An element; a trailing underscore of an attribute's name is left out, others are hyphens."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
    )
    if name in EMPTY and not children:
        return Markup(f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{joined(children)}</{name}>")


def joined(children: Iterable[str]) -> Markup:
    """One after the other."""
    return Markup(
        "".join(child if isinstance(child, Markup) else text(child) for child in children)
    )


def text(words: str) -> Markup:
    """Plain text, without what a terminal or a browser would obey."""
    return Markup(escape("\n".join(map(printable, words.split("\n")))))


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """The first column is names, the others figures; a long name takes several lines."""
    head = element("tr", *(element("th", heading) for heading in headings))
    body = (element("tr", *map(_cell, row)) for row in rows)
    whole = element("table", element("thead", head), element("tbody", *body))
    return element("div", whole, class_="scroll")


def _cell(words: str) -> Markup:
    long = not isinstance(words, Markup) and len(words) > LONG
    return element("td", words, class_="long") if long else element("td", words)


def facts(named: Mapping[str, str]) -> Markup:
    """A line for each fact."""
    lines = (element("tr", element("th", n), element("td", value)) for n, value in named.items())
    whole = element("table", element("tbody", *lines), class_="facts")
    return element("div", whole, class_="scroll")


def setting(value: Any) -> str:
    """A value of a run's configuration in words."""
    if isinstance(value, dict):
        return "\n".join(f"{name}: {own}" for name, own in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(map(setting, value)) if any(own is not None for own in value) else "-"
    return "-" if value is None else str(value)


def section(title: str, *children: str) -> Markup:
    """A part of the page, with its heading."""
    return element("section", element("h2", title), *children)


def folded(title: str, *children: str) -> Markup:
    """A part that is shown on demand, and on paper."""
    return element("section", element("details", element("summary", title), *children))


def note(words: str) -> Markup:
    """What is told of a part that can't be shown."""
    return element("p", words, class_="note")


def part(shown: Part) -> Markup:
    """A part of what the terminal shows; what is aligned there stays so."""
    if isinstance(shown, Table):
        return _rich_table(shown)
    if ALIGNED.search(shown):
        return element("pre", shown)
    return joined(element("p", own) for own in _unwrapped(shown))


def _unwrapped(shown: str) -> list[str]:
    """The lines of a text; those that only the terminal's width parts are one."""
    found, before = list[str](), ""
    for line in shown.split("\n"):
        wrapped = bool(before) and len(f"{before} {line.split(' ')[0]}") > WIDTH
        found = [*found[:-1], f"{found[-1]} {line}"] if wrapped else [*found, line]
        before = line
    return found


def _rich_table(shown: Table) -> Markup:
    cells = [[str(cell) for cell in column.cells] for column in shown.columns]
    headings = [str(column.header).replace("-\n", "").strip() for column in shown.columns]
    rows = zip(*cells, strict=True)
    heading = [element("p", str(shown.title))] if shown.title else []
    return joined([*heading, table(headings, rows)])
