"""The command line: all commands, their errors and exit codes."""

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer

import autoprox
from autoprox.cli.bench import bench
from autoprox.cli.cache import cache
from autoprox.cli.command_factory import FAILURE, OUT_OF_MEMORY, UNUSABLE_PATHS, system_message
from autoprox.cli.doctor import doctor
from autoprox.cli.export import export
from autoprox.cli.report import report
from autoprox.cli.resume import resume
from autoprox.cli.run_commands import compare, evolve, prenas, rank, rediscover, s3, search
from autoprox.cli.runs import runs
from autoprox.cli.score import score
from autoprox.cli.show import show
from autoprox.cli.supernet import supernet
from autoprox.errors import (
    INTERRUPTED,
    AutoproxError,
    FailureError,
    is_out_of_memory,
    one_line,
    shown,
)

WRONG_USE = 2

app = typer.Typer(
    pretty_exceptions_enable=False,
    epilog="Example: autoprox evolve --datasets cifar100,flowers,chaoyang",
)
app.add_typer(bench)
app.add_typer(export)
app.add_typer(supernet)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit; an error is one line on stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = app(given or ["--help"], prog_name="autoprox", standalone_mode=False)
        sys.stdout.flush()
        if code == INTERRUPTED:  # as typer says it, before a run was begun
            raise KeyboardInterrupt
    except typer.Abort:
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILURE
    except Exception as error:
        if "--debug" in given:
            raise
        line, code = explained(error)
        with suppress(OSError):  # the disk on which errors are kept may be full
            print(f"error: {shown(line)}", file=sys.stderr)
    sys.exit(code)


def explained(error: Exception) -> tuple[str, int]:
    """Return the message of an error, and the exit code."""
    if isinstance(error, AutoproxError):
        return str(error), FAILURE if isinstance(error, FailureError) else WRONG_USE
    if is_out_of_memory(error):
        return OUT_OF_MEMORY, FAILURE
    if isinstance(error, OSError):
        return system_message(error), WRONG_USE if error.errno in UNUSABLE_PATHS else FAILURE
    if hasattr(error, "format_message"):  # a typer usage error, whose class depends on its version
        return _usage_message(error), WRONG_USE
    return f"{one_line(error)} (--debug shows where)", FAILURE


def _usage_message(error: Any) -> str:
    message = str(error.format_message()).rstrip(".?")
    context = error.ctx
    if context is None:
        return message
    if commands := getattr(context.command, "commands", None):
        return f"{message}; choose from {', '.join(commands)}"
    return f"{message}; see {context.command_path} --help"


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


for function, name, example in (
    (evolve, "evolve", "evolve --space pit --datasets cifar100,flowers --seed 1"),
    (search, "search", "search --space pit --proxy dss++ --params 5M:10M"),
    (rank, "rank", "rank --proxies snip,dss++,params --space pit --seeds 3"),
    (compare, "compare", "compare runs/20260102T030405Z-a runs/20260102T040506Z-b"),
    (rediscover, "rediscover", "rediscover snip --seed 1"),
    (prenas, "prenas", "prenas --space autoformer-supernet-ti --sizes 5M:12M:1M"),
    (s3, "s3", "s3 --space swin-nano --images photos --rounds 3"),
    (report, "report", "report runs/20260102T030405Z-mine"),
    (resume, "resume", "resume runs/20260102T030405Z-mine"),
    (score, "score", "score --proxy snip --model timm:vit_tiny_patch16_224"),
    (show, "show", "show snip, or: autoprox show runs/20260102T030405Z-mine"),
    (runs, "runs", "runs --json"),
    (cache, "cache", "cache --clear"),
    (doctor, "doctor", "doctor --json"),
):
    app.command(name, epilog=f"Example: autoprox {example}")(function)
