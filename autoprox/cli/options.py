"""The options of the commands, in the groups of their help, and how their texts are read."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from autoprox.errors import AutoproxError

POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?", re.IGNORECASE)


def size(text: str) -> int:
    """The number of bytes of a text such as 4GiB or 500MB."""
    match = SIZE.fullmatch(text.strip())
    if not match:
        raise AutoproxError(f"a size must be a number of bytes such as 4GiB or 500MB, got {text!r}")
    number, unit, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** POWERS[unit.upper()])


def names(text: str) -> tuple[str, ...]:
    """The names in a list separated by commas."""
    return tuple(name.strip() for name in text.split(","))


def numbers(text: str) -> tuple[float, ...]:
    """The numbers in a list separated by commas."""
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        raise AutoproxError(f"weights must be numbers separated by commas, got {text!r}") from None


def _problem(text: str, default: str | None = None, metavar: str | None = None) -> Any:
    return option("Problem", text, default, metavar)


def _evolution(text: str, default: str | None = None, metavar: str | None = None) -> Any:
    return option("Evolution", text, default, metavar)


def _machine(text: str, default: str | None = None, metavar: str | None = None) -> Any:
    return option("Machine", text, default, metavar)


def option(panel: str, text: str, default: str | None, metavar: str | None) -> Any:
    """An option whose help names the default, in words where there is no value."""
    shown = True if default is None else default
    return typer.Option(help=text, show_default=shown, metavar=metavar, rich_help_panel=panel)


Debug = Annotated[bool, typer.Option("--debug", help="Show an error's traceback.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
DataDir = Annotated[
    str | None,
    typer.Option(
        help="Folder of the benchmarks' files.",
        show_default="$AUTOPROX_DATA, then the user's cache",
        metavar="DIR",
    ),
]
Resume = Annotated[
    Path | None, typer.Option(help="Go on with this run, as it was begun.", metavar="RUN")
]
Runs = Annotated[Path, typer.Option(help="Where the run's folder is made.", metavar="DIR")]
Name = Annotated[
    str | None,
    typer.Option(help="How the folder's name ends.", show_default="benchmark, space and seed"),
]

Benchmark = Annotated[
    str | None,
    _problem("Built in, or a JSON table of your own.", "the first that fits", "NAME|FILE"),
]
Space = Annotated[str | None, _problem("Search space.", "the benchmark's first")]
Datasets = Annotated[str | None, _problem("Rank well on these.", "all there are", "A,B,C")]
Weights = Annotated[str | None, _problem("How much each dataset counts.", "all the same", "X,Y,Z")]
Label = Annotated[str | None, _problem("Which true scores.", "the space's first")]
Subset = Annotated[str, _problem("Which architectures: main, extra or all.")]
Images = Annotated[
    str | None,
    _problem("Real images, in a folder for each dataset below this one.", "noise", "PATH"),
]
Text = Annotated[
    str | None,
    _problem("A text file, read byte by byte, for language models.", "random tokens", "FILE"),
]
BatchSize = Annotated[int, _problem("Images or sequences that a network sees.")]
Length = Annotated[int | None, _problem("Tokens of a sequence.", "64")]
Train = Annotated[float, _problem("Part of the architectures to evolve on; the rest is the test.")]
Seed = Annotated[int, _problem("Fixes weights, noise, evolution and split.")]
SplitSeed = Annotated[int | None, _problem("Fixes the split alone.", "the seed")]

Strategy = Annotated[str, _evolution("mixture, elitist (Auto-Prox), naive or random.")]
Population = Annotated[int, _evolution("Formulas that survive an iteration.")]
Iterations = Annotated[int, _evolution("How often children are made.")]
Children = Annotated[int, _evolution("New formulas an iteration.")]
SampleRatio = Annotated[float, _evolution("Part of the population that parents are drawn from.")]
Top = Annotated[int, _evolution("A parent is one of the best so many of that part.")]
Margin = Annotated[
    float,
    _evolution("How much better than its parent a child must be (elitist)."),
]
Parsimony = Annotated[float, _evolution("What a node of the final formula must be worth.")]
Joining = Annotated[float, _evolution("What a further formula must be worth in the final one.")]
Retries = Annotated[int, _evolution("How often a child that isn't is mutated again.")]
Evaluations = Annotated[
    int | None, _evolution("A budget that may end it before its iterations.", "none")
]
Statistics = Annotated[
    str | None, _evolution("What formulas may read: msa.grad,ones.mlp.weight.", "all", "A,B,C")
]
MaxSize = Annotated[int, _evolution("Nodes of a formula.")]
MaxDepth = Annotated[int, _evolution("Nested operations of a formula.")]

Device = Annotated[str, _machine("auto (CUDA, else MPS, else the CPU), cpu, cuda or mps.")]
Workers = Annotated[int, _machine("Threads; the result doesn't depend on them.")]
Memory = Annotated[
    str, _machine("Statistics kept in memory; the others are read from the disk.", None, "SIZE")
]
Thin = Annotated[
    int | None,
    _machine(
        "Evolution reads every so many-th row and column of a matrix; reports read all.",
        "by the size of the networks",
    ),
]
Cache = Annotated[
    str | None, _machine("Folder of measured statistics, for later runs.", "the user's", "DIR")
]
