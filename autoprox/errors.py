"""The errors that a user can cause: one line each, shown without a traceback."""

from collections.abc import Iterable
from difflib import get_close_matches


class AutoproxError(Exception):
    """Wrong use: the message states the rule, the value and the choices (exit code 2)."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, and all of them."""
    names = list(known)
    close = get_close_matches(name, names, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"{hint}; choose from {', '.join(names)}"


class FailureError(AutoproxError):
    """What went wrong although nothing was used wrongly (exit code 1)."""


class MeasurementError(FailureError):
    """Networks that could not be measured, or measurements that could not be read."""
