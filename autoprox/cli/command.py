"""Makes the command of a task: an option for each field of its configuration."""

import errno
import sys
from collections.abc import Callable
from contextlib import nullcontext
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic.fields import FieldInfo

from autoprox.cli.options import Debug, DryRun, Json, Quiet
from autoprox.errors import (
    ClusterError,
    FailureError,
    TerminatedError,
    ended_by,
    is_out_of_memory,
    printable,
)
from autoprox.files.shell_command import command_line
from autoprox.options import Option, plain_type
from autoprox.progress import Progress, silent
from autoprox.tasks.shared import TaskConfig

FAILURE = 1
WRONG_NAMES = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR)  # of no such file
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
    """The function of a command that does the task of a configuration, or resumes its runs."""

    def run(context: typer.Context, **options: Any) -> None:
        resume, json, quiet = (options[name] for name in ("resume", "json", "quiet"))
        given = _given(config, context)
        if options["dry_run"] and resume is None:
            _show_estimate(config(**given), json)
            return

        def call(progress: Progress) -> dict[str, Any]:
            from autoprox.tasks import base  # it takes seconds, and help is quick

            if resume is None:
                return base.start(config(**given), progress, estimated=not quiet)
            return base.resume(resume, progress, config.kind, **given)

        finish(config.kind, followed(call, resume, quiet), json)

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
    from autoprox.report.terminal import layout  # with torch, which takes seconds to import
    from autoprox.tasks import base

    found = base.dry_run(config)
    if json:
        layout.show_json(found)
    else:
        text = (found["estimate"] or {}).get("text", "no estimate of how long it takes")
        layout.show(f"{found['name']}: {text}")


def followed(
    call: Callable[[Progress], dict[str, Any]], run: Path | None = None, quiet: bool = False
) -> dict[str, Any]:
    """What `call` returns, its progress shown unless it is quiet; where it stops, how to go on."""
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
            if error.errno in WRONG_NAMES and not begun:
                raise
            raise StoppedError(f"{system_message(error)}{on}") from error
        if not is_out_of_memory(error):
            raise
        on = f": `{command_line('resume', place)}` goes on, with more memory" if place else ""
        raise StoppedError(f"{OUT_OF_MEMORY}{on}") from error


def finish(kind: str, summary: dict[str, Any], json: bool) -> None:
    """Print what a run found; where it didn't find what it looked for, the exit code is 1."""
    from autoprox.report.terminal.layout import show, show_json
    from autoprox.report.terminal.summaries import report_of
    from autoprox.runs.folder import REPORT, as_written

    if json:
        show_json(summary)
    else:
        with as_written(summary["run"]):
            parts = report_of(kind, summary)
        show(*parts)
        if (page := Path(summary["run"], REPORT)).is_file():
            print(printable(f"Report: {page}"))
    if summary.get("success") is False:
        raise typer.Exit(FAILURE)


def system_message(error: OSError) -> str:
    """What the system says, and of which file."""
    where = f": {error.filename}" if error.filename else ""
    return f"{error.strerror or error}{where}"


def _given(config: type[TaskConfig], context: typer.Context) -> dict[str, Any]:
    """The options on the command line, as values."""
    given = {}
    for name, _, option in config.described():
        source = context.get_parameter_source(name)
        if option.listed and source is not None and source.name != "DEFAULT":
            value = context.params[name]
            given[name] = option.read(value) if option.read else value
    return given


def parameter(name: str, field: FieldInfo, option: Option) -> Parameter:
    """A parameter of typer's; one whose default is said in words is None unless it is given."""
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
