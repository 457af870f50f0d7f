"""The command `autoprox runs`."""

from pathlib import Path
from typing import Annotated

import typer

from autoprox.cli.options import Debug, Json, path


def runs(
    folder: Annotated[Path, typer.Argument(help="Where the runs are.", parser=path)] = Path("runs"),
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List the runs of a folder: kind, benchmark, fitness, test tau and age, the newest first."""
    from autoprox.report.terminal import layout  # with torch, which takes seconds to import
    from autoprox.report.terminal.runs import runs_report
    from autoprox.runs.overview import runs_below

    found = runs_below(folder)
    if json:
        layout.show_json(found)
    else:
        layout.show(*runs_report(found, folder))
