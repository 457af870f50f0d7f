"""What the commands that make runs share: their given options, their progress, how they stop."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import typer

from autoprox.errors import AutoproxError

INTERRUPTED = 130
OWN = frozenset({"resume", "runs", "name", "json", "debug"})  # options that aren't configuration

Read = Mapping[str, Callable[[str], Any]]


class StoppedError(AutoproxError):
    """A failure of the machine, after which a run can go on."""


def given_options(context: typer.Context, read: Read = MappingProxyType({})) -> dict[str, Any]:
    """The options for a configuration that are on the command line, as values."""
    given = {}
    for option, value in context.params.items():
        source = context.get_parameter_source(option)
        if option not in OWN and source is not None and source.name != "DEFAULT":
            given[option] = read[option](value) if option in read else value
    return given


def followed(
    command: str, resume: Path | None, call: Callable[[Callable[..., None]], dict[str, Any]]
) -> dict[str, Any]:
    """What `call` returns, its progress shown; where it stops, how to go on."""
    from autoprox.report.progress import progress_on

    run = None if resume is None else str(resume)

    def follow(task: str, done: int, total: int, note: str) -> None:
        nonlocal run
        run = note if task == "run" else run
        progress(task, done, total, note)

    try:
        with progress_on() as progress:
            return call(follow)
    except (KeyboardInterrupt, OSError, MemoryError) as error:
        on = f"; `autoprox {command} --resume {run}` goes on" if run else ""
        if isinstance(error, KeyboardInterrupt):
            print(f"interrupted{on}", file=sys.stderr)
            raise typer.Exit(INTERRUPTED) from None
        message = system_message(error) if isinstance(error, OSError) else "out of memory"
        raise StoppedError(f"{message}{on}") from error


def system_message(error: OSError) -> str:
    """What the system says, and of which file."""
    where = f": {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{where}"
