"""The benchmarks, and what was built."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table

from autoprox.files.shell_command import command_line
from autoprox.report.terminal.layout import Part, aligned, new_table, number

RELIABILITY = "Reliability of the first label (tau at equal size of two such means):"
SATURATED = 0.05  # share of the pairs of architectures with the same score


def benchmark_table(benchmarks: Iterable[Mapping[str, Any]]) -> Table:
    """A line for each benchmark."""
    table = new_table("benchmark")
    for heading in ("spaces", "datasets", "networks", "installed"):
        table.add_column(heading, justify="right" if heading == "networks" else "left")
    for found in benchmarks:
        table.add_row(
            found["name"],
            "\n".join(found["spaces"]),
            "\n".join(found["datasets"]),
            str(found["architectures"]),
            _installed(found),
        )
    return table


def _installed(found: Mapping[str, Any]) -> str:
    if found["embedded"]:
        return "embedded"
    unreadable = [file["path"] for file in found["files"] if file["status"] == "unreadable"]
    if unreadable:
        return f"unreadable: {', '.join(unreadable)}"
    if not found["installed"]:
        return f"no: {command_line('bench', 'fetch', found['name'])}"
    there = sum(file["status"] == "installed" for file in found["files"])
    return "yes" if there == len(found["files"]) else f"{there} of {len(found['files'])} files"


def benchmark_details(found: Mapping[str, Any]) -> list[Part]:
    """Everything of a benchmark that a user chooses from or has to know."""
    labels = new_table("space")
    labels.add_column("label")
    labels.add_column("datasets")
    for space, own in found["labels"].items():
        for label, datasets in own.items():
            labels.add_row(space, label, ", ".join(datasets))
    reliable = "\n".join(
        f"{space}: " + ", ".join(f"{dataset} {number(tau)}" for dataset, tau in taus.items())
        for space, taus in found["reliability"].items()
    )
    facts = {
        "datasets": ", ".join(f"{d} ({count} classes)" for d, count in found["datasets"].items()),
        "licence": found["licence"],
        "source": found["source"],
        "embedded" if found["embedded"] else "looked in": ", ".join(found["folders"]),
    }
    return [
        f"{found['name']}: {found['description']}",
        labels,
        aligned(facts),
        *([f"{RELIABILITY}\n{reliable}"] if reliable else []),
        file_table(found["files"]),
    ]


def build_report(details: Mapping[str, Any]) -> list[Part]:
    """The same for people, with the next command."""
    table = new_table(details["measure"])
    for heading in ("lowest", "median", "highest", "tau between seeds", "reliability"):
        table.add_column(heading, justify="right")
    for dataset, row in details["datasets"].items():
        scores = (f"{row[name]:.2f}" for name in ("lowest", "median", "highest"))
        table.add_row(dataset, *scores, number(row["noise_ceiling"]), number(row["reliability"]))
    failures = details["failures"]
    counts = (
        f"{details['architectures']} architectures of {details['space']}, seeds: "
        f"{details['seeds']}; {details['core_hours']:g} core hours; "
        f"trainings failed: {len(failures)}"
    )
    left_out = [f"left out: {f['dataset']}, seed {f['seed']}: {f['failure']}" for f in failures]
    file = details["file"]
    return [
        table,
        "\n".join([counts, *left_out]),
        *_saturated(details),
        f"Table: {file}\nNext: {command_line('evolve', '--benchmark', file)}",
    ]


def _saturated(details: Mapping[str, Any]) -> list[Part]:
    """A warning of each dataset whose scores hardly tell architectures apart."""
    return [
        f"Warning: the scores of {dataset} saturate: {row['tied']:.0%} of the pairs of "
        "architectures\nhave the same one. Take harder data, fewer --epochs or smaller --sizes."
        for dataset, row in details["datasets"].items()
        if row.get("tied", 0) > SATURATED
    ]


def file_table(files: Sequence[Mapping[str, Any]]) -> Table:
    """A benchmark's files, with what is known or was done of each."""
    columns = [name for name in ("file", "subset", "architectures", "status") if name in files[0]]
    table = new_table(columns[0])
    for column in columns[1:]:
        table.add_column(column)
    for file in files:
        table.add_row(*(str(file[column]) for column in columns))
    return table
