"""The reports of rank and compare: tables for the terminal, as CSV and as Markdown."""

import csv
import io
from collections.abc import Callable, Sequence

from autoprox.commands.compare import CompareSummary
from autoprox.commands.rank import NOT_FINITE, RankRow, RankSummary
from autoprox.report.terminal.headlines import rank_headline
from autoprox.report.terminal.layout import (
    INTERVAL,
    Part,
    found_elsewhere,
    interval,
    markdown_line,
    named_table,
    number,
    paragraph,
    weights_differ,
)
from autoprox.report.terminal.metric_tables import (
    METRIC_TITLES,
    metric_cells,
    near_size_parts,
    regret_parts,
    size_parts,
    verdict_parts,
)
from autoprox.scoring.correlations import CORRELATIONS
from autoprox.scoring.evaluation_set import MOSTLY_SIZE
from autoprox.zoo.published_correlations import PublishedComparison, PublishedRow

HEADINGS = ("proxy", "Kendall", "95 % interval", "Spearman", "Pearson", "published KT", "invalid")
UNEQUAL = "So not all proxies are compared on the same networks."
NO_PAPER = "No paper reports a figure for these networks."


def rank_report(summary: RankSummary) -> list[Part]:
    """Show how well each proxy ranks, the best first, for each dataset."""
    columns: dict[str, Callable[[RankRow], str]] = {
        "Ken-\ndall": lambda row: number(row.kendall),
        "std of\nseeds": lambda row: number(row.std.kendall),
        f"\n{INTERVAL}": lambda row: interval(row.interval.kendall),
        "Spear-\nman": lambda row: number(row.spearman),
        "Pear-\nson": lambda row: number(row.pearson),
        "pub-\nlished": lambda row: number(row.published.kendall),
        "left\nout": lambda row: str(row.invalid or ""),
    }
    if summary.seeds == 1:
        del columns["std of\nseeds"]
    if all(row.published.kendall is None for row in summary.rows):
        del columns["pub-\nlished"]
    if not summary.invalid:
        del columns["left\nout"]
    table = named_table("\nproxy", *columns, least=26)
    for dataset, rows in _by_dataset(summary).items():
        table.add_row(dataset)
        for row in rows:
            table.add_row(f"  {row.proxy}", *(cell(row) for cell in columns.values()))
    networks = max(max(own.networks) for own in summary.budgets.values())
    means = {**summary.means, **summary.baseline_means}
    regrets = {
        row.proxy: {own.dataset: own.regret for own in summary.rows if own.proxy == row.proxy}
        for row in summary.rows
    } | {
        name: {dataset: own.regret for dataset, own in metrics.items()}
        for name, metrics in summary.baselines.items()
    }
    reasons = [
        f"{proxy}: {count} networks left out, {reason}"
        for proxy, found in summary.invalid.items()
        for reason, count in found.items()
    ]
    if any(NOT_FINITE in found for found in summary.invalid.values()):
        reasons.append(UNEQUAL)
    evolved_on = _evolved_on(summary)
    evolved_on += [
        weights_differ(proxy, evolved_with, summary.weights)
        for proxy, evolved_with in summary.evolved_with.items()
    ]
    evolved_on += [found_elsewhere(*own) for own in summary.found_on.items()]
    ties = "tau-b; " if summary.ties == "tau-b" else ""
    counts = (
        f"{summary.networks} networks, seeds: {summary.seeds}; {summary.weights} weights; "
        f"{ties}{summary.seconds:.0f} s"
    )
    return [
        paragraph(rank_headline(summary)),
        table,
        *(_published_parts(summary.published) if summary.published else ()),
        *near_size_parts(means, networks, summary.pairs),
        *verdict_parts(summary.comparison, list(summary.baseline_means)),
        *size_parts(summary.size, "proxy"),
        *regret_parts(summary.budgets, regrets),
        paragraph(_sentences(summary)),
        *(["\n".join(evolved_on)] if evolved_on else []),
        "\n".join([*reasons, counts]),
        f"Run: {summary.run}",
    ]


def compare_report(summary: CompareSummary) -> list[Part]:
    """Show how well each discovery ranks unseen networks, and how similar their scores are."""
    numbers = {name: str(number) for number, name in enumerate(summary.between, start=1)}
    table = named_table("tau with", *numbers.values())
    for name, taus in summary.between.items():
        table.add_row(f"{numbers[name]} {name}", *map(number, taus.values()))
    head = f"On the {summary.networks} networks that no run was evolved on"
    *parts, end = rank_report(summary)
    return [head, *parts, "Kendall's tau-b of the scores with each other's", table, end]


def _by_dataset(summary: RankSummary) -> dict[str, list[RankRow]]:
    found: dict[str, list[RankRow]] = {}
    for row in summary.rows:
        found.setdefault(row.dataset, []).append(row)
    return found


def _sentences(summary: RankSummary) -> str:
    """Name the proxies that are mostly size or choices, and those that a part would choose."""
    found = []
    if names := [name for name, check in summary.size.items() if check.mostly_size]:
        found.append(f"Mostly size (a tau of {MOSTLY_SIZE:g} or more): {', '.join(names)}.")
    if summary.choices_alone:
        names_alone = ", ".join(summary.choices_alone)
        found.append(f"Functions of the architecture's choices alone: {names_alone}.")
    chosen = summary.chosen
    for metric, title in METRIC_TITLES.items():
        if best := chosen.by.get(metric):
            found.append(
                f"Best by {title} on {chosen.train} of the networks: {best.proxy}, which has "
                f"{' '.join(metric_cells(best.test, metric))} on the other {chosen.test}."
            )
    return " ".join(found)


def _evolved_on(summary: RankSummary) -> list[str]:
    """Return a line for each proxy that was evolved on some of these networks."""
    lines = []
    for proxy, own in summary.evolved_on.items():
        line = f"{proxy} was evolved on {own.networks} of the {summary.networks} networks"
        if own.on_others is None:
            lines.append(f"{line}, and there are too few others for a tau.")
        else:
            tau = f"{number(own.on_others.kendall)} {interval(own.on_others.interval)}"
            lines.append(f"{line}; its Kendall tau on the other {own.others}: {tau}.")
    return lines


def _published_parts(table: PublishedComparison) -> list[Part]:
    """Show correlations next to those that papers report."""
    if not table.rows:
        return [NO_PAPER]
    sources = (f"{n.capitalize()}\n{source}" for n in CORRELATIONS for source in ("ours", "paper"))
    shown = named_table("\nproxy", *sources)
    shown.columns[0].max_width = 24
    for heading, rows in _by_source(table).items():
        shown.add_section()
        shown.add_row(heading)
        for row in rows:
            shown.add_row(f"  {row.proxy}", *_ours_and_published(row))
    return [shown, paragraph(_unreported(table))]


def _by_source(table: PublishedComparison) -> dict[str, list[PublishedRow]]:
    found: dict[str, list[PublishedRow]] = {}
    for row in table.rows:
        others = "" if row.same_networks else ", on other networks of the space"
        found.setdefault(f"{row.dataset}: {row.source}{others}", []).append(row)
    return found


def _ours_and_published(row: PublishedRow) -> list[str]:
    pairs = [getattr(row, name) for name in CORRELATIONS]
    return [
        number(value)
        for own in pairs
        for value in ((own.ours, own.published) if own else (None, None))
    ]


def _unreported(table: PublishedComparison) -> str:
    names = ", ".join(table.without)
    return f"No paper reports a figure here for: {names}" if names else "All have a figure."


def as_csv(rows: Sequence[RankRow]) -> str:
    """Return a line for each row, with standard deviations, intervals and published figures."""
    columns = [
        f"{name}{part}"
        for name in CORRELATIONS
        for part in ("", "_std", "_low", "_high", "_published")
    ]
    more = ("tau_b", "partial_tau", "near_size_tau")
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["proxy", "dataset", *columns, *more, "invalid"])
    for row in rows:
        figures = [
            figure
            for name in CORRELATIONS
            for figure in (
                getattr(row, name),
                getattr(row.std, name),
                *getattr(row.interval, name),
                getattr(row.published, name),
            )
        ]
        figures += [getattr(row, name) for name in more]
        writer.writerow([row.proxy, row.dataset, *figures, row.invalid])
    return file.getvalue()


def as_markdown(summary: RankSummary) -> str:
    """Return a table for each dataset, the best first."""

    def with_deviation(row: RankRow, name: str) -> str:
        return f"{number(getattr(row, name))} ± {number(getattr(row.std, name))}"

    lines = [f"{summary.benchmark}; {summary.seeds} seeds; {summary.weights} weights"]
    for dataset, rows in _by_dataset(summary).items():
        lines += ["", f"### {dataset}", "", markdown_line(HEADINGS)]
        lines.append(markdown_line(["---"] * len(HEADINGS)))
        for row in rows:
            low, high = row.interval.kendall
            cells = [
                f"`{row.proxy}`",
                *(with_deviation(row, "kendall"), f"{number(low)} to {number(high)}"),
                *(with_deviation(row, "spearman"), with_deviation(row, "pearson")),
                *(number(row.published.kendall), str(row.invalid)),
            ]
            lines.append(markdown_line(cells))
    if evolved_on := _evolved_on(summary):
        lines += ["", "\n".join(evolved_on)]
    if summary.published:
        lines += ["", "### Next to what papers report"]
        columns = [f"{name}, {source}" for name in CORRELATIONS for source in ("ours", "paper")]
        for heading, published in _by_source(summary.published).items():
            lines += ["", heading, "", markdown_line(["proxy", *columns])]
            lines.append(markdown_line(["---"] * (1 + len(columns))))
            lines += [
                markdown_line([f"`{row.proxy}`", *_ours_and_published(row)]) for row in published
            ]
        lines += ["", _unreported(summary.published) if summary.published.rows else NO_PAPER]
    return "\n".join(lines) + "\n"
