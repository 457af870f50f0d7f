"""How far an evolution on several spaces is, as its run's checkpoint has it."""

import time
from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from autoprox.evolution import State
from autoprox.files.json_documents import Excerpt
from autoprox.runs.folder import Run, as_written
from autoprox.tasks.checkpoint import checkpoint, state_of


class SavedFold(Excerpt):
    """What is read of a finished fold."""

    held_out: str | None
    trained: list[str]
    expression: str
    formula: str


class Course:
    """What is found of the folds that are finished, and the islands of the one that is not."""

    def __init__(self, run: Run, pairs: Sequence[int], objective: str) -> None:
        """`pairs` says on how many spaces' datasets each fold has correlations."""
        self._run, self._started = run, time.monotonic()
        empty: dict[str, Any] = {"folds": [], "islands": [], "lines": 0, "seconds": 0.0}
        saved = run.read_checkpoint() or empty
        with as_written(run.path, "a checkpoint"):
            self.folds: list[dict[str, Any]] = list(saved["folds"])
            if len(TypeAdapter(list[SavedFold]).validate_python(self.folds)) > len(pairs):
                raise ValueError(f"there are {len(pairs)} folds")
            self.islands: list[State] = [
                state_of(island, pairs[len(self.folds)], objective) for island in saved["islands"]
            ]
            self._lines, self._before = int(saved["lines"]), float(saved["seconds"])
            run.truncate_log(self._lines)

    @property
    def seconds(self) -> float:
        """How long it has taken, interruptions left out."""
        return round(self._before + time.monotonic() - self._started, 3)

    def log(self, line: dict[str, Any]) -> None:
        """Append a line to the run's log, and write the checkpoint."""
        self._run.log({**line, "seconds": self.seconds})
        self._lines += 1
        self._write()

    def finish(self, fold: dict[str, Any]) -> None:
        """Take note of what was found of a fold."""
        self.folds.append(fold)
        self.islands = []
        self._write()

    def _write(self) -> None:
        self._run.checkpoint(
            {
                "folds": self.folds,
                "islands": [checkpoint(island, 0.0) for island in self.islands],
                "lines": self._lines,
                "seconds": self.seconds,
            }
        )
