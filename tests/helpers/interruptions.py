"""Runs that are interrupted while they work."""

from collections.abc import Callable


class Stopped(Exception):  # noqa: N818
    """The exception that interrupts a run."""


def stop_at(task: str, occurrence: int) -> Callable[[str, int, int, str], None]:
    """Return a report of progress that interrupts a run when a task reports the nth time."""
    seen = []

    def progress(now: str, count: int, total: int, note: str) -> None:
        seen.append(now.split()[0])  # evolve 1/2 without other
        if seen.count(task) == occurrence:
            raise Stopped

    return progress
