"""The command line: `autoprox evolve`, `show` and `bench`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

import autoprox
from autoprox.cli import options
from autoprox.cli.bench import bench
from autoprox.cli.common import (
    INTERRUPTED,
    Read,
    StoppedError,
    followed,
    given_options,
    system_message,
)
from autoprox.cli.rank import rank
from autoprox.cli.rediscover import rediscover
from autoprox.cli.search import search
from autoprox.errors import AutoproxError, FailureError

FAILURE, WRONG_USE = 1, 2
READ: Read = {
    "datasets": options.names,
    "statistics": options.names,
    "weights": options.numbers,
    "memory": options.size,
}

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Example: autoprox evolve --datasets cifar100,flowers,chaoyang",
)
app.add_typer(bench)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit; an error is one line on stderr."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        code = app(given or ["--help"], prog_name="autoprox", standalone_mode=False)
        sys.stdout.flush()
    except typer.Abort:
        code = INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILURE
    except Exception as error:
        if "--debug" in given:
            raise
        line, code = _explained(error)
        print(f"error: {line}", file=sys.stderr)
    sys.exit(code)


def _explained(error: Exception) -> tuple[str, int]:
    """What to say of an error, and the exit code."""
    if isinstance(error, AutoproxError):
        failed = isinstance(error, StoppedError | FailureError)
        return str(error), FAILURE if failed else WRONG_USE
    if isinstance(error, OSError):
        return system_message(error), FAILURE
    if hasattr(error, "format_message"):  # a typer usage error, whose class depends on its version
        return _usage_message(error), WRONG_USE
    return f"{type(error).__name__}: {error} (--debug shows where)", FAILURE


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


@app.command(epilog="Example: autoprox evolve --space pit --datasets cifar100,flowers --seed 1")
def evolve(
    context: typer.Context,
    resume: options.Resume = None,
    runs: options.Runs = Path("runs"),
    name: options.Name = None,
    json: options.Json = False,
    debug: options.Debug = False,
    benchmark: options.Benchmark = None,
    space: options.Space = None,
    datasets: options.Datasets = None,
    weights: options.Weights = None,
    label: options.Label = None,
    subset: options.Subset = "main",
    data_dir: options.DataDir = None,
    images: options.Images = None,
    text: options.Text = None,
    batch_size: options.BatchSize = 4,
    length: options.Length = None,
    train: options.Train = 0.6,
    seed: options.Seed = 0,
    split_seed: options.SplitSeed = None,
    strategy: options.Strategy = "mixture",
    population: options.Population = 20,
    iterations: options.Iterations = 200,
    children: options.Children = 10,
    sample_ratio: options.SampleRatio = 0.5,
    top: options.Top = 5,
    margin: options.Margin = 0.001,
    retries: options.Retries = 3,
    evaluations: options.Evaluations = None,
    statistics: options.Statistics = None,
    max_size: options.MaxSize = 40,
    max_depth: options.MaxDepth = 10,
    device: options.Device = "auto",
    workers: options.Workers = 2,
    memory: options.Memory = "4GiB",
    thin: options.Thin = None,
    cache: options.Cache = None,
) -> None:
    """Discover a proxy: the formula that ranks untrained networks as training them would.

    It is evolved on some of a benchmark's architectures and tested on the
    others, beside the parameter count, the FLOPs and a regression on the choices.
    All is kept in a new folder; with --resume, an interrupted run goes on.
    """
    from autoprox.report import terminal as tables
    from autoprox.report.console import show, show_json

    given = {"resume": resume, "runs": runs, "name": name, **given_options(context, READ)}
    summary = followed(
        "evolve", resume, lambda progress: autoprox.evolve(progress=progress, **given)
    )
    if json:
        show_json(summary)
    else:
        show(*tables.evolution_report(summary))


app.command(epilog="Example: autoprox search --space pit --proxy dss++ --params 5M:10M")(search)
app.command(epilog="Example: autoprox rank --proxies snip,dss++,params --space pit --seeds 3")(rank)
app.command(epilog="Example: autoprox rediscover snip --seed 1")(rediscover)


@app.command(epilog="Example: autoprox show snip, or: autoprox show runs/20260102T030405Z-mine")
def show(
    proxy: Annotated[
        str, typer.Argument(help="A run, a proxy file, a published name or an expression.")
    ],
    latex: Annotated[bool, typer.Option("--latex", help="Only the formula, in LaTeX.")] = False,
    tree: Annotated[bool, typer.Option("--tree", help="Only the tree, with types.")] = False,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Show a proxy: its formula, what it reads, where it was found and what it is worth."""
    if latex + tree + json > 1:
        raise typer.BadParameter("at most one of --latex, --tree and --json can be given")
    from autoprox.export import formula as printing
    from autoprox.report import terminal as tables
    from autoprox.report.console import show, show_json
    from autoprox.zoo.loading import load

    loaded = load(proxy)
    if latex:
        print(printing.latex(loaded.tree))
    elif tree:
        print(printing.ascii_tree(loaded.tree))
    elif json:
        show_json(tables.proxy_details(loaded))
    else:
        show(*tables.proxy_report(loaded))


if __name__ == "__main__":
    main()
