"""The options of the commands, with the defaults of `config.Config` written out.

They are written out because importing `config` takes seconds, and `--help` shouldn't; a test
compares the two.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from autoprox.errors import AutoproxError

UNITS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
SIZE = re.compile(r"(\d+(?:\.\d+)?) *([KMGT]?)(I?)B?", re.IGNORECASE)

PROBLEM, LANGUAGE, EVOLUTION, MACHINE = "Problem", "Language", "Evolution", "Machine"


def size(text: str) -> int:
    """The number of bytes of a text such as 4GiB or 500MB."""
    match = SIZE.fullmatch(text.strip())
    if not match:
        raise AutoproxError(f"a size must be a number of bytes such as 4GiB or 500MB, got {text!r}")
    number, unit, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** UNITS[unit.upper()])


def names(text: str) -> tuple[str, ...]:
    """The names in a list separated by commas."""
    return tuple(name.strip() for name in text.split(","))


def numbers(text: str) -> tuple[float, ...]:
    """The numbers in a list separated by commas."""
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        raise AutoproxError(f"weights must be numbers separated by commas, got {text!r}") from None


Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]
DataDir = Annotated[
    str | None,
    typer.Option(
        help="Folder of the benchmarks' files.",
        show_default="$AUTOPROX_DATA, then the user's cache",
        rich_help_panel=PROBLEM,
        metavar="DIR",
    ),
]

Resume = Annotated[
    Path | None,
    typer.Option(help="Go on with this run; its own configuration holds.", metavar="RUN"),
]
Runs = Annotated[Path, typer.Option(help="Where the run's folder is made.", metavar="DIR")]
Name = Annotated[
    str | None,
    typer.Option(help="End of the folder's name.", show_default="benchmark, space and seed"),
]

Benchmark = Annotated[
    str | None,
    typer.Option(
        help="A built-in benchmark, or a JSON table of your own.",
        show_default="vit-bench-101",
        rich_help_panel=PROBLEM,
        metavar="NAME|FILE",
    ),
]
Space = Annotated[
    str | None,
    typer.Option(
        help="Search space.", show_default="the benchmark's first", rich_help_panel=PROBLEM
    ),
]
Datasets = Annotated[
    str | None,
    typer.Option(
        help="Rank well on these at once.",
        show_default="all of the benchmark",
        rich_help_panel=PROBLEM,
        metavar="A,B,C",
    ),
]
Weights = Annotated[
    str | None,
    typer.Option(
        help="What each dataset counts.",
        show_default="all the same",
        rich_help_panel=PROBLEM,
        metavar="X,Y,Z",
    ),
]
Label = Annotated[
    str | None,
    typer.Option(
        help="Which true scores.", show_default="the space's first", rich_help_panel=PROBLEM
    ),
]
Subset = Annotated[
    str,
    typer.Option(
        help="Which architectures: main, extra (of a supplementary file) or all.",
        rich_help_panel=PROBLEM,
    ),
]
Images = Annotated[
    str | None,
    typer.Option(
        help="A real mini-batch from here: a folder with one folder for each dataset.",
        show_default="seeded noise",
        rich_help_panel=PROBLEM,
        metavar="PATH",
    ),
]
BatchSize = Annotated[int, typer.Option(help="Images in the mini-batch.", rich_help_panel=PROBLEM)]
Train = Annotated[
    float,
    typer.Option(
        help="Part of the architectures that evolution sees; the others test the result.",
        rich_help_panel=PROBLEM,
    ),
]
Seed = Annotated[
    int, typer.Option(help="Fixes networks, noise, evolution, split.", rich_help_panel=PROBLEM)
]
SplitSeed = Annotated[
    int | None,
    typer.Option(
        help="Another seed for the split alone.", show_default="the seed", rich_help_panel=PROBLEM
    ),
]

Statistics = Annotated[
    str | None,
    typer.Option(
        help="What formulas may read, such as msa.grad,ones.mlp.weight.",
        show_default="all 24",
        rich_help_panel=LANGUAGE,
        metavar="A,B,C",
    ),
]
MaxSize = Annotated[int, typer.Option(help="Nodes of a formula.", rich_help_panel=LANGUAGE)]
MaxDepth = Annotated[int, typer.Option(help="Nested operations.", rich_help_panel=LANGUAGE)]

Strategy = Annotated[
    str, typer.Option(help="elitist, naive or random.", rich_help_panel=EVOLUTION)
]
Population = Annotated[int, typer.Option(help="Formulas kept.", rich_help_panel=EVOLUTION)]
Iterations = Annotated[int, typer.Option(help="Rounds.", rich_help_panel=EVOLUTION)]
Children = Annotated[int, typer.Option(help="New formulas a round.", rich_help_panel=EVOLUTION)]
SampleRatio = Annotated[
    float,
    typer.Option(help="Part of the population drawn for a parent.", rich_help_panel=EVOLUTION),
]
Top = Annotated[
    int, typer.Option(help="Parents come from the best so many.", rich_help_panel=EVOLUTION)
]
Margin = Annotated[
    float, typer.Option(help="By which a child must be better.", rich_help_panel=EVOLUTION)
]
Retries = Annotated[
    int, typer.Option(help="New mutations for a child that isn't.", rich_help_panel=EVOLUTION)
]

Device = Annotated[
    str,
    typer.Option(
        help="auto (CUDA, then MPS, then the CPU), cpu, cuda or mps.", rich_help_panel=MACHINE
    ),
]
Workers = Annotated[int, typer.Option(help="Threads.", rich_help_panel=MACHINE)]
Memory = Annotated[
    str,
    typer.Option(
        help="For statistics, 500MB for example; the others are read from the disk.",
        rich_help_panel=MACHINE,
        metavar="SIZE",
    ),
]
Thin = Annotated[
    int,
    typer.Option(
        help="Evolution reads every so many-th row and column of a matrix; figures reported are "
        "of whole ones.",
        rich_help_panel=MACHINE,
    ),
]
Cache = Annotated[
    str | None,
    typer.Option(
        help="Folder of measured statistics, reused by later runs.",
        show_default="the user's",
        rich_help_panel=MACHINE,
        metavar="DIR",
    ),
]
