"""What no other is better than in two respects."""

from collections.abc import Iterable

from autoprox.report.html.plots import Point


def front(points: Iterable[Point]) -> list[Point]:
    """The points than which none that lies as far left is higher, from the left."""
    found: list[Point] = []
    for point in sorted(points, key=lambda p: (p.x, -p.y)):
        if not found or point.y > found[-1].y:
            found.append(point)
    return found
