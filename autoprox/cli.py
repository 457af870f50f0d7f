"""The command line: `autoprox evolve`, `show` and `bench`."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.error import URLError

import typer

import autoprox
from autoprox import cli_options as options
from autoprox.cli_bench import bench
from autoprox.errors import AutoproxError

FAILURE, WRONG_USE, INTERRUPTED = 1, 2, 130

app = typer.Typer(
    help="Discovers zero-cost proxies for transformers: formulas that rank untrained networks.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(bench)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit; an error is one line on stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = app(given or ["--help"], prog_name="autoprox", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILURE)
    except Exception as error:
        explained = _explain(error)
        if "--debug" in given or explained is None:
            raise
        line, code = explained
        print(f"error: {line}", file=sys.stderr)
    sys.exit(code)
