"""A small plot of every operation, of what its own function computes."""

import math
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from autoprox.primitives import OPERATIONS, Primitive
from autoprox.primitives.primitive import apply_primitive

WIDTH, HEIGHT, MARGIN = 132, 84, 6
ACROSS = torch.linspace(-3.0, 3.0, 61, dtype=torch.float64)
VALUES = torch.tensor([0.5, -1.0, 2.0, 2.0, -0.2, 1.2], dtype=torch.float64)
HEIGHTS = (-4.0, 4.0)  # what is beyond is cut off
COLOUR, GREY = "#3f7fc4", "#8a929c"
DASHES = ("1 3", "6 3", "none")
Curve = Sequence[float]


def all_plots() -> Iterator[tuple[str, str]]:
    """The name and the drawing of each operation."""
    for name, operation in OPERATIONS.items():
        yield name, f"{drawing(name, operation)}\n"


def drawing(name: str, operation: Primitive) -> str:
    """Curves over x, or values before and after."""
    if operation.kind in ("normalise", "depth", "combinator"):
        level = "network" if operation.kind == "combinator" else "layers"
        after = apply_primitive(operation, [VALUES], level)  # type: ignore[arg-type]
        parts = stems(VALUES.tolist(), after.tolist())
    else:
        parts = lines(curves(operation))
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    opened = f'<svg {size} role="img" xmlns="http://www.w3.org/2000/svg">'
    return f"{opened}<title>{name}</title>{''.join(parts)}</svg>"


def curves(operation: Primitive) -> list[Curve]:
    """The operation's values along x, once for each y where it takes two values."""
    if operation.kind == "map":
        return [apply_primitive(operation, [ACROSS.unsqueeze(0)], "layers")[0].tolist()]
    if operation.kind == "binary":
        x = ACROSS.unsqueeze(0)
        return [
            apply_primitive(operation, [x, torch.full_like(x, y)], "layers")[0].tolist()
            for y in (-1.0, 0.5, 2.0)
        ]
    if operation.kind == "pair":
        x = batch([1.0, -0.5])
        return [
            apply_primitive(
                operation, [x, x.new_tensor([1.0, 2.0, 0.5]).expand_as(x)], "layers"
            ).tolist()
        ]
    level = operation.levels[0]
    x = batch([1.0, -0.5, 2.0]).reshape(-1, 2, 2) if level == "matrix" else batch([1.0, -0.5, 2.0])
    return [apply_primitive(operation, [x], level).tolist()]


def batch(others: Sequence[float]) -> Tensor:
    """For each x, a row of it and the others."""
    rest = torch.tensor(others, dtype=torch.float64).expand(len(ACROSS), -1)
    return torch.cat([ACROSS.unsqueeze(1), rest], 1)


def span(values: Sequence[float]) -> tuple[float, float]:
    """The lowest and the highest that is drawn, with 0 between."""
    known = [min(max(value, HEIGHTS[0]), HEIGHTS[1]) for value in values if math.isfinite(value)]
    low, high = min(*known, 0.0), max(*known, 0.0)
    return (low, high) if high - low > 1e-9 else (low - 1, high + 1)


def lines(drawn: Sequence[Curve]) -> Iterator[str]:
    """The axes and the curves, broken where they leave the picture."""
    low, high = span([value for curve in drawn for value in curve])

    def place(x: float, y: float) -> tuple[float, float]:
        right, up = (x + 3) / 6, (y - low) / (high - low)
        across = MARGIN + right * (WIDTH - 2 * MARGIN)
        return round(across, 1), round(HEIGHT - MARGIN - up * (HEIGHT - 2 * MARGIN), 1)

    yield axis(*place(-3, 0), *place(3, 0))
    yield axis(*place(0, low), *place(0, high))
    dashes = DASHES if len(drawn) > 1 else ("none",)
    for curve, dash in zip(drawn, dashes, strict=True):
        steps, before = [], None
        for x, y in zip(ACROSS.tolist(), curve, strict=True):
            inside = math.isfinite(y) and low - 1e-9 <= y <= high + 1e-9
            if inside:
                letter = "L" if before is not None and abs(y - before) < (high - low) / 2 else "M"
                right, down = place(x, y)
                steps.append(f"{letter}{right:g} {down:g}")
            before = y if inside else None
        style = f'fill="none" stroke="{COLOUR}" stroke-width="1.8" stroke-dasharray="{dash}"'
        yield f'<path d="{"".join(steps)}" {style} stroke-linecap="round"/>'


def stems(before: Curve, after: Curve) -> Iterator[str]:
    """Values before, hollow, and after, full, beside each other."""
    low, high = span([*before, *after])

    def height(value: float) -> float:
        up = (value - low) / (high - low)
        return round(HEIGHT - MARGIN - up * (HEIGHT - 2 * MARGIN), 1)

    yield axis(MARGIN, height(0), WIDTH - MARGIN, height(0))
    for place, (first, second) in enumerate(zip(before, after, strict=True)):
        x = round(MARGIN + (place + 0.5) * (WIDTH - 2 * MARGIN) / len(before), 1)
        for value, across, fill in ((first, x - 4, "none"), (second, x + 4, COLOUR)):
            y, zero = height(value), height(0)
            where = f'x="{round(across - 3, 1)}" width="6" y="{min(y, zero)}"'
            tall = round(abs(y - zero), 1)
            yield f'<rect {where} height="{tall}" fill="{fill}" stroke="{COLOUR}"/>'


def axis(x1: float, y1: float, x2: float, y2: float) -> str:
    """A thin line."""
    return f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{GREY}" stroke-width="0.7"/>'
