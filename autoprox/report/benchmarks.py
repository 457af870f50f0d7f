"""What `autoprox bench` prints; it does without torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from rich.table import Table

from autoprox.report.console import aligned, digits, plain_table


def benchmark_table(benchmarks: Iterable[Mapping[str, Any]]) -> Table:
    """A line for each benchmark."""
    table = plain_table("benchmark")
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
    if not found["installed"]:
        return f"no: autoprox bench fetch {found['name']}"
    there = sum(file["status"] == "installed" for file in found["files"])
    return "yes" if there == len(found["files"]) else f"{there} of {len(found['files'])} files"


def benchmark_details(found: Mapping[str, Any]) -> list[str | Table]:
    """Everything of a benchmark that a user chooses from or has to know."""
    labels = plain_table("space")
    labels.add_column("label")
    labels.add_column("datasets")
    for space, own in found["labels"].items():
        for label, datasets in own.items():
            labels.add_row(space, label, ", ".join(datasets))
    facts = {
        "datasets": ", ".join(f"{d} ({count} classes)" for d, count in found["datasets"].items()),
        "licence": found["licence"],
        "source": found["source"],
        "embedded" if found["embedded"] else "looked in": ", ".join(found["folders"]),
    }
    if ceilings := found["noise_ceiling"]:
        taus = ", ".join(f"{dataset} {digits(tau)}" for dataset, tau in ceilings.items())
        facts["noise ceiling"] = f"{taus} (Kendall's tau between two trainings)"
    return [
        f"{found['name']}: {found['description']}",
        labels,
        aligned(facts),
        file_table(found["files"]),
    ]


def build_details(table: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """What was built: the range of the scores, how far they can be trusted, what failed."""
    training = table["training"]
    datasets = {}
    for dataset, ceiling in training["noise_ceiling"].items():
        scores = [entry["scores"][dataset] for entry in table["architectures"]]
        datasets[dataset] = {
            "lowest": min(scores),
            "median": median(scores),
            "highest": max(scores),
            "noise_ceiling": ceiling,
        }
    return {
        "file": str(file),
        "name": table["name"],
        "space": table["space"],
        "architectures": len(table["architectures"]),
        "datasets": datasets,
        **{name: training[name] for name in ("measure", "seeds", "core_hours", "failures")},
    }


def build_report(details: Mapping[str, Any]) -> list[str | Table]:
    """The same for people, with the next command."""
    table = plain_table(details["measure"])
    for heading in ("lowest", "median", "highest", "tau between seeds"):
        table.add_column(heading, justify="right")
    for dataset, row in details["datasets"].items():
        scores = (f"{row[name]:.2f}" for name in ("lowest", "median", "highest"))
        table.add_row(dataset, *scores, digits(row["noise_ceiling"]))
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
        f"Table: {file}\nNext: autoprox evolve --benchmark {file}",
    ]


def file_table(files: Sequence[Mapping[str, Any]]) -> Table:
    """A benchmark's files, with what is known or was done of each."""
    columns = [name for name in ("file", "subset", "architectures", "status") if name in files[0]]
    table = plain_table(columns[0])
    for column in columns[1:]:
        table.add_column(column)
    for file in files:
        table.add_row(*(str(file[column]) for column in columns))
    return table
