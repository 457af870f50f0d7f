"""The command `autoprox rediscover`, its options and its report."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from autoprox.cli import options
from autoprox.cli.common import INTERRUPTED

FAILURE = 1
WIDTH = 80

Proxy = Annotated[
    str, typer.Argument(help="A published name, a proxy file, a run or an expression.")
]
Name = Annotated[
    str | None,
    typer.Option(help="How the folder's name ends.", show_default="rediscover, proxy and seed"),
]
Seed = Annotated[int, typer.Option(help="Fixes networks, weights, noise and search.")]
Seconds = Annotated[float, typer.Option(help="When to give up.")]


def rediscover(
    proxy: Proxy,
    seed: Seed = 0,
    seconds: Seconds = 600.0,
    runs: options.Runs = Path("runs"),
    name: Name = None,
    device: options.Device = "auto",
    workers: options.Workers = 2,
    cache: options.Cache = None,
    json: options.Json = False,
    debug: options.Debug = False,
) -> None:
    """Rediscover a known proxy from its scores of small networks alone.

    Formulas are evolved until one fits and is shown to be the proxy: by its
    canonical form, by sympy, or by the scores of 64 fresh networks of another
    space. The exit code is 1 where none is found in time.
    """
    from autoprox.report.console import show, show_json
    from autoprox.report.progress import progress_on
    from autoprox.tasks.rediscover import Setup
    from autoprox.tasks.rediscover import rediscover as run_rediscovery

    setup = Setup(seed=seed, seconds=seconds, workers=workers, device=device, cache=cache)
    try:
        with progress_on() as progress:
            summary = run_rediscovery(proxy, setup, runs, name, progress)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        raise typer.Exit(INTERRUPTED) from None
    if json:
        show_json(summary)
    else:
        show(*report(summary))
    if not summary["success"]:
        raise typer.Exit(FAILURE)


def report(summary: Mapping[str, Any]) -> list[str]:
    """What was looked for, what was found, why it is that, and what was done for it."""
    target = summary["target"]
    if summary["success"]:
        outcome = f"Rediscovered {target['source']}: {summary['evidence']['statement']}."
    else:
        outcome = (
            f"{target['source']} was not rediscovered. The term that correlates best with its "
            f"scores (Pearson's r {summary['correlation']:.6f}):"
        )
    label = "found" if summary["success"] else "best "
    counts = (
        f"Formulas scored: {summary['evaluations']} in {summary['rounds']} rounds; "
        f"{summary['seconds']:.0f} s"
    )
    return [
        textwrap.fill(outcome, WIDTH),
        summary["formula"],
        f"{label}   {summary['expression']}\ntarget  {target['expression']}",
        f"{counts}\nRun: {summary['run']}",
    ]
