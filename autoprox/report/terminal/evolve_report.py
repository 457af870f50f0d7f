"""The report of evolve: the formula, and how well it ranks each space's test networks."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from rich.table import Table

from autoprox.commands.evolve import EvolutionFold, EvolveSummary
from autoprox.evaluation.full_resolution_choice import RankingQuality
from autoprox.report.terminal.headlines import fold_headlines, prior_tables
from autoprox.report.terminal.layout import (
    INTERVAL,
    WIDTH,
    Part,
    interval,
    named_table,
    next_command,
    number,
    paragraph,
)
from autoprox.report.terminal.metric_tables import (
    LEGEND,
    METRIC_TITLES,
    VERDICTS,
    comparison_parts,
    metric_cells,
    near_size_parts,
    regret_parts,
    size_and_seed,
    size_parts,
)
from autoprox.scoring.bootstrap import Interval, Number

MAX_FRONT = 12  # formulas that are shown
BAR = 12  # characters of the largest factor's bar


def evolve_report(summary: EvolveSummary) -> list[Part]:
    """Show each fold's formula with its ranking quality, and the held-out spaces side by side."""
    one = len(summary.spaces) == 1
    parts = answer_parts(summary)
    for fold in summary.folds:
        held_out = f"held out: {fold.held_out}, all of whose networks are test networks"
        title = [f"Evolved on {', '.join(fold.trained)}", *([held_out] if fold.held_out else [])]
        parts += [] if one else [paragraph("; ".join(title))]
        parts += [fold.formula, fold.expression, *factor_parts(fold)]
        parts += front_parts(fold, summary.objective)
        parts += _detailed_parts(fold) if one else _overview_parts(fold)
        parts += [paragraph(f"{fold.ended}.")] if fold.ended else []
        parts.append(paragraph(_counts(fold, summary)))
    if len(summary.folds) > 1:
        parts += held_out_parts(summary.folds)
    for name, source in summary.spaces.items():
        if source.lacking:
            lacking = ", ".join(source.lacking)
            parts.append(paragraph(f"{name} has no scores on {lacking}."))
    if summary.prior:
        [(name, source)] = summary.spaces.items()
        tables = prior_tables(summary.prior, source.space or name)
        told = "The committee is shrunk towards a power law of other tables"
        parts.append(paragraph(f"{told}: {tables}."))
    end = f"Run: {summary.run}"
    return [*parts, end if one else f"{summary.seconds:.0f} s\n{end}"]


def answer_parts(summary: EvolveSummary) -> list[Part]:
    """Show how well each formula ranks in a sentence or two, and what to do next."""
    parts: list[Part] = []
    for fold in summary.folds:
        title = f"Without {fold.held_out}:\n" if fold.held_out else ""
        parts += [f"{title}{paragraph(own)}" for own in fold_headlines(fold)]
    return [*parts, *next_parts(summary)]


def next_parts(summary: EvolveSummary) -> list[Part]:
    """Return the command of the search that uses the formula, and what follows it."""
    name, source = next(iter(summary.spaces.items()))
    space = source.space or name
    searched = ["search", "--space", space, "--proxy", summary.run]
    within = ""
    if largest := _largest_measured(summary, name):
        searched += ["--params", f":{largest}"]
        within = " among networks no larger than the benchmark's"
    return [
        paragraph(
            f"This command searches with the proxy{within}; its report has the command that "
            "exports the best network."
        ),
        next_command(*searched, "--name", "found"),
    ]


def _largest_measured(summary: EvolveSummary, space: str) -> int | None:
    """Return the parameters of a space's largest network; None if its sizes weren't measured."""
    sizes = [
        max(budgets.params)
        for fold in summary.folds
        if space in fold.spaces
        for part in fold.spaces[space].budgets.values()
        for budgets in part.values()
    ]
    return max(sizes, default=None)


def factor_parts(fold: EvolutionFold) -> list[Part]:
    """Show the factors of a power law with their shares in its score; nothing of a tree."""
    if not fold.factors:
        return []
    table = named_table("term", "exponent", "spread", "share", "")
    table.columns[0].max_width = WIDTH - 40
    table.columns[0].no_wrap, table.columns[0].overflow = False, "fold"
    table.columns[-1].justify = "left"
    largest = max(abs(own.share or 0.0) for own in fold.factors)
    for own in fold.factors:
        bar = "█" * round(BAR * abs(own.share or 0.0) / largest) if largest else ""
        cells = f"{own.exponent:g}", number(own.spread), number(own.share)
        table.add_row(own.expression, *cells, bar)
    title = (
        "The factors of the power law: the standard deviation of the term's logarithm on the "
        "training networks (spread), and exponent x spread, its share in the logarithm of the score"
    )
    return [paragraph(title), table]


def front_parts(fold: EvolutionFold, objective: str) -> list[Part]:
    """Show the Pareto front, the longest formulas left out if there are many."""
    table = named_table("formula", "nodes", "tau", "partial tau")
    table.columns[0].max_width = WIDTH - 28
    table.columns[0].overflow = "ellipsis"
    shown = [i for n, i in enumerate(fold.front) if n < MAX_FRONT or i.chosen]
    for own in shown:
        mark = "> " if own.chosen else "  "
        metrics = number(own.jcm), number(own.partial_tau)
        table.add_row(f"{mark}{own.expression}", str(own.size), *metrics)
    hidden = len(fold.front) - len(shown)
    left = f"; {hidden} longer ones left out" if hidden else ""
    by = "by both taus and by size" if objective == "both" else "by fitness and by size"
    chosen = "; marked is the formula that comes closest to the committee" if fold.committee else ""
    return [paragraph(f"The Pareto front {by}, on the training networks{left}{chosen}"), table]


def _detailed_parts(fold: EvolutionFold) -> list[Part]:
    """Show everything that was measured on the one space of an evolution."""
    (quality,) = fold.spaces.values()
    test, shown = quality.size["test"], shown_rivals(quality)
    means = {name: quality.means[name].test for name in ("proxy", *shown)}
    tables = {name: quality.tables[name] for name in ("proxy", *shown)}
    regrets = {
        name: {dataset: row.regret for dataset, row in own.test.items()}
        for name, own in tables.items()
    }
    return [
        _metrics_table(quality, shown),
        *near_size_parts(means, test.networks, test.pairs),
        *comparison_parts({name: quality.comparison[name] for name in shown}),
        *regret_parts(quality.budgets["test"], regrets),
        *_zoo_parts(quality),
        *size_parts(quality.size, "part"),
        paragraph(_verdict(quality)),
        size_and_seed(quality),
    ]


def _metrics_table(quality: RankingQuality, shown: Sequence[str]) -> Table:
    """Return the taus on both parts of the split, by dataset and in the mean."""
    test, train = (quality.size[part].networks for part in ("test", "train"))
    table = named_table(
        "\nscored by",
        *(f"test n = {test}\nKendall", f"\n{INTERVAL}"),
        *(f"train n = {train}\nKendall", f"\n{INTERVAL}"),
    )
    for title in (*quality.test, "mean"):
        table.add_row(title)
        for name in ("proxy", *shown):
            means, own = quality.means[name], quality.tables[name]
            rows = (
                (means.test, means.train)
                if title == "mean"
                else (own.test[title], own.train[title])
            )
            table.add_row(f"  {name}", *(c for row in rows for c in metric_cells(row, "kendall")))
    return table


def shown_rivals(quality: RankingQuality) -> list[str]:
    """Return the baselines and the best of the zoo; the other proxies have a table of their own."""
    left_out = set(quality.zoo.compared).difference(quality.zoo.best.values())
    return [name for name in quality.baselines if name not in left_out]


def _zoo_parts(quality: RankingQuality) -> list[Part]:
    """Show every published proxy that was asked for, on both parts of the split."""
    names = [name for name in quality.zoo.compared if name in quality.means]
    if not names:
        return []
    table = named_table("\nscored by", "\ntau", f"\n{INTERVAL}", "partial\ntau", f"\n{INTERVAL}")
    for part in ("test", "train"):
        table.add_row(part, f"n = {quality.size[part].networks}")
        for name in ("proxy", *names):
            row = getattr(quality.means[name], part)
            cells = metric_cells(row, "kendall") + metric_cells(row, "partial_tau")
            table.add_row(f"  {name}", *cells)
    return ["Published proxies, means over the datasets", table]


def _verdict(quality: RankingQuality) -> str:
    """Name the baselines that are better than the proxy, and the best of the zoo."""
    found, comparison = [], quality.comparison.items()
    for metric, title in METRIC_TITLES.items():
        better = [n for n, own in comparison if getattr(own, metric).verdict == "worse"]
        rule = "Significantly better than the proxy on the test networks"
        rivals = ", ".join(better) or "none of those it was compared with"
        found.append(f"{rule} by {title}: {rivals}.")
    if quality.zoo.best:
        named = ", ".join(
            f"{name} by {METRIC_TITLES[own]}" for own, name in quality.zoo.best.items()
        )
        found.append(f"Best of the zoo on the training networks: {named}.")
    return " ".join([*found, *without_metrics(quality)])


def without_metrics(quality: RankingQuality) -> list[str]:
    """Say which requested proxies have no metrics or no value on some networks, and why."""
    refused = quality.zoo.refused.items()
    missing = (quality.zoo.missing or {}).items()
    return [
        *(f"Not compared with {name}: {reason}." for name, reason in refused),
        *(f"{name} has no value on {count} networks." for name, count in missing),
    ]


def _overview_parts(fold: EvolutionFold) -> list[Part]:
    """Show the means over the datasets on each of several spaces."""
    headings = f"\n{INTERVAL}", "\nproxy"
    table = named_table("\nscored by", "\ntau", *headings, "partial\ntau", *headings)
    for space, own in fold.spaces.items():
        table.add_row(space, f"n = {own.size['test'].networks}")
        for name, means in own.means.items():
            cells = []
            differences = own.comparison.get(name)
            for metric in METRIC_TITLES:
                verdict = getattr(differences, metric).verdict if differences else None
                cells += [*metric_cells(means.test, metric), VERDICTS[verdict] if verdict else ""]
            table.add_row(f"  {name}", *cells)
    sizes = {name: own.size["test"] for name, own in fold.spaces.items()}
    notes = {name: [size_and_seed(own), *without_metrics(own)] for name, own in fold.spaces.items()}
    return [
        paragraph(
            f"Test networks, means over the datasets, and whether the proxy is better ({LEGEND})"
        ),
        table,
        *size_parts(sizes, "space"),
        *(paragraph(f"{name}: {' '.join(own)}") for name, own in notes.items()),
    ]


def _counts(fold: EvolutionFold, summary: EvolveSummary) -> str:
    asked, one = fold.counts.evaluations.asked, len(summary.spaces) == 1
    evaluated = str(fold.evaluations) if asked is None else f"{fold.evaluations} of at most {asked}"
    detail = ", ".join(f"{count} {reason}" for reason, count in fold.invalid.items())
    invalid = f"{sum(fold.invalid.values())} invalid" + (f" ({detail})" if detail else "")
    stopped = f"{fold.stopped} stopped early, " if fold.stopped or not one else ""
    failed = sum(len(own.failed_networks) for own in fold.spaces.values())
    ties = "tau-b; " if summary.ties == "tau-b" else ""
    seconds = f"; {summary.seconds:.0f} s" if one else ""
    return (
        f"Formulas evaluated: {evaluated}, {stopped}{invalid}; {ties}"
        f"{summary.weights} weights; networks failed: {failed}{seconds}"
    )


class HeldOutRow(NamedTuple):
    """A formula on the space that was held out, means over the datasets."""

    held_out: str
    tau: Number
    params: Number
    difference: Number
    interval: Interval
    partial_tau: Number
    partial_tau_interval: Interval


def held_out_row(fold: EvolutionFold) -> HeldOutRow:
    """Return the metrics of a fold's formula on the space that was held out."""
    own = fold.spaces[str(fold.held_out)]
    proxy, difference = own.means["proxy"].test, own.comparison["params"].kendall
    return HeldOutRow(
        str(fold.held_out),
        proxy.kendall,
        own.means["params"].test.kendall,
        difference.difference,
        difference.interval,
        proxy.partial_tau,
        proxy.partial_tau_interval,
    )


def held_out_parts(folds: Sequence[EvolutionFold]) -> list[Part]:
    """Show the formulas on the spaces that were held out, compared with the parameter count."""
    headings = "\ntau", "minus\nparams", f"\n{INTERVAL}", "partial\ntau", f"\n{INTERVAL}"
    table = named_table("\nheld out", *headings)
    rows = [held_out_row(fold) for fold in folds]
    none: Interval = (None, None)
    means: list[Number] = []
    for name in ("tau", "params", "difference", "partial_tau"):
        values = [getattr(row, name) for row in rows]
        means.append(None if None in values else float(np.mean(values)))
    tau, params, difference, partial = means
    for row in (*rows, HeldOutRow("mean", tau, params, difference, none, partial, none)):
        less = "-" if row.difference is None else f"{row.difference:+.3f}"
        table.add_row(
            row.held_out,
            *(number(row.tau), less, interval(row.interval)),
            *(number(row.partial_tau), interval(row.partial_tau_interval)),
        )
    return ["Each space by the formula that was evolved on the others, all networks", table]
