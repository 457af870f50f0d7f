"""Shows how far a run is: a live panel on a terminal, a line now and then elsewhere.

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
from rich.live import Live

from autoprox.errors import printable
from autoprox.report.terminal.panel import Panel, Stages, clock_time

if TYPE_CHECKING:
    from autoprox.progress import Progress as Report

INTERVAL = 10.0  # seconds between two lines
LINE = 100  # characters


@contextmanager
def progress_on(stream: TextIO | None = None) -> Iterator[Report]:
    """A function that shows progress on a stream (stderr), to be called from any thread."""
    stream = stream or sys.stderr
    console = Console(file=stream)
    plain = console.is_dumb_terminal or console.options.ascii_only
    if not console.is_terminal or plain:
        yield Lines(stream)
        return
    panel = Panel(console)
    with Live(
        get_renderable=panel.__rich__, console=console, refresh_per_second=4, redirect_stdout=False
    ):
        yield panel


class Lines:
    """A line when a task ends, and before that one every INTERVAL seconds at most."""

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
            if done < total and now - self._shown < INTERVAL:
                return
            self._shown = now
            words = [f"{task} {done}/{total}" if total else task]
            if done < total and (left := stage.left(now)) is not None:
                words.append(f"{clock_time(left)} left")
            line = printable("  ".join([*words, note]).rstrip())
            print(_cut(line) if total else line, file=self._stream, flush=True)


def _cut(line: str) -> str:
    return line if len(line) <= LINE else f"{line[: LINE - 3]}..."
