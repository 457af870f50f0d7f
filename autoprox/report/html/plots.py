"""Plots as plain SVG: points, lines and tiles, with their names on hover."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from autoprox.report.html.axes import Axis
from autoprox.report.html.elements import Markup, element, joined, text
from autoprox.report.terminal.layout import number

WIDTH, HEIGHT = 360, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 10, 10, 42
NAMED = 2000  # points from which on they are drawn as one path, without names
TILE = (64, 20)
DARK = 0.6  # the strength of a tile from which on its text is light


class Point(NamedTuple):
    """A point, and what is said of it on hover."""

    x: float
    y: float
    name: str = ""


class Series(NamedTuple):
    """What is drawn alike: `points`, `ring` for a few that stand out, `line` or `steps`."""

    name: str
    points: Sequence[Point]
    form: str = "points"


def plot(
    series: Sequence[Series], across: str, upwards: str, title: str, log: bool = False
) -> Markup:
    """Points and lines over two axes, with a legend beneath."""
    shown = [
        Series(own.name, [p for p in own.points if _drawable(p, log)], own.form) for own in series
    ]
    every = [point for own in shown for point in own.points]
    if not every:
        return element("p", f"{title}: there is no finite value to draw.", class_="note")
    x = Axis([p.x for p in every], LEFT, WIDTH - RIGHT, log)
    y = Axis([p.y for p in every], HEIGHT - BOTTOM, TOP)
    drawn = [_series(own, place, x, y) for place, own in enumerate(shown)]
    whole = _svg(WIDTH, HEIGHT, title, _frame(x, y, across, upwards), *drawn)
    keys = [
        element("span", element("i", class_=f"key s{place}"), own.name)
        for place, own in enumerate(series)
    ]
    caption = element("figcaption", element("b", title), *(keys if len(keys) > 1 else ()))
    return element("figure", whole, caption)


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    value: Callable[[str, str], float | None],
    title: str,
) -> Markup:
    """A tile for each row and column: how strong its figure is, in the colour of its sign."""
    left, top = 10 + 7 * max(map(len, rows)), 24
    wide = max(TILE[0], 8 + 7 * max(map(len, columns)))
    heads = [
        _label(left + wide * (j + 0.5), 16, name, anchor="middle") for j, name in enumerate(columns)
    ]
    tiles: list[str] = []
    for i, row in enumerate(rows):
        tiles.append(_label(left - 6, top + TILE[1] * i + 14, row, anchor="end"))
        for j, column in enumerate(columns):
            place = (left + wide * j, top + TILE[1] * i, wide)
            tiles.append(_tile(value(row, column), f"{row}, {column}", place))
    size = (left + wide * len(columns) + 4, top + TILE[1] * len(rows) + 4)
    scrolled = element("div", _svg(*size, title, *heads, *tiles, natural=True), class_="scroll")
    caption = element("figcaption", element("b", title))
    return element("figure", scrolled, caption, class_="wide")


def _tile(value: float | None, name: str, place: tuple[int, int, int]) -> Markup:
    x, y, wide = place
    strength = 0.0 if value is None else min(abs(value), 1.0)
    sign = "negative" if (value or 0) < 0 else "positive"
    box = element(
        "rect", x=x, y=y, width=wide - 2, height=TILE[1] - 2, class_=sign,
        fill_opacity=f"{strength:.2f}",
    )  # fmt: skip
    words = _label(
        x + wide / 2 - 1, y + 13, number(value), anchor="middle",
        kind="strong" if strength > DARK else "weak",
    )  # fmt: skip
    return element("g", element("title", f"{name}: {number(value)}"), box, words)


def _drawable(point: Point, log: bool) -> bool:
    return math.isfinite(point.x) and math.isfinite(point.y) and (point.x > 0 or not log)


def _svg(width: int, height: int, title: str, *children: str, natural: bool = False) -> Markup:
    size = {"width": width, "height": height} if natural else {}
    box = f"0 0 {width} {height}"
    return element(
        "svg", element("title", title), *children, viewBox=box, role="img", **size,
        xmlns="http://www.w3.org/2000/svg",
    )  # fmt: skip


def _frame(x: Axis, y: Axis, across: str, upwards: str) -> Markup:
    low, middle = HEIGHT - BOTTOM, (HEIGHT - BOTTOM + TOP) / 2
    lines = []
    for value, name in x.ticks():
        place = x.place(value)
        lines.append(element("line", x1=place, x2=place, y1=TOP, y2=low, class_="grid"))
        lines.append(_label(place, low + 15, name, anchor="middle"))
    for value, name in y.ticks():
        place = y.place(value)
        lines.append(element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=place, y2=place, class_="grid"))
        lines.append(_label(LEFT - 6, place + 4, name, anchor="end"))
    lines.append(_label((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, across, anchor="middle"))
    turned = element(
        "text", upwards, text_anchor="middle", transform=f"translate(13 {middle}) rotate(-90)"
    )
    return element("g", *lines, turned)


def _label(x: float, y: float, words: str, anchor: str, kind: str = "label") -> Markup:
    return element("text", words, x=round(x, 1), y=round(y, 1), text_anchor=anchor, class_=kind)


def _series(series: Series, place: int, x: Axis, y: Axis) -> Markup:
    points = [(x.place(p.x), y.place(p.y), p.name) for p in series.points]
    kind = f"{series.form} s{place}"
    if series.form in ("line", "steps"):
        return element("g", _path(points, series.form), *_dots(points), class_=kind)
    if len(points) > NAMED:
        spots = "".join(f"M{px:g} {py:g}h0" for px, py, _ in points)
        return element("path", d=spots, class_=f"cloud s{place}")
    return element("g", *_dots(points, 6 if series.form == "ring" else 3), class_=kind)


def _path(points: Sequence[tuple[float, float, str]], form: str) -> Markup:
    if not points:
        return Markup()
    (first_x, first_y, _), *others = points
    moves = [f"M{first_x:g} {first_y:g}"]
    for px, py, _ in others:
        moves.append(f"H{px:g}V{py:g}" if form == "steps" else f"L{px:g} {py:g}")
    return element("path", d="".join(moves))


def _dots(points: Sequence[tuple[float, float, str]], radius: int = 2) -> list[Markup]:
    """A spot for each point that has a name."""
    return [
        Markup(f'<circle cx="{px:g}" cy="{py:g}" r="{radius}"><title>{text(name)}</title></circle>')
        for px, py, name in points
        if name
    ]


def joined_plots(plots: Mapping[str, Markup]) -> Markup:
    """Several plots beside each other, as far as the page is wide."""
    return element("div", joined(plots.values()), class_="plots")
