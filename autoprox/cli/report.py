"""The command `autoprox report`."""

from pathlib import Path
from typing import Annotated

import typer

from autoprox.cli.common_options import Debug, Json, path
from autoprox.files.json_documents import Document


class WrittenReport(Document):
    """A page of runs that was written."""

    file: str
    format: str
    runs: list[str]


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs.", metavar="RUN...")],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The file.", show_default="report in the run's folder, or here", parser=path
        ),
    ] = None,
    format_: Annotated[
        str, typer.Option("--format", help="html, md (tables), svg (the plots) or png (Chromium).")
    ] = "html",
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show runs as a page: formula, results, plots, settings; of several, a comparison.

    The page is one HTML file that needs no network.
    """
    from autoprox.report.html.page_formats import write_report  # with torch, slow to import
    from autoprox.report.terminal import layout

    file = write_report(runs, format_, out)
    if json:
        written = WrittenReport(file=str(file), format=format_, runs=[str(run) for run in runs])
        layout.show_json(written.model_dump())
    else:
        print(f"Report: {file}")
