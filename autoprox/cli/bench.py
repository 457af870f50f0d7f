"""`autoprox bench`: the tables of architectures with true scores."""

from pathlib import Path
from typing import Annotated

import typer

from autoprox.cli.command_factory import command
from autoprox.cli.common_options import DataDir, Debug, Json
from autoprox.configurations.build import BuildConfig

bench = typer.Typer(
    name="bench",
    help="The benchmarks: list them, show one, download its files, build one of your own.",
    epilog="Example: autoprox bench list",
)

Name = Annotated[str, typer.Argument(help="A benchmark's name, as `autoprox bench list` has it.")]


@bench.command("list", epilog="Example: autoprox bench list")
def list_(data_dir: DataDir = None, json: Json = False, debug: Debug = False) -> None:
    """List the benchmarks, and whether their files are there."""
    from autoprox.benchmarks import list_benchmarks
    from autoprox.report.terminal import benchmark_reports, layout

    found = list_benchmarks(_path(data_dir))
    if json:
        layout.show_json([own.model_dump() for own in found])
    else:
        layout.show(benchmark_reports.benchmark_table(found))


@bench.command(epilog="Example: autoprox bench info vit-bench-101")
def info(name: Name, data_dir: DataDir = None, json: Json = False, debug: Debug = False) -> None:
    """Show a benchmark's datasets, labels, licence, source and files."""
    from autoprox.benchmarks import benchmark_info
    from autoprox.report.terminal import benchmark_reports, layout

    found = benchmark_info(name, _path(data_dir))
    if json:
        layout.show_json(found.model_dump())
    else:
        layout.show(*benchmark_reports.benchmark_details(found))


@bench.command(epilog="Example: autoprox bench fetch vit-bench-101")
def fetch(name: Name, data_dir: DataDir = None, json: Json = False, debug: Debug = False) -> None:
    """Download a benchmark's files from their public source, checked by their sha256."""
    from autoprox.benchmarks import fetch_benchmark
    from autoprox.report.terminal import benchmark_reports, layout

    done = fetch_benchmark(name, _path(data_dir))
    if json:
        layout.show_json([own.model_dump() for own in done])
    elif done:
        layout.show(benchmark_reports.file_table(done))
    else:
        layout.show(f"{name} comes with autoprox: nothing needs to be fetched")


build = command(
    BuildConfig,
    """Build a benchmark of your own: train architectures of a space on your images or texts.

    The score is the accuracy on images that are held out, or the perplexity for a
    byte of a text's last fifth. A stopped build goes on with --resume, or when it
    is started again; nothing is trained twice.
    """,
)
bench.command(
    "build",
    epilog="Example: autoprox bench build --space autoformer-nano --images photos --out p.json",
)(build)


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)
