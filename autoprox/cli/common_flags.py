"""Options of the command line that aren't in a configuration."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer.models import OptionInfo

from autoprox.errors import ConfigError


def path(text: str) -> Path:
    """Read a path; pathlib would take an empty text for the current folder."""
    if not text:
        raise ConfigError("a path must name something, but got nothing")
    return Path(text)


def optional(help: str, default: str, *names: str, **more: Any) -> OptionInfo:  # noqa: A002
    """Return an option that may be left out, with the words that state what holds then."""
    found: OptionInfo = typer.Option(*names, help=help, show_default=default, **more)
    return found


def path_option(help: str, default: str, *names: str, **more: Any) -> OptionInfo:  # noqa: A002
    """Return an option that is a path, and may be left out."""
    return optional(help, default, *names, parser=path, **more)


Debug = Annotated[bool, typer.Option("--debug", help="Show an error's traceback.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document to stdout.")]
DryRunFlag = Annotated[
    bool, typer.Option("--dry-run", help="Check everything, estimate the time, and stop.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
DataDir = Annotated[
    Path | None,
    optional(
        "Folder of the benchmarks' files.", "$AUTOPROX_DATA, then the user's cache", metavar="DIR"
    ),
]
