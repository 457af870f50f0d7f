"""The reports of benchmarks: their list, their files, and one that was built."""

from collections.abc import Iterable, Sequence

from rich.table import Table

from autoprox.benchmarks.info_documents import BenchmarkFile, BenchmarkInfo, FetchedFile
from autoprox.commands.build_benchmark import BuildSummary
from autoprox.files.rerun_command import rerun_command_line
from autoprox.report.terminal.layout import Part, aligned, new_table, next_command, number

RELIABILITY = "Reliability of the first label (near-size tau of two such means):"
SATURATED = 0.05  # share of the pairs of architectures with the same score


def benchmark_table(benchmarks: Iterable[BenchmarkInfo]) -> Table:
    """Return a table with a row for each benchmark."""
    table = new_table("benchmark")
    for heading in ("spaces", "datasets", "networks", "installed"):
        table.add_column(heading, justify="right" if heading == "networks" else "left")
    for found in benchmarks:
        table.add_row(
            found.name,
            "\n".join(found.spaces),
            "\n".join(found.datasets),
            str(found.architectures),
            _installed(found),
        )
    return table


def _installed(found: BenchmarkInfo) -> str:
    if found.embedded:
        return "embedded"
    unreadable = [str(file.path) for file in found.files if file.status == "unreadable"]
    if unreadable:
        return f"unreadable: {', '.join(unreadable)}"
    if not found.installed:
        return f"no: {rerun_command_line('bench', 'fetch', found.name)}"
    there = sum(file.status == "installed" for file in found.files)
    return "yes" if there == len(found.files) else f"{there} of {len(found.files)} files"


def benchmark_details(found: BenchmarkInfo) -> list[Part]:
    """Show a benchmark's labels, datasets, licence, source, reliability and files."""
    labels = new_table("space")
    for heading in ("label", "datasets", "subsets"):
        labels.add_column(heading)
    for space, own in found.labels.items():
        for label, datasets in own.items():
            labels.add_row(space, label, ", ".join(datasets), ", ".join(found.subsets[space]))
    reliable = "\n".join(
        f"{space}: " + ", ".join(f"{dataset} {number(tau)}" for dataset, tau in taus.items())
        for space, taus in found.reliability.items()
    )
    facts = {
        "datasets": ", ".join(f"{d} ({count} classes)" for d, count in found.datasets.items()),
        "licence": found.licence,
        "source": found.source,
        "embedded" if found.embedded else "looked in": ", ".join(found.folders),
    }
    return [
        f"{found.name}: {found.description}",
        labels,
        aligned(facts),
        *([f"{RELIABILITY}\n{reliable}"] if reliable else []),
        file_table(found.files),
    ]


def file_table(files: Sequence[BenchmarkFile | FetchedFile]) -> Table:
    """Return a table of a benchmark's files, with their status."""
    names = ("file", "subset", "architectures", "status")
    columns = [name for name in names if name in type(files[0]).model_fields]
    table = new_table(columns[0])
    for column in columns[1:]:
        table.add_column(column)
    for file in files:
        table.add_row(*(str(getattr(file, column)) for column in columns))
    return table


def build_report(summary: BuildSummary) -> list[Part]:
    """Show the range and the reliability of the scores, the failures, and the next command."""
    headings = "lowest", "median", "highest", "tau between seeds", "reliability"
    table = new_table(summary.measure, *headings)
    for dataset, own in summary.datasets.items():
        scores = (f"{score:.2f}" for score in (own.lowest, own.median, own.highest))
        table.add_row(dataset, *scores, number(own.noise_ceiling), number(own.reliability))
    counts = (
        f"{summary.architectures} architectures of {summary.space}, seeds: {summary.seeds}; "
        f"{summary.core_hours:g} core hours; trainings failed: {len(summary.failures)}"
    )
    left_out = [f"left out: {f.dataset}, seed {f.seed}: {f.failure}" for f in summary.failures]
    saturated = [
        f"Warning: the scores of {dataset} saturate: {own.tied:.0%} of the pairs of "
        "architectures\nhave the same one. Take harder data, fewer --epochs or smaller --sizes."
        for dataset, own in summary.datasets.items()
        if own.tied > SATURATED
    ]
    return [
        table,
        "\n".join([counts, *left_out]),
        *saturated,
        f"Table: {summary.file}",
        next_command("evolve", "--benchmark", summary.file),
    ]
