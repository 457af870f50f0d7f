"""Rules for the numbers that a user gives."""

from collections.abc import Callable
from numbers import Integral, Real

from autoprox.errors import AutoproxError

MOST = 2**63 - 1  # what JSON readers, numpy and torch all take


def require_whole(name: str, value: object, least: int) -> None:
    """Raise unless the value is a whole number from `least` on."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= value <= MOST:
        raise AutoproxError(f"{name} must be a whole number >= {least}, but got {value!r}")


def require_number(name: str, value: object, rule: str, holds: Callable[[Real], bool]) -> None:
    """Raise unless the value is a number for which the rule, `> 0` for example, holds."""
    if isinstance(value, bool) or not isinstance(value, Real) or not holds(value):
        raise AutoproxError(f"{name} must be a number {rule}, but got {value!r}")
