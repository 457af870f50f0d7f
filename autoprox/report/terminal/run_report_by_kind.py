"""The report of each kind of run."""

from collections.abc import Callable, Mapping
from typing import Any

from autoprox.report.terminal.benchmark_reports import build_report
from autoprox.report.terminal.curve_report import curve_report
from autoprox.report.terminal.evolve_report import evolve_report
from autoprox.report.terminal.layout import Part, shortfall_parts
from autoprox.report.terminal.oneshot_reports import (
    prenas_report,
    s3_report,
    supernet_eval_report,
    supernet_train_report,
)
from autoprox.report.terminal.rank_report import compare_report, rank_report
from autoprox.report.terminal.search_reports import rediscovery_report, search_report
from autoprox.runs.summary import Summary

REPORTS: Mapping[str, Callable[[Any], list[Part]]] = {
    "evolve": evolve_report,
    "rank": rank_report,
    "compare": compare_report,
    "curve": curve_report,
    "search": search_report,
    "rediscover": rediscovery_report,
    "build": build_report,
    "supernet-train": supernet_train_report,
    "supernet-eval": supernet_eval_report,
    "prenas": prenas_report,
    "s3": s3_report,
}


def run_report(kind: str, summary: Summary) -> list[Part]:
    """Return the report of a run's summary, with its shortfalls before the last part."""
    *parts, end = REPORTS[kind](summary)
    return [*parts, *shortfall_parts(summary.shortfalls), end]
