"""`autoprox bench`: benchmarks, which are tables of architectures with true scores."""

from typing import Annotated

import typer

from autoprox.cli.command_factory import add_command
from autoprox.cli.common_flags import DataDir, Debug, Json
from autoprox.cli.help_layout import HelpfulCommand, HelpfulGroup, examples
from autoprox.configurations.commands import BuildConfig

bench = typer.Typer(
    name="bench",
    help="The benchmarks: list them, show one, download its files, build one of your own.",
    cls=HelpfulGroup,
    epilog=examples(("bench list", "bench info vit-bench-101", "bench fetch vit-bench-101")),
)

BenchmarkName = Annotated[
    str, typer.Argument(help="A benchmark's name, as `autoprox bench list` shows it.")
]


@bench.command(
    "list",
    cls=HelpfulCommand,
    epilog=examples(("bench list", "bench list --json", "bench list --data-dir tables")),
)
def list_(data_dir: DataDir = None, json: Json = False, debug: Debug = False) -> None:
    """List the benchmarks, and whether their files are installed."""
    from autoprox.benchmarks import list_benchmarks
    from autoprox.report.terminal.benchmark_reports import benchmark_table
    from autoprox.report.terminal.layout import show_result

    found = list_benchmarks(data_dir)
    show_result(json, found, lambda: [benchmark_table(found)])


@bench.command(
    cls=HelpfulCommand,
    epilog=examples(
        ("bench info vit-bench-101", "bench info nano-bench --json", "bench info hw-gpt-bench")
    ),
)
def info(
    name: BenchmarkName, data_dir: DataDir = None, json: Json = False, debug: Debug = False
) -> None:
    """Show a benchmark's datasets, labels, licence, source and files."""
    from autoprox.benchmarks import benchmark_info
    from autoprox.report.terminal.benchmark_reports import benchmark_details
    from autoprox.report.terminal.layout import show_result

    found = benchmark_info(name, data_dir)
    show_result(json, found, lambda: benchmark_details(found))


@bench.command(
    cls=HelpfulCommand,
    epilog=examples(
        (
            "bench fetch vit-bench-101",
            "bench fetch hw-gpt-bench",
            "bench fetch vit-bench-101 --data-dir tables",
        )
    ),
)
def fetch(
    name: BenchmarkName, data_dir: DataDir = None, json: Json = False, debug: Debug = False
) -> None:
    """Download a benchmark's files from their public source, checked by their sha256."""
    from autoprox.benchmarks import fetch_benchmark
    from autoprox.report.terminal.benchmark_reports import file_table
    from autoprox.report.terminal.layout import show_result

    done = fetch_benchmark(name, data_dir)
    nothing = f"{name} comes with autoprox: nothing needs to be fetched"
    show_result(json, done, lambda: [file_table(done) if done else nothing])


add_command(bench, "build", BuildConfig)
