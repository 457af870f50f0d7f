"""Progress: a live panel on a terminal, a line from time to time elsewhere.

A task without a total is only announced.
"""

from __future__ import annotations

import math
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.panel import Panel as Frame
from rich.table import Table
from rich.text import Text

from autoprox.errors import printable
from autoprox.progress import Note, Progress

LINE_INTERVAL = 10.0  # seconds between two lines
LINE = 100  # characters
SHOWN = 6  # stages, at most
BAR = 16  # characters
CURVE = 40  # characters
TICKS = "▁▂▃▄▅▆▇█"


@dataclass
class Stage:
    """A task: its progress at the start of this process, and now."""

    began: float
    before: int
    done: int
    total: int
    told: float
    note: str = ""
    tried_before: int | None = None
    values: list[float] = field(default_factory=list)

    def tell(self, now: float, done: int, total: int, note: str) -> None:
        """Update the stage; calls of several threads may be out of order."""
        self.done, self.total = max(done, self.done), total
        self.told, self.note = now, note or self.note
        if isinstance(note, Note):
            if self.tried_before is None:
                self.tried_before = note.tried
            if note.value is not None and math.isfinite(note.value):
                self.values.append(note.value)

    def left(self, now: float) -> float | None:
        """Estimate the remaining seconds from the pace so far."""
        if not self.before < self.done < self.total:
            return None
        rest = (self.told - self.began) / (self.done - self.before) * (self.total - self.done)
        return max(0.0, rest - (now - self.told))

    def pace(self) -> float | None:
        """Return how many formulas are tried in a second."""
        tried = self.note.tried if isinstance(self.note, Note) else None
        if tried is None or self.tried_before is None or self.told <= self.began:
            return None
        return (tried - self.tried_before) / (self.told - self.began)


class Stages(dict[str, Stage]):
    """All stages so far by name; a stage that is restarted becomes the last."""

    def tell(self, now: float, task: str, done: int, total: int, note: str) -> Stage:
        """Update a stage, and return it."""
        if task not in self or (done == 0 and self[task].done):
            self.pop(task, None)
            self[task] = Stage(now, done, done, total, now)
        self[task].tell(now, done, total, note)
        return self[task]


class ProgressPanel:
    """The contents of a live display, which any thread may update by a call."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._title = "autoprox"
        self._stages = Stages()
        self._lock = threading.Lock()

    def __call__(self, task: str, done: int, total: int, note: str) -> None:
        if not total:
            self._title = Path(note).name if task == "run" else self._title
            self._console.print(
                task, printable(note), markup=False, highlight=False, soft_wrap=True
            )
            return
        with self._lock:
            self._stages.tell(self._clock(), task, done, total, note)

    def __rich__(self) -> Frame | Text:
        with self._lock:
            if not self._stages:
                return Text()
            now, rows = self._clock(), Table.grid(padding=(0, 2, 0, 0), expand=True)
            rows.add_column(no_wrap=True, overflow="ellipsis", max_width=24)
            rows.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
            for name, stage in list(self._stages.items())[-SHOWN:]:
                rows.add_row(Text(printable(name)), _how_far(stage, now))
            for name, words in _figures(list(self._stages.values())[-1]):
                rows.add_row(Text(name, "dim"), Text(printable(words)))
        return Frame(rows, title=Text(printable(self._title)), title_align="left")


def _how_far(stage: Stage, now: float) -> Text:
    full = BAR * min(stage.done, stage.total) // stage.total
    left = stage.left(now)
    if stage.done >= stage.total:
        words = f"in {clock_time(stage.told - stage.began)}"
    else:
        words = "" if left is None else f"{clock_time(left)} left"
    counted = f"  {stage.done:,}/{stage.total:,}  {words}"
    return Text.assemble(("━" * full, "green"), ("─" * (BAR - full), "dim"), counted)


def _figures(stage: Stage) -> Iterator[tuple[str, str]]:
    """Yield the lines of a stage's note."""
    note = stage.note
    if not isinstance(note, Note):
        if note:
            yield "now", note
        return
    if note.value is not None:
        yield "best" if note.formula else note.of, f"{note.value:.4f}  {note.formula}".rstrip()
    if len(stage.values) > 1:
        ends = f"{min(stage.values):.4f} to {max(stage.values):.4f}"
        yield f"{note.of} so far", f"{sparkline(stage.values, CURVE)}  {ends}"
    if note.tried is not None:
        pace, words = stage.pace(), [f"{note.tried:,}"]
        words += [] if pace is None else [f"{pace:,.1f} a second"]
        words += [] if note.invalid is None else [f"{note.invalid:,} without a score"]
        yield "tried", ", ".join(words)


def sparkline(values: Sequence[float], width: int) -> str:
    """Draw values as bars from the lowest to the highest; of each of `width` groups the last."""
    count = min(width, len(values))
    drawn = [values[(n + 1) * len(values) // count - 1] for n in range(count)]
    low, high = min(drawn, default=0.0), max(drawn, default=0.0)
    scale = (len(TICKS) - 1) / (high - low) if high > low else 0.0
    return "".join(TICKS[round((value - low) * scale)] for value in drawn)


def clock_time(seconds: float) -> str:
    """Write seconds as hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


@contextmanager
def progress_on(stream: TextIO | None = None) -> Iterator[Progress]:
    """Yield a function that shows progress on a stream (stderr), to be called from any thread."""
    stream = stream or sys.stderr
    console = Console(file=stream)
    plain = console.is_dumb_terminal or console.options.ascii_only
    if not console.is_terminal or plain:
        yield ProgressLines(stream)
        return
    panel = ProgressPanel(console)
    with Live(
        get_renderable=panel.__rich__, console=console, refresh_per_second=4, redirect_stdout=False
    ):
        yield panel


class ProgressLines:
    """A line when a task ends, and until then at most one every LINE_INTERVAL seconds."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._shown = clock()
        self._stages = Stages()
        self._lock = threading.Lock()

    def __call__(self, task: str, done: int, total: int, note: str) -> None:
        with self._lock:
            now = self._clock()
            stage = self._stages.tell(now, task, done, total, note)
            if done < total and now - self._shown < LINE_INTERVAL:
                return
            self._shown = now
            words = [f"{task} {done}/{total}" if total else task]
            if done < total and (left := stage.left(now)) is not None:
                words.append(f"{clock_time(left)} left")
            line = printable("  ".join([*words, note]).rstrip())
            if total and len(line) > LINE:
                line = f"{line[: LINE - 3]}..."
            print(line, file=self._stream, flush=True)
