"""The report of each kind of run."""

from collections.abc import Callable, Mapping
from typing import Any

from autoprox.report.benchmarks import build_report
from autoprox.report.comparison import compare_report
from autoprox.report.evolution import evolution_report
from autoprox.report.layout import Part
from autoprox.report.many import many_report
from autoprox.report.ranking import rank_report
from autoprox.report.rediscovery import rediscovery_report
from autoprox.report.s3 import s3_report
from autoprox.report.search import search_report
from autoprox.report.shortfalls import shortfall_report
from autoprox.report.supernet import prenas_report, supernet_report, supernet_table_report


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
