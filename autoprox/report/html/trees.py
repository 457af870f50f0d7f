"""A proxy's tree, and an architecture's blocks, drawn."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from autoprox.language import Tree
from autoprox.report.html.elements import Markup, element, joined

STEP, GAP, LETTER, BAR = 44, 8, 6.6, 22


class Drawn(NamedTuple):
    """A branch: its width, its height in levels, the middle of its root, and its marks."""

    width: float
    depth: int
    root: float
    marks: tuple[tuple[str, float, int, float], ...]  # words, x, level, x of the node above


def tree_drawing(tree: Tree) -> Markup:
    """The operations above what they are applied to."""
    drawn = tree.fold(_branch)
    lines, words = [], []
    for symbol, x, level, above in drawn.marks:
        y = 16 + STEP * level
        if level:
            lines.append(
                element("line", x1=above, y1=y - STEP + 10, x2=x, y2=y - 10, class_="branch")
            )
        half = _width(symbol) / 2
        box = element("rect", x=x - half, y=y - 10, width=2 * half, height=20, rx=4, class_="node")
        label = element("text", symbol, x=x, y=y + 4, text_anchor="middle")
        words.append(joined([box, label]))
    width, height = round(drawn.width), 32 + STEP * (drawn.depth - 1)
    view = f"0 0 {width} {height}"
    whole = element(
        "svg", element("title", "The tree of the formula"), *lines, *words,
        viewBox=view, width=width, height=height, role="img", xmlns="http://www.w3.org/2000/svg",
    )  # fmt: skip
    return element("div", whole, class_="scroll tree")


def _width(symbol: str) -> float:
    return LETTER * len(symbol) + 10


def _branch(node: Tree, args: list[Drawn]) -> Drawn:
    below = sum(arg.width for arg in args) + GAP * max(len(args) - 1, 0)
    width = max(below, _width(node.symbol))
    start, moved = (width - below) / 2, []
    for arg in args:
        moved.append((start, arg))
        start += arg.width + GAP
    roots = [round(offset + arg.root, 1) for offset, arg in moved]
    root = round((roots[0] + roots[-1]) / 2 if roots else width / 2, 1)
    marks = [(node.symbol, root, 0, 0.0)]
    for offset, arg in moved:
        for symbol, x, level, above in arg.marks:
            over = round(offset + above, 1) if level else root
            marks.append((symbol, round(offset + x, 1), level + 1, over))
    return Drawn(width, 1 + max((arg.depth for arg in args), default=0), root, tuple(marks))


def architecture_drawing(arch: Mapping[str, Any]) -> Markup:
    """A bar for each value of a choice that each block makes, and the other choices in words."""
    listed = {name: own for name, own in arch.items() if isinstance(own, list) and _numbers(own)}
    rest = ", ".join(f"{name} {value}" for name, value in arch.items() if name not in listed)
    charts = [_bars(name, values) for name, values in listed.items()]
    return joined([element("p", rest), element("div", *charts, class_="plots")])


def _numbers(values: Sequence[Any]) -> bool:
    return bool(values) and all(isinstance(value, int | float) for value in values)


def _bars(name: str, values: Sequence[float]) -> Markup:
    room, high = 120, max(max(values), 1e-12)
    bars = []
    for place, value in enumerate(values):
        y = 18 + BAR * place
        length = round(max(value, 0) / high * room, 1)
        bars += [
            element("text", str(place + 1), x=18, y=y + 13, text_anchor="end", class_="label"),
            element("rect", x=24, y=y, width=length, height=BAR - 4, class_="bar"),
            element("text", f"{value:g}", x=28 + length, y=y + 13, class_="label"),
        ]
    size = {"width": 24 + room + 60, "height": 22 + BAR * len(values)}
    head = element("text", f"{name}, by block", x=0, y=12)
    box = f"0 0 {size['width']} {size['height']}"
    return element("svg", head, *bars, viewBox=box, **size, xmlns="http://www.w3.org/2000/svg")
