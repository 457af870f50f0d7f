"""The command `autoprox suggest`."""

from inspect import Parameter
from typing import Any

import typer

from autoprox.cli.command_factory import (
    call_with_progress,
    flags,
    given_options,
    option_parameter,
    with_signature,
)
from autoprox.cli.common_flags import Debug, Json, Quiet
from autoprox.configurations.commands import SuggestConfig


def suggest_architectures(context: typer.Context, **options: Any) -> None:
    config = SuggestConfig(**given_options(SuggestConfig, context))
    from autoprox.commands.suggest import suggest  # with torch, slow to import
    from autoprox.report.terminal.layout import show_result
    from autoprox.report.terminal.suggest_report import suggest_report

    found = call_with_progress(lambda own: suggest(config, own), quiet=options["quiet"])
    show_result(options["json"], found, lambda: suggest_report(found))


suggest_architectures.__doc__ = SuggestConfig.__doc__
with_signature(
    suggest_architectures,
    Parameter("context", Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
    *(
        option_parameter(name, field, own)
        for name, field, own in SuggestConfig.described()
        if own.listed
    ),
    *flags(json=Json, quiet=Quiet, debug=Debug),
)
