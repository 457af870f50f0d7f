"""Lists of runs, of proxies side by side, and of a run's formulas."""

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from autoprox.loaded_runs import Overview
from autoprox.report.terminal.layout import WIDTH, Part, named_table, new_table, number
from autoprox.report.terminal.proxy_report import ProxyGlance
from autoprox.zoo.proxy_loading import NumberedFormula

AGES = (("d", 86400), ("h", 3600), ("min", 60))
FACTS = ("kind", "benchmark", "space", "seed", "fitness", "test", "nodes", "depth", "seconds")
TAU_FACTS = ("fitness", "test")


def runs_report(rows: Sequence[Overview], folder: Path) -> list[Part]:
    """Show a line for each run, with its full name."""
    if not rows:
        return [f"{folder} has no runs"]
    table = named_table("", "kind", "benchmark", "fitness", "test", "age")
    names = []
    for place, row in enumerate(rows, start=1):
        begun = datetime.fromisoformat(row.begun) if row.begun else None
        benchmark = Path(row.benchmark or "-").name
        figures = [number(row.fitness), number(row.test)]
        table.add_row(str(place), row.kind, benchmark, *figures, _age(begun))
        unfinished = "" if row.ended else " (unfinished)"
        names.append(f"{place}: {row.run}{unfinished}")
    return [table, "\n".join(names)]


def proxy_comparison_table(rows: Sequence[ProxyGlance]) -> list[Part]:
    """Show the facts of each proxy or run, a column for each, and the formulas below."""
    table = new_table("")
    for place in range(1, len(rows) + 1):
        table.add_column(str(place), justify="right", overflow="fold")
    for fact in FACTS:
        values = [getattr(row, fact) for row in rows]
        if any(value is not None for value in values):
            table.add_row(fact, *(_shown(fact, value) for value in values))
    settings = [row.settings or {} for row in rows]
    for name in dict.fromkeys(name for own in settings for name in own):
        values = [own.get(name) for own in settings]
        if name not in FACTS and any(value != values[0] for value in values):
            table.add_row(name, *(_shown(name, value) for value in values))
    names = [f"{place}: {row.name}" for place, row in enumerate(rows, start=1)]
    formulas = [
        f"{place}: {row.formula}" if "\n" not in row.formula else row.formula
        for place, row in enumerate(rows, start=1)
        if row.formula
    ]
    return ["\n".join(names), table, *formulas]


def formulas_report(rows: Sequence[NumberedFormula], run: str) -> list[Part]:
    """Show the formulas of a run by their numbers, in full."""
    table = new_table("number", "size", "train", "test")
    table.add_column("expression", overflow="fold")
    for row in rows:
        mark = "> " if row.number == 1 else "  "
        taus = number(row.train), number(row.test)
        table.add_row(f"{mark}{row.number}", str(row.size), *taus, row.expression)
    note = (
        "Taus are means over the datasets: at full resolution for 1, which was chosen; as\n"
        "measured during the evolution, on the training networks, for the others."
    )
    return [table, note, f"Use a formula by its number: {run}:{rows[-1].number}"]


def _shown(fact: str, value: Any) -> str:
    if value is None:
        return "-"
    if fact in TAU_FACTS:
        return number(value)
    if isinstance(value, list):
        return ",".join(map(str, value)) if any(own is not None for own in value) else "-"
    return f"{value:g}" if isinstance(value, float) else str(value)[:WIDTH]


def _age(begun: datetime | None) -> str:
    if begun is None:
        return "-"
    seconds = (datetime.now(timezone.utc) - begun).total_seconds()
    unit, length = next((own for own in AGES if seconds >= own[1]), ("s", 1))
    return f"{seconds / length:.0f} {unit}"
