"""The errors that a user can cause: one line each, shown without a traceback."""

from collections.abc import Iterable
from difflib import get_close_matches

INTERRUPTED, TERMINATED = 130, 143  # exit codes: 128 and the number of the signal
LONGEST = 2000  # characters of an error
EXHAUSTED = ("out of memory", "not enough memory", "can't allocate memory")  # as torch says it


class TerminatedError(BaseException):
    """SIGTERM, which ends the program as an interrupt does."""


def ended_by(signal: BaseException) -> tuple[str, int]:
    """Return the message about the signal that ended the program, and the exit code."""
    terminated = isinstance(signal, TerminatedError)
    return ("terminated", TERMINATED) if terminated else ("interrupted", INTERRUPTED)


class AutoproxError(Exception):
    """Wrong use: the message states the rule, the value and the choices (exit code 2)."""


class FailureError(AutoproxError):
    """A failure that isn't wrong use (exit code 1)."""


class MeasurementError(FailureError):
    """Networks that could not be measured, or measurements that could not be read."""


class ClusterError(FailureError):
    """A scheduler that doesn't answer, or workers that can't do their tasks."""


class ConfigError(AutoproxError):
    """An option that doesn't exist, or a value that breaks its rule."""


class RunError(AutoproxError):
    """A folder that can't be used as a run."""


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown name: the nearest known one, and all names."""
    names = list(known)
    close = get_close_matches(name[:LONGEST], names, n=1)
    hint = f" (did you mean {close[0]}?)" if close else ""
    return f"{hint}; choose from {', '.join(names)}"


def printable(text: str) -> str:
    """Spell out the escape sequences of a text from outside, which a terminal would obey."""
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


def ellipsized_line(text: str) -> str:
    """Return a text from outside as one line of bounded length."""
    if len(text) > LONGEST:
        text = f"{text[: LONGEST // 2]} [...] {text[-LONGEST // 2 :]}"
    return printable(text).replace("\n", "\\n")


def one_line(error: BaseException) -> str:
    """Return an error, with its type, as one line."""
    reason = str(error).strip().partition("\n")[0] or "no message"
    return f"{type(error).__name__}: {reason}"


def failure_of(error: BaseException) -> str:
    """Return a network's failure as one line; re-raise a lack of memory, the machine's failure."""
    if is_out_of_memory(error):
        raise MemoryError(str(error)) from error
    return one_line(error)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the machine, or its graphics card, had too little memory."""
    is_runtime = isinstance(error, RuntimeError)
    return isinstance(error, MemoryError) or (is_runtime and lacked_memory(str(error)))


def lacked_memory(reason: str | None) -> bool:
    """Return whether the recorded reason of a failure is a lack of memory."""
    text = (reason or "").lower()
    return text.startswith("memoryerror") or any(words in text for words in EXHAUSTED)
