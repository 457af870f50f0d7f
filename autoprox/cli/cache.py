"""The command `autoprox cache`."""

from pathlib import Path
from typing import Annotated

import typer

from autoprox.cli.common_options import Debug, Json, path
from autoprox.errors import ConfigError
from autoprox.files.human_readable import compact, parse_bytes, parse_days


def cache(
    folder: Annotated[
        Path | None,
        typer.Option(
            "--cache", help="Its folder.", metavar="DIR", show_default="the user's", parser=path
        ),
    ] = None,
    clear: Annotated[
        bool, typer.Option("--clear", help="Remove what was measured; downloads stay.")
    ] = False,
    older_than: Annotated[
        str | None,
        typer.Option(
            help="With --clear: only what wasn't used for so long.",
            metavar="DAYS",
            show_default="all",
        ),
    ] = None,
    beyond: Annotated[
        str | None,
        typer.Option(
            help="With --clear: only the least recently used, until so much is left.",
            metavar="SIZE",
            show_default="all",
        ),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the cache of measured statistics: its place, size, bounds and oldest use; or clear it.

    Runs keep it within $AUTOPROX_CACHE_LIMIT and $AUTOPROX_CACHE_AGE, or their --cache-limit and
    --cache-age.
    """
    if not clear and (older_than, beyond) != (None, None):
        raise ConfigError("--older-than and --beyond say what --clear removes: give it too")
    age = None if older_than is None else parse_days(older_than)
    limit = None if beyond is None else parse_bytes(beyond)
    from autoprox.commands.cache import ClearedCache, cache_facts, clear_cache
    from autoprox.report.terminal import layout  # with torch, which takes seconds to import
    from autoprox.report.terminal.machine_reports import cache_report

    removed = clear_cache(folder, limit, age) if clear else 0
    facts = cache_facts(folder)
    if json:
        cleared = ClearedCache(**dict(facts), removed=removed)
        layout.show_json(cleared.model_dump(mode="json"))
    else:
        layout.show(*([f"Removed: {compact(removed)}B"] if clear else []), *cache_report(facts))
