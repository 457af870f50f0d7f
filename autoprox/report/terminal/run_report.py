"""The report of each kind of run."""

import textwrap
from collections.abc import Callable, Mapping
from typing import Any

from autoprox.report.terminal.benchmarks import build_report
from autoprox.report.terminal.evolve_report import evolve_report
from autoprox.report.terminal.layout import WIDTH, Part
from autoprox.report.terminal.rank_report import compare_report, rank_report
from autoprox.report.terminal.rediscovery import rediscovery_report
from autoprox.report.terminal.s3 import s3_report
from autoprox.report.terminal.search import search_report
from autoprox.report.terminal.supernet import prenas_report, supernet_report, supernet_table_report
from autoprox.runs.summary import Summary

REPORTS: Mapping[str, Callable[[Any], list[Part]]] = {
    "evolve": evolve_report,
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


def run_report(kind: str, summary: Summary) -> list[Part]:
    """Return the report of a run's summary, with its shortfalls before the last part."""
    *parts, end = REPORTS[kind](summary)
    lines = [
        textwrap.fill(
            f"{own.of}: {own.asked} asked for, {own.found} {own.reason}",
            WIDTH,
            subsequent_indent="  ",
            break_long_words=False,
        )
        for own in summary.shortfalls
    ]
    return [*parts, *(["\n".join(lines)] if lines else []), end]
