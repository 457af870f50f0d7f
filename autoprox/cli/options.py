"""The options that commands have beside those of a configuration."""

from typing import Annotated

import typer

Debug = Annotated[bool, typer.Option("--debug", help="Show an error's traceback.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check all, say what it would take, and stop.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]
DataDir = Annotated[
    str | None,
    typer.Option(
        help="Folder of the benchmarks' files.",
        show_default="$AUTOPROX_DATA, then the user's cache",
        metavar="DIR",
    ),
]
