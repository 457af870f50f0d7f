"""The command `autoprox runs`."""

from pathlib import Path
from typing import Annotated

import typer

from autoprox.cli.common_options import Debug, Json, path


def runs(
    folder: Annotated[Path, typer.Argument(help="Where the runs are.", parser=path)] = Path("runs"),
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List the runs of a folder: kind, benchmark, fitness, test tau and age, the newest first."""
    from autoprox.loaded_runs import runs_below
    from autoprox.report.terminal import layout  # with torch, which takes seconds to import
    from autoprox.report.terminal.run_lists import runs_report

    found = runs_below(folder)
    if json:
        layout.show_json([row.model_dump() for row in found])
    else:
        layout.show(*runs_report(found, folder))
