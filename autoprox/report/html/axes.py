"""Axes: where values stand in a plot, and which of them are marked."""

import math
from collections.abc import Iterable

from autoprox.files.sizes import short

TICKS = 4  # at most, about
STEPS = (1, 2, 2.5, 5, 10)


class Axis:
    """Maps values to places between `start` and `end`; `log` needs positive values."""

    def __init__(
        self, values: Iterable[float], start: float, end: float, log: bool = False
    ) -> None:
        self._log = log
        known = [self._moved(value) for value in values]
        low, high = (min(known), max(known)) if known else (0.0, 1.0)
        margin = (high - low) * 0.04 or max(abs(high) * 0.1, 0.1)
        self._low, self._high = low - margin, high + margin
        self._start, self._scale = start, (end - start) / (self._high - self._low)

    def _moved(self, value: float) -> float:
        return math.log10(value) if self._log else value

    def place(self, value: float) -> float:
        """Where a value stands."""
        return round(self._start + (self._moved(value) - self._low) * self._scale, 1)

    def ticks(self) -> list[tuple[float, str]]:
        """The marked values, and how they are written."""
        found = self._decades() if self._log else []
        if len(found) >= 2:
            return [(value, short(int(value)) if value >= 1 else f"{value:g}") for value in found]
        low, high = (10**self._low, 10**self._high) if self._log else (self._low, self._high)
        return [(value, _written(value)) for value in _round_values(low, high)]

    def _decades(self) -> list[float]:
        exponents = range(math.floor(self._low), math.ceil(self._high) + 1)
        steps = (1, 2, 5) if self._high - self._low < 2 else (1,)
        values = [step * 10.0**exponent for exponent in exponents for step in steps]
        inside = [v for v in values if self._low <= math.log10(v) <= self._high]
        return inside[:: max(1, len(inside) // TICKS)]


def _round_values(low: float, high: float) -> list[float]:
    """Multiples of a round step."""
    rough = (high - low) / TICKS
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in STEPS if unit * factor >= rough * 0.999)
    first, last = math.ceil(low / step), math.floor(high / step)
    return [number * step for number in range(first, last + 1)]


def _written(value: float) -> str:
    size = abs(value)
    return short(int(value)) if 1e4 <= size < 1e15 else f"{value:.4g}"
