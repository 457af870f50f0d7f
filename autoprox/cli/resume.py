"""The command `autoprox resume`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from autoprox.cli.command import finish, followed
from autoprox.cli.options import Debug, Json, Quiet
from autoprox.files.sizes import read_bytes, read_days
from autoprox.progress import Progress


def resume(
    run: Annotated[Path, typer.Argument(help="A run's folder.", show_default=False)],
    workers: Annotated[int | None, typer.Option(help="Threads.", show_default="as before")] = None,
    memory: Annotated[
        str | None,
        typer.Option(help="Of evolve: for statistics.", metavar="SIZE", show_default="as before"),
    ] = None,
    cache: Annotated[
        str | None,
        typer.Option(help="Folder of statistics.", metavar="DIR|URL", show_default="as before"),
    ] = None,
    cache_limit: Annotated[
        str | None,
        typer.Option(help="Of old statistics.", metavar="SIZE", show_default="as before"),
    ] = None,
    cache_age: Annotated[
        str | None,
        typer.Option(help="Of old statistics.", metavar="DAYS", show_default="as before"),
    ] = None,
    backend: Annotated[
        str | None, typer.Option(help="local or dask.", show_default="as before")
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Of dask.", metavar="HOST:PORT", show_default="as before"),
    ] = None,
    evaluator: Annotated[
        str | None, typer.Option(help="Of search: the function of the run, to call it again.")
    ] = None,
    teacher: Annotated[
        str | None, typer.Option(help="Of bench build: the same of its teacher.")
    ] = None,
    force: Annotated[
        bool, typer.Option(help="Go on although versions, or what the run reads, have changed.")
    ] = False,
    quiet: Quiet = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Go on with a run of any command, as if it had never stopped; a finished one is shown."""
    from autoprox.runs.folder import Run  # with torch, which takes seconds to import
    from autoprox.tasks import base

    resources = {
        "workers": workers,
        "memory": memory and read_bytes(memory),
        "cache": cache,
        "cache_limit": cache_limit and read_bytes(cache_limit),
        "cache_age": cache_age and read_days(cache_age),
        "backend": backend,
        "scheduler": scheduler,
        "evaluator": evaluator,
        "teacher": teacher,
    }
    given: dict[str, Any] = {n: value for n, value in resources.items() if value is not None}

    def call(progress: Progress) -> dict[str, Any]:
        return base.resume(run, progress, force=force, **given)

    kind = Run.open(run).kind
    finish(kind, followed(call, run, quiet), json)
