"""The command `autoprox suggest`."""

from typing import Any

import typer

from autoprox.cli.command_factory import call_with_progress, given_options, with_options
from autoprox.cli.common_flags import Debug, Json, Quiet
from autoprox.configurations.commands import SuggestConfig


def suggest_architectures(context: typer.Context, **options: Any) -> None:
    """Suggest what to train next, and add results."""
    config = SuggestConfig(**given_options(SuggestConfig, context))
    from autoprox.commands.suggest import suggest  # with torch, slow to import
    from autoprox.report.terminal.layout import show_result
    from autoprox.report.terminal.suggest_report import suggest_report

    found = call_with_progress(lambda own: suggest(config, own), quiet=options["quiet"])
    show_result(options["json"], found, lambda: suggest_report(found))


with_options(suggest_architectures, SuggestConfig, json=Json, quiet=Quiet, debug=Debug)
