"""Rules for the numbers that a user gives."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

from autoprox.errors import AutoproxError

END = 2**63  # JSON readers, numpy and torch all take what is below


def require_whole(name: str, value: Any, least: int) -> None:
    """Raise unless the value is a whole number from `least` on."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or value < least:
        raise AutoproxError(f"{name} must be a whole number >= {least}, but got {value!r}")
    if value >= END:
        raise AutoproxError(f"{name} must be a whole number < 2**63, but got {value}")


def require_number(name: str, value: Any, rule: str, holds: Callable[[Any], bool]) -> None:
    """Raise unless the value is a number for which the rule, `> 0` for example, holds."""
    if isinstance(value, bool) or not isinstance(value, Real) or not holds(value):
        raise AutoproxError(f"{name} must be a number {rule}, but got {value!r}")
