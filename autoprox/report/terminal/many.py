"""What a discovery on several spaces found, and what it is worth on each."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table

from autoprox.files.shell_command import command_line
from autoprox.report.terminal.evolution import ended_parts, evaluated, front_parts, without_figures
from autoprox.report.terminal.layout import INTERVAL, WIDTH, Part, interval, number
from autoprox.report.terminal.worth import named_table, nature, size_parts

RESTS = {"kendall": "interval", "given_size": "given_size_interval"}


def many_report(summary: Mapping[str, Any]) -> list[Part]:
    """Each evolution's proxy with its worth on each space; what was held out, side by side."""
    folds = summary["folds"]
    parts: list[Part] = [part for fold in folds for part in _fold(fold, summary)]
    if len(folds) > 1:
        parts += held_out_parts(folds)
    for name, source in summary["spaces"].items():
        if lacking := source.get("lacking"):
            parts.append(textwrap.fill(f"{name} has no scores on {', '.join(lacking)}.", WIDTH))
    end = f"{summary['seconds']:.0f} s\nRun: {summary['run']}"
    return [*parts, f"{end}\nNext: {command_line('show', summary['run'])}"]


def held_out_parts(folds: Sequence[Mapping[str, Any]]) -> list[Part]:
    """What the proxies are worth on the spaces that they never saw, less the parameter count."""
    headings = "\ntau", "less\nparams", f"\n{INTERVAL}", "given\nsize", f"\n{INTERVAL}"
    table = named_table("\nheld out", *headings)
    for row in (rows := [held_out_row(fold) for fold in folds]):
        table.add_row(*_cells(row))
    means = {
        name: _mean([row[name] for row in rows]) for name in ("tau", "difference", "given_size")
    }
    nothing = [None, None]
    table.add_row(*_cells({"held_out": "mean", **means, "interval": nothing, "at_size": nothing}))
    return ["Each space by the proxy that was evolved on the others, all networks", table]


def held_out_row(fold: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a fold's proxy on the space that it never saw, means over the datasets."""
    own = fold["spaces"][fold["held_out"]]
    means, beside = own["means"], own["comparison"]["params"]["kendall"]
    return {
        "held_out": fold["held_out"],
        "tau": means["proxy"]["test"]["kendall"],
        "params": means["params"]["test"]["kendall"],
        "difference": beside["difference"],
        "interval": beside["interval"],
        "given_size": means["proxy"]["test"]["given_size"],
        "at_size": means["proxy"]["test"]["given_size_interval"],
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def _cells(row: Mapping[str, Any]) -> list[str]:
    difference = "-" if row["difference"] is None else f"{row['difference']:+.3f}"
    return [
        row["held_out"],
        *(number(row["tau"]), difference, interval(row["interval"])),
        *(number(row["given_size"]), interval(row["at_size"])),
    ]


def _fold(fold: Mapping[str, Any], summary: Mapping[str, Any]) -> list[Part]:
    held_out = fold["held_out"]
    title = f"Evolved on {', '.join(fold['trained'])}"
    if held_out is not None:
        title += f"; held out: {held_out}, all of whose networks are test networks"
    sizes = {name: own["size"]["test"] for name, own in fold["spaces"].items()}
    return [
        textwrap.fill(title, WIDTH),
        fold["formula"],
        fold["expression"],
        *front_parts({**fold, "objective": summary["objective"]}),
        "On the test networks, means over the datasets; whether the proxy is better",
        _worth_table(fold["spaces"]),
        *size_parts(sizes, "space"),
        *_natures(fold["spaces"]),
        *_without_figures(fold["spaces"]),
        *ended_parts(fold),
        textwrap.fill(_counts(fold, summary), WIDTH),
    ]


def _worth_table(spaces: Mapping[str, Any]) -> Table:
    beside = f"\n{INTERVAL}", "\nproxy"
    table = named_table("\nscored by", "\ntau", *beside, "given\nsize", *beside)
    for name, own in spaces.items():
        table.add_row(name, f"n = {own['size']['test']['networks']}")
        for scored, parts in own["means"].items():
            cells = []
            for figure, bounds in RESTS.items():
                verdict = own["comparison"].get(scored, {}).get(figure, {}).get("verdict")
                row = parts["test"]
                cells += [number(row[figure]), interval(row[bounds]), verdict or ""]
            table.add_row(f"  {scored}", *cells)
    return table


def _natures(spaces: Mapping[str, Any]) -> list[str]:
    """What of the proxy's scores is size or seed, space by space."""
    return [textwrap.fill(f"{name}: {nature(own)}", WIDTH) for name, own in spaces.items()]


def _without_figures(spaces: Mapping[str, Any]) -> list[Part]:
    """Say which published proxies lack figures, space by space."""
    told = {name: " ".join(without_figures(own)) for name, own in spaces.items()}
    return [textwrap.fill(f"{name}: {own}", WIDTH) for name, own in told.items() if own]


def _counts(fold: Mapping[str, Any], summary: Mapping[str, Any]) -> str:
    detail = ", ".join(f"{count} {reason}" for reason, count in fold["invalid"].items())
    invalid = f"{sum(fold['invalid'].values())} invalid" + (f" ({detail})" if detail else "")
    failed = sum(len(own["failed_networks"]) for own in fold["spaces"].values())
    ties = "ties forgiven; " if summary["ties"] == "forgiven" else ""
    return (
        f"Formulas evaluated: {evaluated(fold)}, {fold['stopped']} stopped early, {invalid}; "
        f"{ties}networks failed: {failed}"
    )
