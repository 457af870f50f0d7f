"""The errors that a user can cause: one line each, shown without a traceback."""

from collections.abc import Iterable
from difflib import get_close_matches

INTERRUPTED, TERMINATED = 130, 143  # exit codes: 128 and the number of the signal


class TerminatedError(BaseException):
    """SIGTERM, which ends the program as an interrupt does."""


def ended_by(signal: BaseException) -> tuple[str, int]:
    """How the program says that a signal ended it, and the exit code."""
    terminated = isinstance(signal, TerminatedError)
    return ("terminated", TERMINATED) if terminated else ("interrupted", INTERRUPTED)


class AutoproxError(Exception):
    """Wrong use: the message states the rule, the value and the choices (exit code 2)."""


class FailureError(AutoproxError):
    """What went wrong although nothing was used wrongly (exit code 1)."""


class MeasurementError(FailureError):
    """Networks that could not be measured, or measurements that could not be read."""


class ConfigError(AutoproxError):
    """An option that doesn't exist, or a value that breaks its rule."""


class RunError(AutoproxError):
    """A folder that can't be used as a run."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, and all of them."""
    names = list(known)
    close = get_close_matches(name, names, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"{hint}; choose from {', '.join(names)}"


def printable(text: str) -> str:
    """A text from outside without what a terminal would obey: escape sequences are spelt out."""
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


def one_line(error: BaseException) -> str:
    """An error of whatever kind, with its type, as one line."""
    reason = str(error).strip().partition("\n")[0] or "no message"
    return f"{type(error).__name__}: {reason}"
