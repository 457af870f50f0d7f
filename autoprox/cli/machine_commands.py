"""The commands `autoprox cache` and `autoprox doctor`."""

from pathlib import Path
from typing import Annotated

import typer

from autoprox.cli.command_factory import FAILURE
from autoprox.cli.common_flags import DataDir, Debug, Json, optional, path_option
from autoprox.errors import ConfigError
from autoprox.files.human_readable_sizes import format_with_unit, parse_bytes, parse_days

CACHE_EXAMPLES = ("cache", "cache --clear", "cache --clear --older-than 30 --json")
DOCTOR_EXAMPLES = ("doctor", "doctor --json", "doctor --data-dir tables")


def manage_cache(
    folder: Annotated[
        Path | None, path_option("Folder of the cache.", "the user's", "--cache", metavar="DIR")
    ] = None,
    clear: Annotated[
        bool, typer.Option("--clear", help="Remove all measurements; downloads stay.")
    ] = False,
    older_than: Annotated[
        str | None,
        optional(
            "With --clear: remove only what hasn't been used for this long.", "all", metavar="DAYS"
        ),
    ] = None,
    beyond: Annotated[
        str | None,
        optional(
            "With --clear: remove the least recently used files until this much is left.",
            "all",
            metavar="SIZE",
        ),
    ] = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Show the cache of measured statistics (folder, size, limits and oldest use), or clear it.

    Runs keep it within $AUTOPROX_CACHE_LIMIT and $AUTOPROX_CACHE_AGE, or their --cache-limit and
    --cache-age.
    """
    if not clear and (older_than, beyond) != (None, None):
        raise ConfigError("--older-than and --beyond say what --clear removes: give it too")
    age = None if older_than is None else parse_days(older_than)
    limit = None if beyond is None else parse_bytes(beyond)
    from autoprox.commands.cache import ClearedCache, cache_facts, clear_cache
    from autoprox.report.terminal.layout import show_result  # with torch, slow to import
    from autoprox.report.terminal.machine_reports import cache_report

    removed = clear_cache(folder, limit, age) if clear else 0
    facts = ClearedCache(**dict(cache_facts(folder)), removed=removed)
    head = [f"Removed: {format_with_unit(removed)}B"] if clear else []
    show_result(json, facts, lambda: [*head, *cache_report(facts)])


def check_machine(data_dir: DataDir = None, json: Json = False, debug: Debug = False) -> None:
    """Show versions, device, data and cache, and report problems with them.

    The exit code is 1 if the cache or the runs can't be written. Optional packages are imported in
    another process, as a test.
    """
    from autoprox.commands.doctor import machine_facts
    from autoprox.report.terminal.layout import show_result  # with torch, slow to import
    from autoprox.report.terminal.machine_reports import machine_report

    facts = machine_facts(data_dir)
    show_result(json, facts, lambda: machine_report(facts))
    if not (facts.cache.writable and facts.runs.writable):
        raise typer.Exit(FAILURE)
