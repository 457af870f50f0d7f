"""What several proxies are worth, side by side: at equal size, beside baselines, on a budget."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.table import Table

from autoprox.files.human_readable import compact
from autoprox.report.terminal.layout import INTERVAL, WIDTH, Part, interval, new_table, number, room
from autoprox.scoring.resampling import FEWEST_PAIRS
from autoprox.scoring.seeds import SEED_SHARE
from autoprox.scoring.tables import MOSTLY_SIZE, mostly_size

Rows = Mapping[str, Mapping[str, Any]]  # by proxy
NAME = 26  # characters
FIGURES = {"kendall": "tau", "given_size": "tau given the size"}
SIZES = {"params": "params", "flops": "FLOPs", "depth": "depth"}


def equal_size_parts(means: Rows, networks: int, pairs: int) -> list[Part]:
    """The tau given the size, and that over the pairs of equal size: means over the datasets."""
    headings = "given\nthe size", f"\n{INTERVAL}", "pairs of\nequal size", f"\n{INTERVAL}"
    table = named_table("\nscored by", *headings)
    for name, row in means.items():
        near = "too few" if pairs < FEWEST_PAIRS else number(row["equal_size"])
        table.add_row(
            name,
            *(number(row["given_size"]), interval(row["given_size_interval"])),
            *(near, interval(row["equal_size_interval"])),
        )
    title = (
        f"At equal size: Kendall's partial tau given the parameters, {networks} networks, and tau "
        f"over the {pairs} pairs whose parameters differ by less than 10 %"
    )
    return [_wrapped(title), table]


def comparison_parts(comparison: Rows) -> list[Part]:
    """The proxy less each baseline, by the tau and at equal size."""
    table = named_table("the proxy less", "difference", INTERVAL, "verdict")
    for figure, where in FIGURES.items():
        table.add_row(where)
        for name, figures in comparison.items():
            table.add_row(f"  {name}", *_compared(figures[figure]))
    return ["The proxy beside the baselines (paired bootstrap)", table]


def verdict_parts(comparison: Mapping[str, Rows], baselines: Sequence[str]) -> list[Part]:
    """Whether each proxy is better than each baseline, by the tau and at equal size."""
    headings = [
        f"{'' if place else figure}\n{name}"
        for figure in ("tau", "given size")
        for place, name in enumerate(baselines)
    ]
    table = named_table("\nproxy", *headings)
    for proxy, rivals in comparison.items():
        verdicts = [
            rivals[name][figure]["verdict"] or "-"
            for figure in ("kendall", "given_size")
            for name in baselines
        ]
        table.add_row(proxy, *verdicts)
    title = (
        "Beside the baselines, means over the datasets (paired bootstrap; the ridge regression of "
        "each fifth of the networks is fitted to the others)"
    )
    return [_wrapped(title), table]


def regret_parts(budgets: Rows, regrets: Mapping[str, Mapping[str, Sequence[Any]]]) -> list[Part]:
    """Of each dataset, what the picks lose at five budgets; that by params is the largest's."""
    parts: list[Part] = []
    for dataset, own in budgets.items():
        heads = zip(own["params"], own["networks"], strict=True)
        table = named_table(
            f"{dataset}\nnetworks", *(f"{compact(size)}\n{count}" for size, count in heads)
        )
        values = {name: by_dataset[dataset] for name, by_dataset in regrets.items()}
        most = max((v for row in values.values() for v in row if v is not None), default=0.0)
        decimals = 2 if most >= 1 else 3  # of a cross-entropy, all are small
        for name, row in values.items():
            shown = "params (the largest)" if name == "params" else name
            table.add_row(shown, *("-" if v is None else f"{v:.{decimals}f}" for v in row))
        parts.append(table)
    title = "Regret: the best true score within a budget of parameters less the pick's"
    return [title, *parts]


def size_parts(checks: Rows, first: str) -> list[Part]:
    """The taus with what counts networks, and which of them are mostly size."""
    table = named_table(first, *("n", *SIZES.values()))
    for name, check in checks.items():
        taus = (number(check[size]) for size in SIZES)
        table.add_row(name, str(check["networks"]), *taus)
    return ["Size check: Kendall's tau of the scores with", table]


def nature(summary: Mapping[str, Any]) -> str:
    """Whether a discovered proxy is mostly size, and whether the seed matters to its scores."""
    found, check, share = [], summary["size"]["test"], summary["seed_share"]
    if mostly_size(check):
        taus = [f"{number(check[name])} with {SIZES[name]}" for name in ("params", "flops")]
        found.append(
            f"This proxy is mostly size: its tau is {', '.join(taus)} (from {MOSTLY_SIZE:g} on)."
        )
    if share < SEED_SHARE:
        found.append(
            "It is a function of the architecture's choices alone: another seed changes its "
            f"scores by {share:.2%} of their spread."
        )
    else:
        found.append(f"Another seed changes its scores by {share:.0%} of their spread.")
    return _wrapped(" ".join(found))


def named_table(first: str, *headings: str) -> Table:
    """A table whose first column is names, the others numbers."""
    table = new_table(first)
    table.columns[0].no_wrap, table.columns[0].max_width = True, room(headings, NAME)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _compared(figure: Mapping[str, Any]) -> Iterable[str]:
    difference = figure["difference"]
    shown = "-" if difference is None else f"{difference:+.3f}"
    return shown, interval(figure["interval"]), figure["verdict"] or "-"


def _wrapped(text: str) -> str:
    return textwrap.fill(text, WIDTH)
