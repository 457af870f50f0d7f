"""`autoprox bench`: the tables of architectures with true scores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autoprox.cli_options import DataDir, Debug, Json

bench = typer.Typer(
    name="bench",
    help="The benchmarks: list them, show one, download its files.",
    epilog="Example: autoprox bench list",
)

Name = Annotated[str, typer.Argument(help="A benchmark's name, as `autoprox bench list` has it.")]


@bench.command("list", epilog="Example: autoprox bench list")
def list_(data_dir: DataDir = None, json: Json = False, debug: Debug = False) -> None:
    """List the benchmarks, and whether their files are there."""
    from autoprox import tables
    from autoprox.benchmarks import list_benchmarks

    found = list_benchmarks(_path(data_dir))
    if json:
        tables.show_json(found)
    else:
        tables.show(tables.benchmark_table(found))


@bench.command(epilog="Example: autoprox bench info vit-bench-101")
def info(name: Name, data_dir: DataDir = None, json: Json = False, debug: Debug = False) -> None:
    """Show a benchmark's datasets, labels, licence, source and files."""
    from autoprox import tables
    from autoprox.benchmarks import benchmark_info

    found = benchmark_info(name, _path(data_dir))
    if json:
        tables.show_json(found)
    else:
        tables.show(*tables.benchmark_details(found))


@bench.command(epilog="Example: autoprox bench fetch vit-bench-101")
def fetch(name: Name, data_dir: DataDir = None, json: Json = False, debug: Debug = False) -> None:
    """Download a benchmark's files from their public source, checked by their sha256."""
    from autoprox import tables
    from autoprox.benchmarks import fetch_benchmark

    done = fetch_benchmark(name, _path(data_dir))
    if json:
        tables.show_json(done)
    else:
        tables.show(tables.file_table(done))


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
