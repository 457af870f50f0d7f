"""What a discovery found, and what it is worth."""

import textwrap
from collections.abc import Mapping
from typing import Any

from rich.table import Table

from autoprox.report.layout import WIDTH, Part, interval, new_table, number
from autoprox.scoring.tables import mean_kendall

MEAN = "mean"
ROUNDING = 1e-9


def evolution_report(summary: Mapping[str, Any]) -> list[Part]:
    """The proxy that was found, what it is worth, and what was done for it."""
    return [
        summary["formula"],
        summary["expression"],
        _worth_table(summary),
        textwrap.fill(_verdict(summary), WIDTH),
        textwrap.fill(_counts(summary), WIDTH),
        f"Run: {summary['run']}\nNext: autoprox show {summary['run']}",
    ]


def _worth_table(summary: Mapping[str, Any]) -> Table:
    table = new_table("\nscored by")
    for heading in ("test\nKendall", "\n95 % interval", "\nSpearman", "\nPearson"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("train\nKendall", "\n95 % interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    rows = _scored(summary)
    for dataset in summary["test"]:
        table.add_row(dataset)
        for name, parts in rows.items():
            test, train = parts["test"][dataset], parts["train"][dataset]
            table.add_row(
                f"  {name}",
                *(number(test["kendall"]), interval(test["interval"])),
                *(number(test["spearman"]), number(test["pearson"])),
                *(number(train["kendall"]), interval(train["interval"])),
            )
    table.add_row(MEAN)
    for name, parts in rows.items():
        means = {part: number(mean_kendall(parts[part])) for part in ("test", "train")}
        table.add_row(f"  {name}", means["test"], "", "", "", means["train"])
    return table


def _scored(summary: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The proxy's own tables of both parts, then those of each baseline."""
    own = {part: summary[part] for part in ("train", "test")}
    return {"proxy": own, **summary["baselines"]}


def _verdict(summary: Mapping[str, Any]) -> str:
    """Which baselines rank the test networks better than the proxy, and where."""
    kendall = {
        name: {dataset: row["kendall"] for dataset, row in parts["test"].items()}
        | {MEAN: mean_kendall(parts["test"])}
        for name, parts in _scored(summary).items()
    }
    own = kendall.pop("proxy")
    better = {
        name: [d for d, tau in taus.items() if _or_least(tau) - _or_least(own[d]) > ROUNDING]
        for name, taus in kendall.items()
    }
    found = [f"{name} ({', '.join(where)})" for name, where in better.items() if where]
    if found:
        verdict = f"Better than the proxy on the test networks: {', '.join(found)}."
    else:
        verdict = "On the test networks no baseline is better than the proxy."
    broken = mean_kendall(summary["test"], "ties_broken")
    if own[MEAN] is None or broken is None or own[MEAN] - broken <= ROUNDING:
        return verdict
    return f"{verdict} With the proxy's ties in random order its mean Kendall is {broken:.3f}."


def _counts(summary: Mapping[str, Any]) -> str:
    reasons = summary["invalid"]
    detail = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    invalid = f"{sum(reasons.values())} invalid" + (f" ({detail})" if detail else "")
    failed = len(summary["failed_networks"])
    return (
        f"Formulas evaluated: {summary['evaluations']}, {invalid}; "
        f"networks failed: {failed}; {summary['seconds']:.0f} s"
    )


def _or_least(tau: float | None) -> float:
    return -2.0 if tau is None else tau
