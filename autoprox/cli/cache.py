"""The command `autoprox cache`."""

from pathlib import Path
from typing import Annotated

import typer

from autoprox.cli.options import Debug, Json


def cache(
    folder: Annotated[
        Path | None,
        typer.Option("--cache", help="Its folder.", metavar="DIR", show_default="the user's"),
    ] = None,
    clear: Annotated[
        bool, typer.Option("--clear", help="Remove what was measured; downloads stay.")
    ] = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the cache of measured statistics: its place, size, limit and oldest use; or clear it."""
    from autoprox.files.sizes import short
    from autoprox.report import layout  # with torch, which takes seconds to import
    from autoprox.report.machine import cache_report
    from autoprox.tasks.machine import cache_facts, clear_cache

    removed = clear_cache(folder) if clear else 0
    facts = cache_facts(folder)
    if json:
        layout.show_json({**facts, "removed": removed})
    else:
        layout.show(*([f"Removed: {short(removed)}B"] if clear else []), *cache_report(facts))
