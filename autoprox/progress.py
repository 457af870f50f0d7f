"""How whatever takes long tells how far it is.

It calls a function with what is done (`collect`, `evolve`), how much of it, of how much, and a
note. A total of 0 announces something once: the `run`, whose folder is the note; the `estimate`.
The rest may come from any thread, a slower one later. A note is text; a `Note` has figures beside.
"""

from collections.abc import Callable

Progress = Callable[[str, int, int, str], None]  # what is done, how much of it, of how much, a note


class Note(str):
    """A note, and the figures of which its text says the most important.

    `value` is what is followed, and `of` says what that is: the fitness of the best formula, the
    loss of a training. Of what has been tried so far, `invalid` have no score.
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
        """The text, and what figures there are."""
        note = super().__new__(cls, text)
        note.value, note.of, note.formula = value, of, formula
        note.tried, note.invalid = tried, invalid
        return note


def silent(task: str, done: int, total: int, note: str) -> None:
    """Progress that nobody follows."""
