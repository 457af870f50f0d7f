"""The command `autoprox search`, its options and its report."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from autoprox.cli import options
from autoprox.cli.common import followed, given_options
from autoprox.errors import AutoproxError

WIDTH = 80


def _problem(text: str, default: str | None = None, metavar: str | None = None) -> Any:
    return options.option("Problem", text, default, metavar)


def _strategy(text: str, default: str | None = None) -> Any:
    return options.option("Strategy", text, default, None)


Space = Annotated[str | None, _problem("Search space; needed.", "none")]
Proxy = Annotated[
    str | None,
    _problem("A run, a proxy file, a published name or an expression; needed.", "none"),
]
Params = Annotated[str | None, _problem("Parameters: 10M:40M, 5M: or :6M.", "any", "LOW:HIGH")]
Flops = Annotated[
    str | None, _problem("Multiply-accumulates: 1.2G:2G, for one input.", "any", "LOW:HIGH")
]
Weights = Annotated[
    str,
    _problem(
        "fresh: each candidate is built and measured; inherited: it is a slice of the largest one.",
    ),
]
Evaluator = Annotated[
    str | None,
    _problem(
        "Says what architectures are truly worth: a benchmark, or a function that takes "
        "{space, choices} and returns a number, higher is better. Of all strategies but etas it "
        "evaluates the --top in the end.",
        "none",
        "NAME|MODULE:FUNCTION",
    ),
]
Dataset = Annotated[str, _problem("Whose number of classes the heads have.")]
Images = Annotated[str | None, _problem("Real images of the dataset.", "noise", "PATH")]
Seed = Annotated[int, _problem("Fixes weights, noise and search.")]
Top = Annotated[int, _problem("How many of the best are shown and kept.")]

Strategy = Annotated[
    str,
    _strategy("random, blockwise (T-Razor), etas, or evolution (regularised, by the proxy)."),
]
Samples = Annotated[
    int | None, _strategy("Random candidates: all of random, the first of etas.", "400, 500")
]
Population = Annotated[int | None, _strategy("Of blockwise and evolution.", "50, 100")]
Steps = Annotated[int | None, _strategy("Of blockwise, etas and evolution.", "160, 10, 90")]
Mutants = Annotated[
    int | None,
    _strategy("Mutants of a step of blockwise, etas and evolution.", "25, 100, 10"),
]
Crossovers = Annotated[int | None, _strategy("Children of a step of blockwise.", "25")]
Parents = Annotated[int | None, _strategy("Of etas: the best evaluated.", "3")]
Evaluated = Annotated[int | None, _strategy("How many the evaluator sees at a step of etas.", "3")]
Tournament = Annotated[
    int | None, _strategy("Members from which evolution takes the best as parent.", "25")
]
Probability = Annotated[
    float | None,
    _strategy("With which etas and evolution mutate each value.", "0.4, 0.1"),
]


def search(
    context: typer.Context,
    resume: options.Resume = None,
    runs: options.Runs = Path("runs"),
    name: Annotated[
        str | None,
        typer.Option(help="How the folder's name ends.", show_default="space, strategy and seed"),
    ] = None,
    json: options.Json = False,
    debug: options.Debug = False,
    space: Space = None,
    proxy: Proxy = None,
    params: Params = None,
    flops: Flops = None,
    weights: Weights = "fresh",
    evaluator: Evaluator = None,
    data_dir: options.DataDir = None,
    dataset: Dataset = "imagenet",
    images: Images = None,
    text: options.Text = None,
    batch_size: options.BatchSize = 4,
    length: options.Length = None,
    seed: Seed = 0,
    top: Top = 10,
    strategy: Strategy = "random",
    samples: Samples = None,
    population: Population = None,
    steps: Steps = None,
    mutants: Mutants = None,
    crossovers: Crossovers = None,
    parents: Parents = None,
    evaluated: Evaluated = None,
    tournament: Tournament = None,
    probability: Probability = None,
    device: options.Device = "auto",
    workers: options.Workers = 2,
) -> None:
    """Search the best architectures of a space by a proxy, training nothing.

    Every candidate is kept in a new folder with its score; with --resume, an
    interrupted search goes on, and measures nothing twice.
    """
    from autoprox import search as run_search
    from autoprox.report.console import show, show_json

    given = given_options(context)
    if resume is None and not {"space", "proxy"} <= set(given):
        raise AutoproxError("a search needs --space and --proxy, or --resume with a run")

    def call(progress: Any) -> dict[str, Any]:
        return run_search(runs=runs, name=name, resume=resume, progress=progress, **given)

    summary = followed("search", resume, call)
    if json:
        show_json(summary)
    else:
        show(*report(summary))


def report(summary: Mapping[str, Any]) -> list[Any]:
    """The best architecture, sizes and scores of the best ones, and what was done for them."""
    from rich import box
    from rich.table import Table

    value = ["value"] if summary["evaluator"] else []
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for heading in ("candidate", "params", "flops", "score", *value):
        table.add_column(heading, justify="right")
    for row in summary["top"]:
        sizes = (_short(row[name]) for name in ("params", "flops"))
        numbers = (row[name] for name in ("score", *value))
        table.add_row(
            str(row["candidate"]), *sizes, *("-" if n is None else f"{n:.6g}" for n in numbers)
        )
    return [
        _choices(summary["best"]["arch"]),
        table,
        textwrap.fill(_counts(summary), WIDTH),
        f"Run: {summary['run']}",
    ]


def _choices(arch: Mapping[str, Any]) -> str:
    """A line for each choice, lists without brackets."""
    width = max(map(len, arch)) + 2
    lines = []
    for name, value in arch.items():
        text = " ".join(map(str, value)) if isinstance(value, list) else str(value)
        lines.append(textwrap.fill(f"{name:{width}}{text}", WIDTH, subsequent_indent=width * " "))
    return "\n".join(lines)


def _short(number: float) -> str:
    for unit, size in (("G", 10**9), ("M", 10**6), ("K", 10**3)):
        if number >= size:
            return f"{number / size:.2f}{unit}"
    return str(number)


def _counts(summary: Mapping[str, Any]) -> str:
    reasons = ", ".join(f"{count} {reason}" for reason, count in summary["failed"].items())
    failed = f"{sum(summary['failed'].values())} failed" + (f" ({reasons})" if reasons else "")
    evaluated = f", {summary['evaluated']} evaluated" if summary["evaluator"] else ""
    return f"Candidates: {summary['evaluations']}{evaluated}, {failed}; {summary['seconds']:.0f} s"
