"""What a discovery found, and what it is worth."""

import textwrap
from collections.abc import Mapping
from typing import Any

from rich.table import Table

from autoprox.files.shell_command import command_line
from autoprox.report.terminal.layout import INTERVAL, WIDTH, Part, interval, number
from autoprox.report.terminal.worth import (
    comparison_parts,
    equal_size_parts,
    named_table,
    nature,
    regret_parts,
    size_parts,
)

MEAN = "mean"
FRONT = 12  # formulas that are shown


def evolution_report(summary: Mapping[str, Any]) -> list[Part]:
    """The proxy that was found, what it is worth, and what was done for it."""
    test, shown = summary["size"]["test"], rivals(summary)
    of_test = {name: summary["means"][name]["test"] for name in ("proxy", *shown)}
    comparison = {name: summary["comparison"][name] for name in shown}
    return [
        summary["formula"],
        summary["expression"],
        *front_parts(summary),
        _worth_table(summary),
        *equal_size_parts(of_test, test["networks"], test["pairs"]),
        *comparison_parts(comparison),
        *regret_parts(summary["budgets"]["test"], _regrets(summary)),
        *zoo_parts(summary),
        *size_parts(summary["size"], "part"),
        textwrap.fill(_verdict(summary), WIDTH),
        nature(summary),
        *ended_parts(summary),
        textwrap.fill(_counts(summary), WIDTH),
        f"Run: {summary['run']}\nNext: {command_line('show', summary['run'])}",
    ]


def front_parts(summary: Mapping[str, Any]) -> list[Part]:
    """The formulas that no shorter one is as good as, the longest of them left out if many."""
    both = summary["objective"] == "both"
    table = named_table("formula", "nodes", "tau", "given size")
    table.columns[0].max_width = WIDTH - 28
    table.columns[0].overflow = "ellipsis"
    front = summary["front"]
    shown = [i for n, i in enumerate(front) if n < FRONT or i["chosen"]]
    for own in shown:
        mark = "> " if own["chosen"] else "  "
        values = (number(own["jcm"]), number(own["given_size"]))
        table.add_row(f"{mark}{own['expression']}", str(own["size"]), *values)
    left = f"; {len(front) - len(shown)} longer ones left out" if len(front) > len(shown) else ""
    by = "by both taus and by size" if both else "by fitness and by size"
    return [f"The front {by}, on the training networks{left}", table]


def ended_parts(summary: Mapping[str, Any]) -> list[Part]:
    """Say how the budget of evaluations ended the evolution, if it did."""
    ended = summary.get("ended")
    return [textwrap.fill(f"{ended}.", WIDTH)] if ended else []


def evaluated(summary: Mapping[str, Any]) -> str:
    """Return how many formulas were evaluated, and how many might have been."""
    done = summary["evaluations"]
    asked = summary.get("counts", {}).get("evaluations", {}).get("asked")
    return f"{done} of at most {asked}" if asked is not None else str(done)


def _worth_table(summary: Mapping[str, Any]) -> Table:
    counts = {part: summary["size"][part]["networks"] for part in ("test", "train")}
    table = named_table(
        "\nscored by",
        *(f"test n = {counts['test']}\nKendall", f"\n{INTERVAL}"),
        *(f"train n = {counts['train']}\nKendall", f"\n{INTERVAL}"),
    )
    rows = _scored(summary)
    for dataset in summary["test"]:
        table.add_row(dataset)
        for name, parts in rows.items():
            test, train = parts["test"][dataset], parts["train"][dataset]
            table.add_row(
                f"  {name}",
                *(number(test["kendall"]), interval(test["interval"])),
                *(number(train["kendall"]), interval(train["interval"])),
            )
    table.add_row(MEAN)
    for name in rows:
        test, train = (summary["means"][name][part] for part in ("test", "train"))
        table.add_row(
            f"  {name}",
            *(number(test["kendall"]), interval(test["interval"])),
            *(number(train["kendall"]), interval(train["interval"])),
        )
    return table


def _scored(summary: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The proxy's own tables of both parts, then those of what it is shown with."""
    own = {part: summary[part] for part in ("train", "test")}
    return {"proxy": own, **{name: summary["baselines"][name] for name in rivals(summary)}}


def rivals(summary: Mapping[str, Any]) -> list[str]:
    """Return the baselines and the best of the zoo: the others have a table of their own."""
    zoo = summary["zoo"]
    left_out = set(zoo["compared"]).difference(zoo["best"].values())
    return [name for name in summary["baselines"] if name not in left_out]


def zoo_parts(summary: Mapping[str, Any]) -> list[Part]:
    """Show every published proxy that was asked for, on both parts of the split."""
    names = [name for name in summary["zoo"]["compared"] if name in summary["means"]]
    if not names:
        return []
    table = named_table("\nscored by", "\ntau", f"\n{INTERVAL}", "partial\ntau", f"\n{INTERVAL}")
    for part in ("test", "train"):
        table.add_row(part, f"n = {summary['size'][part]['networks']}")
        for name in ("proxy", *names):
            row = summary["means"][name][part]
            table.add_row(
                f"  {name}",
                *(number(row["kendall"]), interval(row["interval"])),
                *(number(row["given_size"]), interval(row["given_size_interval"])),
            )
    return ["Published proxies, means over the datasets", table]


def _regrets(summary: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Of each proxy and dataset, on the test networks."""
    return {
        name: {dataset: row["regret"] for dataset, row in parts["test"].items()}
        for name, parts in _scored(summary).items()
    }


def _verdict(summary: Mapping[str, Any]) -> str:
    """Which baselines are better than the proxy, and which are the best of the zoo."""
    found = []
    for figure, where in (("kendall", "by tau"), ("given_size", "at equal size")):
        comparison = summary["comparison"]
        better = [n for n, own in comparison.items() if own[figure]["verdict"] == "worse"]
        named = ", ".join(better) or "no baseline"
        found.append(f"Better than the proxy on the test networks {where}: {named}.")
    if best := summary["zoo"]["best"]:
        by = {"kendall": "by tau", "given_size": "at equal size"}
        named = ", ".join(f"{name} {by[figure]}" for figure, name in best.items())
        found.append(f"Best of the zoo on the training networks: {named}.")
    return " ".join([*found, *without_figures(summary)])


def without_figures(summary: Mapping[str, Any]) -> list[str]:
    """Say which of the published proxies that were asked for have no figures, and why."""
    zoo = summary["zoo"]
    refused = [f"Not compared with {name}: {reason}." for name, reason in zoo["refused"].items()]
    missing = zoo.get("missing", {}).items()
    return [*refused, *(f"{name} has no value on {count} networks." for name, count in missing)]


def _counts(summary: Mapping[str, Any]) -> str:
    reasons = summary["invalid"]
    detail = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    invalid = f"{sum(reasons.values())} invalid" + (f" ({detail})" if detail else "")
    failed = len(summary["failed_networks"])
    ties = "ties forgiven; " if summary["ties"] == "forgiven" else ""
    return (
        f"Formulas evaluated: {evaluated(summary)}, {invalid}; {ties}"
        f"networks failed: {failed}; {summary['seconds']:.0f} s"
    )
