"""The command `autoprox resume`: its options are those that a resumed run may have otherwise."""

from collections.abc import Iterator
from dataclasses import replace
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic.fields import FieldInfo

from autoprox.cli.command_factory import parameter, show_summary, with_progress
from autoprox.cli.common_options import Debug, Json, Quiet
from autoprox.configurations.commands import CONFIGURATIONS
from autoprox.declared_options import Option

Run = Annotated[Path, typer.Argument(help="A run's folder.", show_default=False)]
Force = Annotated[
    bool, typer.Option(help="Go on although versions, or what the run reads, have changed.")
]


def _offered() -> Iterator[tuple[str, FieldInfo, Option]]:
    """The options of all commands that a run may have otherwise, each once."""
    seen: set[str] = set()
    for config in CONFIGURATIONS.values():
        for name, field, option in config.described():
            if (option.resource or option.code) and name not in seen:
                seen.add(name)
                yield name, field, replace(option, default="as before")


def resume(**options: Any) -> None:
    """Go on with a run of any command, as if it had never stopped; a finished one is shown."""
    from autoprox import runner
    from autoprox.runs.folder import Run  # with torch, which takes seconds to import

    run, force, quiet = (options[name] for name in ("run", "force", "quiet"))
    given = {
        name: option.read(options[name]) if option.read else options[name]
        for name, _, option in _offered()
        if options[name] is not None
    }

    kind = Run.open(run).kind
    summary = with_progress(
        lambda progress: runner.resume(run, progress, force=force, **given), run, quiet
    )
    show_summary(kind, summary, options["json"])


PARAMETERS = {
    "run": Parameter("run", Parameter.POSITIONAL_OR_KEYWORD, annotation=Run),
    **{name: parameter(name, field, option) for name, field, option in _offered()},
    **{
        name: Parameter(name, Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in (("force", Force), ("quiet", Quiet), ("json", Json), ("debug", Debug))
    },
}
resume.__signature__ = Signature(list(PARAMETERS.values()))  # type: ignore[attr-defined]
resume.__annotations__ = {name: own.annotation for name, own in PARAMETERS.items()}
