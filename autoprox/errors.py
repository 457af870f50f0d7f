"""The errors that a user can cause: one line each, shown without a traceback."""

from collections.abc import Iterable
from difflib import get_close_matches

INTERRUPTED, TERMINATED = 130, 143  # exit codes: 128 and the number of the signal
LONGEST = 2000  # characters of an error
EXHAUSTED = ("out of memory", "not enough memory", "can't allocate memory")  # as torch says it


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


class ClusterError(FailureError):
    """A scheduler that isn't there, or workers that can't do what they are to do."""


class ConfigError(AutoproxError):
    """An option that doesn't exist, or a value that breaks its rule."""


class RunError(AutoproxError):
    """A folder that can't be used as a run."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, and all of them."""
    names = list(known)
    close = get_close_matches(name[:LONGEST], names, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"{hint}; choose from {', '.join(names)}"


def printable(text: str) -> str:
    """A text from outside without what a terminal would obey: escape sequences are spelt out."""
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


def shown(text: str) -> str:
    """A text from outside as one line of bounded length, as an error shows it."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} [...] {text[-LONGEST // 2 :]}"
    return printable(text).replace("\n", "\\n")


def one_line(error: BaseException) -> str:
    """An error of whatever kind, with its type, as one line."""
    reason = str(error).strip().partition("\n")[0] or "no message"
    return f"{type(error).__name__}: {reason}"


def failure_of(error: BaseException) -> str:
    """Why a network failed, as one line; the machine's lack of memory says nothing of a network."""
    if is_out_of_memory(error):
        raise MemoryError(str(error)) from error
    return one_line(error)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the machine, or its graphics card, had too little memory."""
    is_runtime = isinstance(error, RuntimeError)
    return isinstance(error, MemoryError) or (is_runtime and lacked_memory(str(error)))


def lacked_memory(reason: str | None) -> bool:
    """Whether the recorded reason of a failure is that the machine had too little memory."""
    text = (reason or "").lower()
    return text.startswith("memoryerror") or any(words in text for words in EXHAUSTED)
