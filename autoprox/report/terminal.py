"""What the commands print: results as text and tables, or as one JSON document."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from autoprox.export.formula import latex, legend, pretty
from autoprox.language.tree import Tree, canonical, statistics
from autoprox.report.console import WIDTH, aligned, digits, plain_table
from autoprox.scoring.tables import mean_kendall
from autoprox.zoo.loading import Loaded

MEAN = "mean"
ROUNDING = 1e-9


def evolution_report(summary: Mapping[str, Any]) -> list[str | Table]:
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
    table = plain_table("\nscored by")
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
                *(digits(test["kendall"]), _interval(test["interval"])),
                *(digits(test["spearman"]), digits(test["pearson"])),
                *(digits(train["kendall"]), _interval(train["interval"])),
            )
    table.add_row(MEAN)
    for name, parts in rows.items():
        means = {part: digits(mean_kendall(parts[part])) for part in ("test", "train")}
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


def rank_report(summary: Mapping[str, Any]) -> list[str | Table]:
    """How well each proxy ranks, the best first, a part for each dataset."""
    rows = summary["rows"]
    shown: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "Ken-\ndall": lambda row: digits(row["kendall"]),
        "std of\nseeds": lambda row: digits(row["std"]["kendall"]),
        "\n95 % interval": lambda row: _interval(row["interval"]["kendall"]),
        "Spear-\nman": lambda row: digits(row["spearman"]),
        "Pear-\nson": lambda row: digits(row["pearson"]),
        "pub-\nlished": lambda row: digits(row["published"]["kendall"]),
        "left\nout": lambda row: str(row["invalid"] or ""),
    }
    if summary["seeds"] == 1:
        del shown["std of\nseeds"]
    if all(row["published"]["kendall"] is None for row in rows):
        del shown["pub-\nlished"]
    if not summary["invalid"]:
        del shown["left\nout"]
    table = plain_table("\nproxy")
    table.columns[0].no_wrap, table.columns[0].max_width = True, 26
    for heading in shown:
        table.add_column(heading, justify="right", no_wrap=True)
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        table.add_row(dataset)
        for row in rows:
            if row["dataset"] == dataset:
                table.add_row(f"  {row['proxy']}", *(cell(row) for cell in shown.values()))
    reasons = [
        f"{proxy}: {count} networks left out, {reason}"
        for proxy, found in summary["invalid"].items()
        for reason, count in found.items()
    ]
    counts = (
        f"{summary['networks']} networks, seeds: {summary['seeds']}; {summary['seconds']:.0f} s"
    )
    return [table, "\n".join([*reasons, counts]), f"Run: {summary['run']}"]


def proxy_details(loaded: Loaded) -> dict[str, Any]:
    """All that `autoprox show --json` says."""
    tree = loaded.tree
    return {
        "expression": str(tree),
        "formula": pretty(tree),
        "latex": latex(tree),
        "type": str(tree.type),
        "size": tree.size,
        "depth": tree.depth,
        "hash": tree.digest,
        "reads": terminals(tree),
        "passes": passes(tree),
        "citation": loaded.citation,
        "found": loaded.found,
        "taus": loaded.taus,
    }


def proxy_report(loaded: Loaded) -> list[str | Table]:
    """The formula with its legend, the tree's facts, where it was found, and its taus."""
    tree = loaded.tree
    needed = "; ".join(f"{probe} {kind}" for probe, kind in passes(tree).items())
    facts = {
        "type": str(tree.type),
        "size": f"{tree.size} nodes, depth {tree.depth}",
        "reads": ", ".join(terminals(tree)) or "nothing",
        "passes": needed or "none",
        "hash": tree.digest,
        "from": loaded.citation,
        **_origin(loaded.found or {}),
    }
    parts: list[str | Table] = [pretty(tree, Console().width)]
    if symbols := legend(tree):
        parts.append(aligned(symbols))
    parts += [str(tree), aligned({name: text for name, text in facts.items() if text})]
    return [*parts, _tau_table(loaded.taus)] if loaded.taus else parts


def terminals(tree: Tree) -> list[str]:
    """The names of the statistics and of the structure that a tree reads."""

    def visit(node: Tree, args: list[set[str]]) -> set[str]:
        return set().union(*args) if args else {node.symbol}

    return sorted(canonical(tree).fold(visit) - {"one"})


def passes(tree: Tree) -> dict[str, str]:
    """Of each probe that the tree needs a pass of: `forward`, or `forward and backward`."""
    found: dict[str, str] = {}
    for statistic in sorted(statistics(tree), key=str):
        if statistic.quantity in ("grad", "act_grad"):
            found[statistic.probe] = "forward and backward"
        elif statistic.quantity == "act":
            found.setdefault(statistic.probe, "forward")
    return found


def _origin(found: Mapping[str, Any]) -> dict[str, str]:
    if not found:
        return {}
    return {
        "found by": f"{found['run']}, seed {found['seed']}",
        "found on": f"{found['benchmark']}, {found['space']}, label {found['label']}",
        "datasets": ", ".join(found["datasets"]),
    }


def _tau_table(taus: Mapping[str, Mapping[str, float | None]]) -> Table:
    table = plain_table("Kendall's tau")
    for part in taus:
        table.add_column(part, justify="right")
    for dataset in dict.fromkeys(dataset for part in taus.values() for dataset in part):
        table.add_row(dataset, *(digits(part.get(dataset)) for part in taus.values()))
    return table


def _interval(bounds: Sequence[float | None]) -> str:
    low, high = bounds
    return "-" if low is None or high is None else f"[{low:.2f}, {high:.2f}]"


def _or_least(tau: float | None) -> float:
    return -2.0 if tau is None else tau
