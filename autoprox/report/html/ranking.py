"""The sections of a ranking."""

from autoprox.report.html.elements import Markup, folded, section, table
from autoprox.report.html.plots import heat_map
from autoprox.report.html.told import Told
from autoprox.report.terminal.layout import interval, number


def heat(told: Told) -> Markup:
    """Kendall's tau of each proxy on each dataset, the best on average first."""
    rows = {(row["proxy"], row["dataset"]): row["kendall"] for row in told.summary["rows"]}
    datasets = list(dict.fromkeys(dataset for _, dataset in rows))
    names = dict.fromkeys(proxy for proxy, _ in rows)

    def mean(proxy: str) -> float:
        known = [rows[proxy, d] for d in datasets if rows.get((proxy, d)) is not None]
        return sum(known) / len(known) if known else -1.0

    ordered = sorted(names, key=mean, reverse=True)
    title = "Kendall's tau of proxies and datasets"
    return section("Heat map", heat_map(ordered, datasets, lambda p, d: rows.get((p, d)), title))


def correlations(told: Told) -> Markup:
    """All correlations of each proxy and dataset."""
    headings = ("proxy", "Kendall", "95 % interval", "Spearman", "Pearson", "left out")
    rows = [
        (
            f"{row['dataset']}: {row['proxy']}",
            *(number(row["kendall"]), interval(row["interval"]["kendall"])),
            *(number(row["spearman"]), number(row["pearson"]), str(row["invalid"])),
        )
        for row in told.summary["rows"]
    ]
    return folded("All correlations", table(headings, rows))
