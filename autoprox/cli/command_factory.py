"""Commands made from configurations: an option for each field."""

import errno
import sys
from collections.abc import Callable
from contextlib import nullcontext
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic.fields import FieldInfo

from autoprox.cli.common_options import Debug, DryRun, Json, Quiet
from autoprox.configurations.shared_options import TaskConfig
from autoprox.declared_options import Option, plain_type
from autoprox.errors import (
    ClusterError,
    FailureError,
    TerminatedError,
    ended_by,
    is_out_of_memory,
    printable,
)
from autoprox.files.shell_command import command_line
from autoprox.progress import Progress, silent

if TYPE_CHECKING:
    from autoprox.runs.summary import Summary

FAILURE = 1
UNUSABLE_PATHS = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR)
STOPPED = (
    *(KeyboardInterrupt, TerminatedError, ClusterError),
    *(OSError, MemoryError, RuntimeError),
)
OUT_OF_MEMORY = "out of memory"
Resume = Annotated[
    Path | None, typer.Option(help="Go on with this run, as it was begun.", metavar="RUN")
]


class StoppedError(FailureError):
    """A failure of the machine, after which a run can go on."""


def command(config: type[TaskConfig], text: str) -> Callable[..., None]:
    """Return the function of a command that does a configuration's task, or resumes its runs."""

    def run(context: typer.Context, **options: Any) -> None:
        resume, json, quiet = (options[name] for name in ("resume", "json", "quiet"))
        given = _given(config, context)
        if options["dry_run"] and resume is None:
            _show_estimate(config(**given), json)
            return

        def call(progress: Progress) -> "Summary":
            from autoprox import runner  # with torch, which takes seconds to import

            if resume is None:
                return runner.start(config(**given), progress, estimated=not quiet)
            return runner.resume(resume, progress, config.kind, **given)

        show_summary(config.kind, with_progress(call, resume, quiet), json)

    parameters = {
        "context": Parameter("context", Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
        **{n: parameter(n, f, option) for n, f, option in config.described() if option.listed},
        "resume": Parameter("resume", Parameter.KEYWORD_ONLY, default=None, annotation=Resume),
        "json": Parameter("json", Parameter.KEYWORD_ONLY, default=False, annotation=Json),
        "dry_run": Parameter("dry_run", Parameter.KEYWORD_ONLY, default=False, annotation=DryRun),
        "quiet": Parameter("quiet", Parameter.KEYWORD_ONLY, default=False, annotation=Quiet),
        "debug": Parameter("debug", Parameter.KEYWORD_ONLY, default=False, annotation=Debug),
    }
    run.__signature__ = Signature(list(parameters.values()))  # type: ignore[attr-defined]
    run.__annotations__ = {name: p.annotation for name, p in parameters.items()}
    run.__doc__ = text
    return run


def _show_estimate(config: TaskConfig, json: bool) -> None:
    from autoprox import runner  # with torch, which takes seconds to import
    from autoprox.report.terminal import layout

    found = runner.dry_run(config)
    if json:
        layout.show_json(found.model_dump(mode="json"))
    else:
        text = found.estimate or "no estimate of how long it takes"
        layout.show(f"{found.name}: {text}")


def with_progress(
    call: Callable[[Progress], "Summary"], run: Path | None = None, quiet: bool = False
) -> "Summary":
    """Call with a progress panel, unless quiet; an error that stops a run says how to go on."""
    from autoprox.report.terminal.progress import progress_on

    place, begun = None if run is None else str(run), False

    def follow(task: str, done: int, total: int, note: str) -> None:
        nonlocal place, begun
        if task == "run":
            place, begun = note, True
        progress(task, done, total, note)

    try:
        with nullcontext(silent) if quiet else progress_on() as progress:
            return call(follow)
    except STOPPED as error:
        on = f"; `{command_line('resume', place)}` goes on" if place else ""
        if isinstance(error, KeyboardInterrupt | TerminatedError):
            word, code = ended_by(error)
            print(f"{word}{printable(on)}", file=sys.stderr)
            sys.exit(code)
        if isinstance(error, ClusterError):
            raise StoppedError(f"{error}{on}") from error
        if isinstance(error, OSError):
            if error.errno in UNUSABLE_PATHS and not begun:
                raise
            raise StoppedError(f"{system_message(error)}{on}") from error
        if not is_out_of_memory(error):
            raise
        on = f": `{command_line('resume', place)}` goes on, with more memory" if place else ""
        raise StoppedError(f"{OUT_OF_MEMORY}{on}") from error


def show_summary(kind: str, summary: "Summary", json: bool) -> None:
    """Print what a run found; the exit code is 1 if it didn't find what it looked for."""
    from autoprox.report.terminal.layout import show, show_json
    from autoprox.report.terminal.run_report import run_report
    from autoprox.runs.folder import REPORT

    if json:
        show_json(summary.to_json())
    else:
        show(*run_report(kind, summary))
        if (page := Path(summary.run, REPORT)).is_file():
            print(printable(f"Report: {page}"))
    if getattr(summary, "success", True) is False:
        raise typer.Exit(FAILURE)


def system_message(error: OSError) -> str:
    """Return the system's message and the file that it is about."""
    where = f": {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{where}"


def _given(config: type[TaskConfig], context: typer.Context) -> dict[str, Any]:
    """Return the values of the options that are on the command line."""
    given = {}
    for name, _, option in config.described():
        source = context.get_parameter_source(name)
        if option.listed and source is not None and source.name != "DEFAULT":
            value = context.params[name]
            given[name] = option.read(value) if option.read else value
    return given


def parameter(name: str, field: FieldInfo, option: Option) -> Parameter:
    """Return typer's parameter; None if not given and the default is described in words."""
    kind = plain_type(field)[0]
    if option.repeated:
        kind = list[str]
    elif option.read is not None or kind not in (bool, int, float):
        kind = str
    worded = option.default is not None or field.is_required() or option.repeated
    panel = None if option.group == "Options" else option.group
    said: dict[str, Any] = {
        "help": option.help,
        "metavar": option.metavar,
        "rich_help_panel": panel,
        "show_default": option.default or not field.is_required(),
    }
    info = typer.Argument(**said) if option.argument else typer.Option(**said)
    return Parameter(
        name,
        Parameter.KEYWORD_ONLY,
        default=None if worded else field.default,
        annotation=Annotated[kind | None if worded else kind, info],
    )
