"""The command `autoprox doctor`."""

from pathlib import Path

import typer

from autoprox.cli.command_factory import FAILURE
from autoprox.cli.common_options import DataDir, Debug, Json


def doctor(data_dir: DataDir = None, json: Json = False, debug: Debug = False) -> None:
    """Show what is here: versions, device, data, cache, and what of it can't be used.

    The exit code is 1 if the cache or the runs can't be written. Optional packages are imported on
    trial in another process.
    """
    from autoprox.commands.doctor import machine_facts
    from autoprox.report.terminal import layout  # with torch, which takes seconds to import
    from autoprox.report.terminal.machine_reports import machine_report

    facts = machine_facts(None if data_dir is None else Path(data_dir))
    if json:
        layout.show_json(facts.model_dump(mode="json"))
    else:
        layout.show(*machine_report(facts))
    if not (facts.cache.writable and facts.runs.writable):
        raise typer.Exit(FAILURE)
