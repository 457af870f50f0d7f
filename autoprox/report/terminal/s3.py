"""What a search of the search space found: how good the spaces are, and the best network."""

from collections.abc import Mapping
from typing import Any

from autoprox.files.human_readable import compact
from autoprox.report.terminal.layout import Part, aligned, new_table


def s3_report(summary: Mapping[str, Any]) -> list[Part]:
    """A row for each space; the best network of the last."""
    best, plots = summary["best"], summary["plots"]
    facts = {
        "best": f"{compact(best['params'])} parameters, {compact(best['flops'])} operations, "
        f"accuracy {best['accuracy']:.2f} with inherited weights",
        **_stages(best["arch"]["choices"]),
    }
    dropped = [
        f"Dropped before space {number}, as no network has them: {name} {_numbers(options)}"
        for number, row in enumerate(summary["rounds"])
        for name, options in row["dropped"].items()
    ]
    if summary["ended"]:
        dropped.append(f"No round {len(summary['rounds'])}: {summary['ended']}")
    shown = plots.get("reason") or f"Plots: {plots['options']}\n       {plots['errors']}"
    counts = f"Evaluated in the search: {best['evaluated']}; {summary['seconds']:.0f} s"
    return [
        _table(summary["rounds"]),
        *(["\n".join(dropped)] if dropped else []),
        aligned(facts),
        f"{counts}\n{shown}\nRun: {summary['run']}",
    ]


def _table(rounds: list[Mapping[str, Any]]) -> Part:
    """The errors of each space, and the range of its options in each stage."""
    table = new_table("space")
    for heading in ("E-T error", "expected", "top tier", "of"):
        table.add_column(heading, justify="right")
    for number, row in enumerate(rounds):
        errors = (f"{row[name]:.2f}" for name in ("error", "expected", "top_tier"))
        table.add_row(str(number), *errors, str(row["architectures"]))
    return table


def _stages(choices: Mapping[str, Any]) -> dict[str, str]:
    """The choices by stage."""
    found: dict[str, list[str]] = {}
    for name, value in choices.items():
        dimension, _, stage = name.rpartition("_")
        values = value if isinstance(value, list) else [value]
        found.setdefault(f"stage {stage}", []).append(f"{dimension} {_numbers(values)}")
    return {stage: "; ".join(own) for stage, own in sorted(found.items())}


def _numbers(values: list[float]) -> str:
    return " ".join(f"{value:g}" for value in values)
