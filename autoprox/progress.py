"""Progress of long tasks.

A function is called with the task (`collect`, `evolve`), how much of it is done, the total, and a
note. A total of 0 announces something once: the `run`, whose folder is the note; the `estimate`.
Other calls may come from any thread, and out of order. A note is text; a `Note` also has figures.
"""

from collections.abc import Callable

Progress = Callable[[str, int, int, str], None]  # task, done, total, note


class Note(str):
    """A note with figures, the most important of which are in its text.

    `value` is a metric and `of` its name: the fitness of the best formula, the loss of a training.
    `tried` counts the formulas so far; `invalid` of them have no score.
    """

    value: float | None
    of: str
    formula: str
    tried: int | None
    invalid: int | None

    def __new__(
        cls,
        text: str = "",
        *,
        value: float | None = None,
        of: str = "value",
        formula: str = "",
        tried: int | None = None,
        invalid: int | None = None,
    ) -> "Note":
        note = super().__new__(cls, text)
        note.value, note.of, note.formula = value, of, formula
        note.tried, note.invalid = tried, invalid
        return note


def silent(task: str, done: int, total: int, note: str) -> None:
    """Ignore progress."""
