"""Commands made from configurations: an option for each field."""

import errno
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from pydantic.fields import FieldInfo

from autoprox.cli.common_flags import Debug, DryRunFlag, Json, Quiet
from autoprox.cli.help_layout import HelpAll, HelpfulCommand, examples, offered
from autoprox.configurations.shared_options import CommandConfig, TaskConfig
from autoprox.declared_options import GENERAL, Option, Options, plain_type
from autoprox.errors import (
    ClusterError,
    FailureError,
    TerminatedError,
    ended_by,
    is_out_of_memory,
    printable,
)
from autoprox.files.rerun_command import rerun_command_line
from autoprox.progress import Progress, silent

if TYPE_CHECKING:
    from autoprox.runs.summary import Summary

R = TypeVar("R")

FAILURE = 1
UNUSABLE_PATHS = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR)
STOPPING_ERRORS = (
    *(KeyboardInterrupt, TerminatedError, ClusterError),
    *(OSError, MemoryError, RuntimeError),
)
OUT_OF_MEMORY = "out of memory"


class StoppedError(FailureError):
    """A failure of the machine, after which a run can go on."""


def add_command(
    group: typer.Typer, name: str, config: type[TaskConfig], panel: str | None = None
) -> None:
    """Add the command that does a configuration's task."""
    add_function(group, name, command(config), config.examples, panel)


def add_function(
    group: typer.Typer,
    name: str,
    function: Callable[..., None],
    lines: Sequence[str],
    panel: str | None = None,
) -> None:
    """Add a function as a command, with its examples, in a panel of the group's help."""
    group.command(name, cls=HelpfulCommand, epilog=examples(lines), rich_help_panel=panel)(function)


def command(config: type[TaskConfig]) -> Callable[..., None]:
    """Return the function of a command that does a configuration's task."""

    def run(context: typer.Context, **options: Any) -> None:
        quiet = options["quiet"]
        given = given_options(config, context)
        if options["dry_run"]:
            from autoprox import runner  # with torch, which takes seconds to import
            from autoprox.report.terminal.layout import show_result

            found = runner.dry_run(config(**given))
            estimate = found.estimate or "no estimate of how long it takes"
            show_result(options["json"], found, lambda: [f"{found.name}: {estimate}"])
            return

        def call(progress: Progress) -> "Summary":
            from autoprox import runner

            return runner.start(config(**given), progress, estimated=not quiet)

        show_summary(config.kind, call_with_progress(call, quiet=quiet), options["json"])

    return with_options(run, config, json=Json, dry_run=DryRunFlag, quiet=Quiet, debug=Debug)


def with_options(
    function: Callable[..., None], config: type[CommandConfig], **more: Any
) -> Callable[..., None]:
    """Give a function of a context and keywords the options of a configuration, and more flags."""
    function.__doc__ = config.__doc__
    rest = {name: (field, option) for name, field, option in config.described() if option.listed}
    common = {name: rest.pop(name) for name in config.common}
    hides = bool(common)
    return with_signature(
        function,
        Parameter("context", Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context),
        *(option_parameter(n, f, replace(own, group=GENERAL)) for n, (f, own) in common.items()),
        *(option_parameter(n, f, own, hides) for n, (f, own) in rest.items()),
        *flags(**more),
        *(flags(help_all=HelpAll) if hides else ()),
    )


def given_options(config: type[Options], context: typer.Context) -> dict[str, Any]:
    """Return the options that are on the command line, as a configuration takes them."""
    given = {}
    for name, _, option in config.described():
        source = context.get_parameter_source(name)
        if option.listed and source is not None and source.name != "DEFAULT":
            value = context.params[name]
            given[name] = option.read(value) if option.read else value
    return given


def with_signature(function: Callable[..., None], *parameters: Parameter) -> Callable[..., None]:
    """Give a function of keywords the parameters that typer makes options of, each once."""
    named = {parameter.name: parameter for parameter in parameters}
    function.__signature__ = Signature(list(named.values()))  # type: ignore[attr-defined]
    function.__annotations__ = {name: own.annotation for name, own in named.items()}
    return function


def flags(**annotations: Any) -> Iterator[Parameter]:
    """Yield the parameters of flags."""
    for name, annotation in annotations.items():
        yield Parameter(name, Parameter.KEYWORD_ONLY, default=False, annotation=annotation)


def call_with_progress(
    call: Callable[[Progress], R], run: Path | None = None, quiet: bool = False
) -> R:
    """Call with a progress panel unless quiet; errors that stop a run say how to go on."""
    from autoprox.report.terminal.progress_display import progress_on

    folder, begun = None if run is None else str(run), False

    def follow(task: str, done: int, total: int, note: str) -> None:
        nonlocal folder, begun
        if task == "run":
            folder, begun = note, True
        progress(task, done, total, note)

    try:
        with nullcontext(silent) if quiet else progress_on() as progress:
            return call(follow)
    except STOPPING_ERRORS as error:
        on = f"; `{rerun_command_line('resume', folder)}` continues it" if folder else ""
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
        on = (
            f": `{rerun_command_line('resume', folder)}` continues it with more memory"
            if folder
            else ""
        )
        raise StoppedError(f"{OUT_OF_MEMORY}{on}") from error


def show_summary(kind: str, summary: "Summary", json: bool) -> None:
    """Print a run's summary; the exit code is 1 if a rediscovery failed."""
    from autoprox.report.terminal.layout import show, show_json
    from autoprox.report.terminal.run_report_by_kind import run_report
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


def option_parameter(
    name: str, field: FieldInfo, option: Option, hidden: bool = False
) -> Parameter:
    """Return an option as typer's parameter; None is the default if that is told in words."""
    kind = plain_type(field)[0]
    if option.repeated:
        kind = list[str]
    elif option.read is not None or kind not in (bool, int, float):
        kind = str
    required = field.is_required()
    worded = option.default is not None or option.repeated
    said: dict[str, Any] = {
        **(offered(option.choices) if option.choices else {}),
        "help": option.help,
        "rich_help_panel": None if option.group == GENERAL else option.group,
        "show_default": option.default or not required,
        "hidden": hidden,
    }
    flags_of = (f"--{name.replace('_', '-')}", option.short) if option.short else ()
    if option.metavar:
        said["metavar"] = option.metavar
    return Parameter(
        name,
        Parameter.KEYWORD_ONLY,
        default=Parameter.empty if required else None if worded else field.default,
        annotation=Annotated[
            kind | None if worded and not required else kind,
            typer.Argument(**said) if option.argument else typer.Option(*flags_of, **said),
        ],
    )
