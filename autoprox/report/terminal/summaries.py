"""The report of each kind of run."""

from collections.abc import Callable, Mapping
from typing import Any

from autoprox.report.terminal.benchmarks import build_report
from autoprox.report.terminal.comparison import compare_report
from autoprox.report.terminal.evolution import evolution_report
from autoprox.report.terminal.layout import Part
from autoprox.report.terminal.many import many_report
from autoprox.report.terminal.ranking import rank_report
from autoprox.report.terminal.rediscovery import rediscovery_report
from autoprox.report.terminal.s3 import s3_report
from autoprox.report.terminal.search import search_report
from autoprox.report.terminal.shortfalls import shortfall_report
from autoprox.report.terminal.supernet import prenas_report, supernet_report, supernet_table_report


def discovery_report(summary: Mapping[str, Any]) -> list[Part]:
    """Of a discovery on one space or on several."""
    return many_report(summary) if "folds" in summary else evolution_report(summary)


REPORTS: Mapping[str, Callable[[Mapping[str, Any]], list[Part]]] = {
    "evolve": discovery_report,
    "rank": rank_report,
    "compare": compare_report,
    "search": search_report,
    "rediscover": rediscovery_report,
    "build": build_report,
    "supernet-train": supernet_report,
    "supernet-eval": supernet_table_report,
    "prenas": prenas_report,
    "s3": s3_report,
}


def report_of(kind: str, summary: Mapping[str, Any]) -> list[Part]:
    """Return the report of a run's summary, with its shortfalls before the last part."""
    parts = REPORTS[kind](summary)
    return [*parts[:-1], *shortfall_report(summary), parts[-1]]
