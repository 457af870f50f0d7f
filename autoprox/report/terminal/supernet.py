"""What a supernet came to, what its subnets are worth, and which PreNAS prefers."""

from collections.abc import Mapping
from typing import Any

from autoprox.files.human_readable import compact
from autoprox.files.shell_command import command_line
from autoprox.report.terminal.layout import Part, aligned, new_table


def supernet_report(summary: Mapping[str, Any]) -> list[Part]:
    """The accuracies that subnets inherit, and where the weights are."""
    table = new_table("subnet")
    table.columns[0].justify = "right"
    for heading in ("params", "flops", "accuracy"):
        table.add_column(heading, justify="right")
    for number, row in enumerate(summary["subnets"], start=1):
        sizes = (compact(row[name]) for name in ("params", "flops"))
        table.add_row(str(number), *sizes, f"{row['accuracy']:.2f}")
    return [
        table,
        f"{_counts(summary)}\nWeights: {summary['weights']}",
        _next(summary["run"]),
    ]


def supernet_table_report(summary: Mapping[str, Any]) -> list[Part]:
    """The range of the accuracies, and the command that uses them."""
    accuracies = (f"{summary[name]:.2f}" for name in ("lowest", "median", "highest"))
    facts = {
        "subnets": f"{summary['architectures']} of {summary['space']}",
        "accuracy": "{} to {} to {}".format(*accuracies) + f" on {summary['held_out']} images",
        "table": summary["file"],
    }
    following = command_line("evolve", "--benchmark", summary["file"])
    return [
        aligned(facts),
        f"Next: {following}\nRun: {summary['run']}",
    ]


def prenas_report(summary: Mapping[str, Any]) -> list[Part]:
    """A row for each that is preferred; what training them came to."""
    table = new_table("below")
    for heading in ("params", "flops", "SNIP", "normalised", "choices"):
        table.add_column(heading, justify="left" if heading == "choices" else "right")
    for number, row in enumerate(summary["preferred"], start=1):
        sizes = (compact(row[name]) for name in ("params", "flops"))
        scores = (f"{row[name]:.5g}" for name in ("snip", "normalised"))
        table.add_row(_below(summary, number), *sizes, *scores, _choices(row["arch"]))
    chosen: list[Part] = [table, f"Preferred: {summary['file']}"]
    if summary["training"] is None:
        return [*chosen, f"Run: {summary['run']}"]
    return [*chosen, *supernet_report({**summary["training"], "run": summary["run"]})]


def _below(summary: Mapping[str, Any], number: int) -> str:
    """The sizes below which an architecture is preferred, from the least to the greatest."""
    sizes = [own["size"] for own in summary.get("sizes", ()) if number in own["preferred"]]
    ends = sorted({min(sizes), max(sizes)}) if sizes else [summary["preferred"][number - 1]["size"]]
    return " to ".join(map(compact, ends))


def _choices(arch: Mapping[str, Any]) -> str:
    """Those of the whole network, and the sums of those of layers."""
    parts = (f"{sum(v):g}" if isinstance(v, list) else str(v) for v in arch.values())
    return ", ".join(f"{name} {part}" for name, part in zip(arch, parts, strict=True))


def _counts(summary: Mapping[str, Any]) -> str:
    epochs = str(summary["epochs"])
    if "images" in summary:  # which earlier versions didn't count
        epochs += f" of {summary['images_per_epoch']} of {summary['images']} images"
    return (
        f"{summary['space']} on {summary['dataset']}, {summary['sampler']}; epochs: "
        f"{epochs}, loss {summary['loss']:.4f}; {summary['seconds']:.0f} s"
    )


def _next(run: str) -> str:
    return f"Next: {command_line('supernet', 'eval', run)}\nRun: {run}"
