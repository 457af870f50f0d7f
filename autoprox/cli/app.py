"""The command line: all commands, their errors and exit codes."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated

import typer

import autoprox
from autoprox.cli.bench_commands import bench
from autoprox.cli.command_factory import (
    FAILURE,
    OUT_OF_MEMORY,
    UNUSABLE_PATHS,
    add_command,
    add_function,
    system_message,
)
from autoprox.cli.export_commands import export
from autoprox.cli.help_layout import (
    EVALUATE,
    MANAGE,
    SEARCH,
    SUPERNETS,
    HelpfulGroup,
    examples,
)
from autoprox.cli.machine_commands import (
    CACHE_EXAMPLES,
    DOCTOR_EXAMPLES,
    check_machine,
    manage_cache,
)
from autoprox.cli.run_commands import RESUME_EXAMPLES, RUN_COMMANDS, resume_run
from autoprox.cli.score_command import SCORE_EXAMPLES, score_by_proxy
from autoprox.cli.show_commands import (
    REPORT_EXAMPLES,
    RUNS_EXAMPLES,
    SHOW_EXAMPLES,
    list_runs,
    report_runs,
    show_proxies,
)
from autoprox.cli.suggest_command import suggest_architectures
from autoprox.cli.supernet_commands import supernet
from autoprox.configurations.commands import SuggestConfig
from autoprox.errors import (
    INTERRUPTED,
    AutoproxError,
    FailureError,
    ellipsized_line,
    is_out_of_memory,
    one_line,
)

WRONG_USE = 2

app = typer.Typer(
    pretty_exceptions_enable=False,
    cls=HelpfulGroup,
    epilog=examples(
        (
            "evolve --datasets cifar100,flowers,chaoyang",
            "search --space pit --proxy dss++ --params 5M:10M",
            "rank --proxies snip,dss++,params --space pit",
        )
    ),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit; an error is one line on stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = app(given or ["--help"], prog_name="autoprox", standalone_mode=False)
        sys.stdout.flush()
        if code == INTERRUPTED:  # typer's code for an interrupt before a run
            raise KeyboardInterrupt
    except typer.Abort:
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILURE
    except Exception as error:
        if "--debug" in given:
            raise
        line, code = message_and_code(error)
        with suppress(OSError):  # the disk on which errors are kept may be full
            print(f"error: {ellipsized_line(line)}", file=sys.stderr)
    sys.exit(code)


def message_and_code(error: Exception) -> tuple[str, int]:
    """Return the message of an error, and the exit code."""
    if isinstance(error, AutoproxError):
        return str(error), FAILURE if isinstance(error, FailureError) else WRONG_USE
    if is_out_of_memory(error):
        return OUT_OF_MEMORY, FAILURE
    if isinstance(error, OSError):
        return system_message(error), WRONG_USE if error.errno in UNUSABLE_PATHS else FAILURE
    if hasattr(error, "format_message"):  # a typer usage error, whose class depends on its version
        message, context = str(error.format_message()).rstrip(".?"), getattr(error, "ctx", None)
        if context is not None:
            commands = getattr(context.command, "commands", None)
            message += (
                f"; choose from {', '.join(commands)}"
                if commands
                else f"; see {context.command_path} --help"
            )
        return message, WRONG_USE
    return f"{one_line(error)} (--debug shows where)", FAILURE


def _version(wanted: bool) -> None:
    if wanted:
        print(f"autoprox {autoprox.__version__}")
        raise typer.Exit


@app.callback()
def autoprox_(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Discovers zero-cost proxies for transformers: formulas that rank untrained networks."""


def _add_all() -> None:
    """Add all commands, each to a panel of the help."""
    for name, config, panel in RUN_COMMANDS:
        add_command(app, name, config, panel)
    add_function(app, "score", score_by_proxy, SCORE_EXAMPLES, EVALUATE)
    add_function(app, "suggest", suggest_architectures, SuggestConfig.examples, SEARCH)
    app.add_typer(bench, rich_help_panel=EVALUATE)
    app.add_typer(export, rich_help_panel=SEARCH)
    app.add_typer(supernet, rich_help_panel=SUPERNETS)
    for function, name, lines in (
        (show_proxies, "show", SHOW_EXAMPLES),
        (report_runs, "report", REPORT_EXAMPLES),
        (list_runs, "runs", RUNS_EXAMPLES),
        (resume_run, "resume", RESUME_EXAMPLES),
        (manage_cache, "cache", CACHE_EXAMPLES),
        (check_machine, "doctor", DOCTOR_EXAMPLES),
    ):
        add_function(app, name, function, lines, MANAGE)


_add_all()
