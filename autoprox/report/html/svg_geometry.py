"""The geometry of plots and drawn trees, in pixels; templates draw them as SVG."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from autoprox.files.human_readable_sizes import format_with_unit
from autoprox.language import Tree

LEFT, RIGHT, TOP, BOTTOM = 58, 350, 10, 208  # edges of the area of a plot
AXIS_TICKS = 4  # on an axis, approximately
ROUND_STEPS = (1, 2, 2.5, 5, 10)
MOST_CIRCLES = 2000  # of a series; more points are one path without labels
LETTER_WIDTH, TREE_GAP = 6.6, 8


class PlotPoint(NamedTuple):
    """A point, and its label, which is shown on hover."""

    x: float
    y: float
    label: str = ""


class PlotSeries(NamedTuple):
    """Points drawn alike: as `points`, `ring` (for a few that stand out), `line` or `steps`."""

    name: str
    points: Sequence[PlotPoint]
    style: str = "points"
    path: str = ""  # in pixels


class PlotGeometry(NamedTuple):
    """A plot in pixels; without series if no point is finite."""

    title: str
    x_label: str
    y_label: str
    x_ticks: Sequence[tuple[float, str]] = ()
    y_ticks: Sequence[tuple[float, str]] = ()
    series: Sequence[PlotSeries] = ()


class PlotAxis:
    """Maps values to pixels between `start` and `end`; a logarithmic one needs positive values."""

    def __init__(self, values: Sequence[float], start: int, end: int, log: bool = False) -> None:
        self.log = log
        scaled = [self._scaled(value) for value in values]
        low, high = min(scaled), max(scaled)
        margin = (high - low) * 0.04 or max(abs(high) * 0.1, 0.1)
        self.low, self.high = low - margin, high + margin
        self.start, self.scale = start, (end - start) / (self.high - self.low)

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def pixel(self, value: float) -> float:
        return round(self.start + (self._scaled(value) - self.low) * self.scale, 1)

    def ticks(self) -> list[tuple[float, str]]:
        """Return the pixels and labels of a few round values."""
        low, high = self.low, self.high
        if self.log:
            factors = (1, 2, 5) if high - low < 2 else (1,)
            exponents = range(math.floor(low), math.ceil(high) + 1)
            decades = [factor * 10.0**exponent for exponent in exponents for factor in factors]
            inside = [value for value in decades if low <= math.log10(value) <= high]
            if len(marked := inside[:: max(1, len(inside) // AXIS_TICKS)]) >= 2:
                return [
                    (self.pixel(v), format_with_unit(int(v)) if v >= 1 else f"{v:g}")
                    for v in marked
                ]
            low, high = 10**low, 10**high
        rough = (high - low) / AXIS_TICKS
        unit = 10.0 ** math.floor(math.log10(rough))
        step = next(unit * factor for factor in ROUND_STEPS if unit * factor >= rough * 0.999)
        values = [n * step for n in range(math.ceil(low / step), math.floor(high / step) + 1)]
        return [
            (self.pixel(v), format_with_unit(int(v)) if 1e4 <= abs(v) < 1e15 else f"{v:.4g}")
            for v in values
        ]


def layout_plot(
    title: str, x_label: str, y_label: str, *series: PlotSeries, log: bool = False
) -> PlotGeometry:
    """Place points and lines over two axes, of which the horizontal one may be logarithmic."""
    finite = [
        [p for p in own.points if all(map(math.isfinite, p[:2])) and (p.x > 0 or not log)]
        for own in series
    ]
    if not any(finite):
        return PlotGeometry(title, x_label, y_label)
    x = PlotAxis([point.x for points in finite for point in points], LEFT, RIGHT, log)
    y = PlotAxis([point.y for points in finite for point in points], BOTTOM, TOP)
    drawn = [
        _drawn(own, [PlotPoint(x.pixel(p.x), y.pixel(p.y), p.label) for p in points])
        for own, points in zip(series, finite, strict=True)
    ]
    return PlotGeometry(title, x_label, y_label, x.ticks(), y.ticks(), drawn)


def _drawn(series: PlotSeries, points: Sequence[PlotPoint]) -> PlotSeries:
    if series.style in ("line", "steps"):
        moves = "H{:g}V{:g}" if series.style == "steps" else "L{:g} {:g}"
        start = "M{:g} {:g}".format(*points[0]) if points else ""
        path = start + "".join(moves.format(*point[:2]) for point in points[1:])
        return series._replace(points=[point for point in points if point.label], path=path)
    if len(points) > MOST_CIRCLES:
        path = "".join(f"M{p.x:g} {p.y:g}h0" for p in points)
        return series._replace(points=(), style="cloud", path=path)
    return series._replace(points=points)


def pareto_front(points: Iterable[PlotPoint]) -> list[PlotPoint]:
    """Return the points such that none as far left is higher, from the left."""
    front: list[PlotPoint] = []
    for point in sorted(points, key=lambda p: (p.x, -p.y)):
        if not front or point.y > front[-1].y:
            front.append(point)
    return front


class TreeLayout(NamedTuple):
    """A drawn tree: the box of its root, and its subtrees with their left edges."""

    label: str
    box_width: float
    x: float  # of the middle of the root
    width: float
    levels: int
    subtrees: Sequence[tuple[float, "TreeLayout"]]


def tree_layout(tree: Tree) -> TreeLayout:
    """Place each operation above the middle of its arguments."""

    def place(node: Tree, args: list[TreeLayout]) -> TreeLayout:
        box_width = LETTER_WIDTH * len(node.symbol) + 10
        args_width = sum(arg.width for arg in args) + TREE_GAP * max(len(args) - 1, 0)
        width = max(args_width, box_width)
        left, subtrees = (width - args_width) / 2, []
        for arg in args:
            subtrees.append((round(left, 1), arg))
            left += arg.width + TREE_GAP
        middles = [left + arg.x for left, arg in subtrees] or [width / 2]
        x = round((middles[0] + middles[-1]) / 2, 1)
        return TreeLayout(node.symbol, box_width, x, width, node.depth + 1, subtrees)

    return tree.fold(place)
