"""Options of the command line that aren't in a configuration."""

from pathlib import Path
from typing import Annotated

import typer

from autoprox.errors import ConfigError


def path(text: str) -> Path:
    """Read a path; pathlib would take an empty text for the current folder."""
    if not text:
        raise ConfigError("a path must name something, but got nothing")
    return Path(text)


Debug = Annotated[bool, typer.Option("--debug", help="Show an error's traceback.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
DryRunFlag = Annotated[
    bool, typer.Option("--dry-run", help="Check everything, estimate the time, and stop.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
DataDir = Annotated[
    Path | None,
    typer.Option(
        help="Folder of the benchmarks' files.",
        show_default="$AUTOPROX_DATA, then the user's cache",
        metavar="DIR",
    ),
]
