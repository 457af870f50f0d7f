"""How whatever takes long tells how far it is."""

from collections.abc import Callable

Progress = Callable[[str, int, int, str], None]  # what is done, how much of it, of how much, a note


def silent(task: str, done: int, total: int, note: str) -> None:
    """Progress that nobody follows."""
