"""The command `autoprox rank` and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from autoprox.cli import options
from autoprox.cli.common import followed, given_options

Proxies = Annotated[
    str,
    typer.Option(
        help="Names of the zoo, expressions, proxy files or runs; all: the whole zoo.",
        metavar="A,B,C",
    ),
]
Seeds = Annotated[int, typer.Option(help="How many seeds, from --seed on: weights and noise.")]


def outer_names(text: str) -> tuple[str, ...]:
    """The parts of a list between commas, but for commas inside of parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return tuple(part.strip() for part in parts)


def rank(
    context: typer.Context,
    proxies: Proxies = "all",
    resume: options.Resume = None,
    runs: options.Runs = Path("runs"),
    name: options.Name = None,
    json: options.Json = False,
    debug: options.Debug = False,
    benchmark: options.Benchmark = None,
    space: options.Space = None,
    datasets: options.Datasets = None,
    label: options.Label = None,
    subset: options.Subset = "main",
    data_dir: options.DataDir = None,
    images: options.Images = None,
    text: options.Text = None,
    batch_size: options.BatchSize = 4,
    length: options.Length = None,
    seed: options.Seed = 0,
    seeds: Seeds = 1,
    workers: options.Workers = 2,
    device: options.Device = "auto",
) -> None:
    """Rank proxies side by side: how well each orders a benchmark's networks.

    Every proxy is measured on all networks, with each seed; the run's folder has
    the table as JSON, CSV and Markdown. A killed ranking goes on with --resume.
    """
    from autoprox.report import terminal as tables
    from autoprox.report.console import show, show_json
    from autoprox.tasks.rank import RankConfig
    from autoprox.tasks.rank import rank as measure
    from autoprox.tasks.rank import resume as go_on

    given = given_options(context, {"proxies": outer_names, "datasets": options.names})

    def call(progress: Any) -> dict[str, Any]:
        if resume is None:
            return measure(RankConfig(**given), runs, name, progress)
        return go_on(resume, progress, **given, **({"name": name} if name else {}))

    summary = followed("rank", resume, call)
    if json:
        show_json(summary)
    else:
        show(*tables.rank_report(summary))
