"""Shows how far a run is: a bar on a terminal, a line now and then elsewhere.

A task without a total is only announced.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from autoprox.errors import printable

if TYPE_CHECKING:
    from autoprox.progress import Progress as Report

INTERVAL = 10.0  # seconds between two lines
LINE = 100  # characters


@contextmanager
def progress_on(stream: TextIO | None = None) -> Iterator[Report]:
    """A function that shows progress on a stream (stderr), to be called from any thread."""
    stream = stream or sys.stderr
    console = Console(file=stream)
    if not console.is_terminal or console.is_dumb_terminal:
        yield Lines(stream)
        return
    with _bars(console) as bars:
        yield Bars(bars)
    console.print()


class Bars:
    """A bar for each task, with the time that is left."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._tasks: dict[str, TaskID] = {}
        self._most: dict[str, int] = {}
        self._lock = threading.Lock()

    def __call__(self, task: str, done: int, total: int, note: str) -> None:
        if not total:
            self._bars.console.print(
                task, printable(note), markup=False, highlight=False, soft_wrap=True
            )
            return
        with self._lock:
            if task not in self._tasks:
                self._tasks[task] = self._bars.add_task(task, total=total, completed=done, note="")
            most = self._most[task] = max(done, self._most.get(task, 0))  # threads overtake
            self._bars.update(self._tasks[task], completed=most, note=printable(note))


class Lines:
    """A line when a task ends, and before that one every INTERVAL seconds at most."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._shown = clock()
        self._begun: dict[str, tuple[float, int]] = {}
        self._lock = threading.Lock()

    def __call__(self, task: str, done: int, total: int, note: str) -> None:
        with self._lock:
            now = self._clock()
            began, before = self._begun.setdefault(task, (now, done))
            if done < total and now - self._shown < INTERVAL:
                return
            self._shown = now
            words = [f"{task} {done}/{total}" if total else task]
            if before < done < total:
                seconds = (now - began) / (done - before) * (total - done)
                words.append(f"{_clock_time(seconds)} left")
            line = printable("  ".join([*words, note]).rstrip())
            print(_cut(line) if total else line, file=self._stream, flush=True)


def _bars(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn(
            "{task.fields[note]}",
            markup=False,
            table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1),
        ),
        console=console,
        expand=True,
    )


def _clock_time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"


def _cut(line: str) -> str:
    return line if len(line) <= LINE else f"{line[: LINE - 3]}..."
