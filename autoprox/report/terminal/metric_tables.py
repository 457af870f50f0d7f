"""Tables of how well proxies rank: taus with size controlled for, baselines, regret, size."""

from collections.abc import Mapping, Sequence

from autoprox.evaluation.full_resolution_choice import RankingQuality
from autoprox.files.human_readable_sizes import format_with_unit
from autoprox.report.terminal.layout import (
    INTERVAL,
    Part,
    interval,
    named_table,
    number,
    paragraph,
)
from autoprox.scoring.baselines import FOLDS
from autoprox.scoring.bootstrap import (
    MIN_NEAR_SIZE_PAIRS,
    MetricDifferences,
    Number,
    RankingMetrics,
    Verdict,
)
from autoprox.scoring.evaluation_set import (
    MOSTLY_SIZE,
    SEED_SHARE,
    ParameterBudgets,
    SizeCorrelations,
)

METRIC_TITLES = {"kendall": "tau", "partial_tau": "partial tau"}
INTERVALS = {
    "kendall": "interval",
    "partial_tau": "partial_tau_interval",
    "near_size_tau": "near_size_tau_interval",
}
SIZES = {"params": "params", "flops": "FLOPs", "depth": "depth"}
VERDICTS: Mapping[Verdict | None, str] = {
    "better": "better",
    "worse": "worse",
    "not significantly different": "n.s.",
    None: "-",
}
LEGEND = "paired bootstrap; n.s.: not significantly different"


def metric_cells(row: RankingMetrics, metric: str) -> tuple[str, str]:
    """Return a metric and its interval."""
    return number(getattr(row, metric)), interval(getattr(row, INTERVALS[metric]))


def near_size_parts(means: Mapping[str, RankingMetrics], networks: int, pairs: int) -> list[Part]:
    """Show the partial tau and the near-size tau of each proxy, means over the datasets."""
    headings = "partial\ntau", f"\n{INTERVAL}", "near-size\ntau", f"\n{INTERVAL}"
    table = named_table("\nscored by", *headings)
    for name, row in means.items():
        near, bounds = metric_cells(row, "near_size_tau")
        near = "too few" if pairs < MIN_NEAR_SIZE_PAIRS else near
        table.add_row(name, *metric_cells(row, "partial_tau"), near, bounds)
    title = (
        f"Size controlled for: Kendall's partial tau, controlling for parameter count, on "
        f"{networks} networks, and tau over the {pairs} pairs whose parameters differ by less than "
        "10 %"
    )
    return [paragraph(title), table]


def comparison_parts(comparison: Mapping[str, MetricDifferences]) -> list[Part]:
    """Show by how much the proxy is better than each baseline, by tau and by partial tau."""
    table = named_table("the proxy minus", "difference", INTERVAL, "verdict")
    for metric, title in METRIC_TITLES.items():
        table.add_row(title)
        for name, differences in comparison.items():
            own = getattr(differences, metric)
            shown = "-" if own.difference is None else f"{own.difference:+.3f}"
            table.add_row(f"  {name}", shown, interval(own.interval), VERDICTS[own.verdict])
    title = f"The proxy compared with the baselines ({LEGEND})"
    return [paragraph(title), table]


def verdict_parts(
    comparison: Mapping[str, Mapping[str, MetricDifferences]], baselines: Sequence[str]
) -> list[Part]:
    """Show whether each proxy is better than each baseline, by tau and by partial tau."""
    title = (
        f"Compared with the baselines, means over the datasets ({LEGEND}; regressions are "
        f"cross-fitted in {FOLDS} folds)"
    )
    parts: list[Part] = [paragraph(title)]
    for metric, heading in METRIC_TITLES.items():
        table = named_table(f"by {heading}", *baselines)
        for proxy, rivals in comparison.items():
            found = (getattr(rivals[name], metric).verdict for name in baselines)
            table.add_row(proxy, *(VERDICTS[verdict] for verdict in found))
        parts.append(table)
    return parts


def regret_parts(
    budgets: Mapping[str, ParameterBudgets], regrets: Mapping[str, Mapping[str, Sequence[Number]]]
) -> list[Part]:
    """Show the regret of each proxy's pick within five budgets, for each dataset.

    The regret of params is that of the largest network.
    """
    parts: list[Part] = []
    for dataset, own in budgets.items():
        heads = zip(own.params, own.networks, strict=True)
        table = named_table(
            f"{dataset}\nnetworks", *(f"{format_with_unit(size)}\n{count}" for size, count in heads)
        )
        values = {name: by_dataset[dataset] for name, by_dataset in regrets.items()}
        most = max((v for row in values.values() for v in row if v is not None), default=0.0)
        decimals = 2 if most >= 1 else 3  # cross-entropies are small
        for name, row in values.items():
            shown = "params (the largest)" if name == "params" else name
            table.add_row(shown, *("-" if v is None else f"{v:.{decimals}f}" for v in row))
        parts.append(table)
    title = "Regret: the best true score within a parameter budget minus that of the pick"
    return [title, *parts]


def size_parts(checks: Mapping[str, SizeCorrelations], first: str) -> list[Part]:
    """Show the taus of the scores with parameters, FLOPs and depth."""
    table = named_table(first, *("n", *SIZES.values()))
    for name, check in checks.items():
        taus = (number(getattr(check, size)) for size in SIZES)
        table.add_row(name, str(check.networks), *taus)
    return ["Size check: Kendall tau of the scores with", table]


def size_and_seed(quality: RankingQuality) -> str:
    """Say whether a proxy is mostly size, and how much the seed changes its scores."""
    found, check, share = [], quality.size["test"], quality.seed_share or 0.0
    if check.mostly_size:
        taus = (f"{number(getattr(check, n))} with {SIZES[n]}" for n in ("params", "flops"))
        found.append(
            f"This proxy is mostly size: its tau is {', '.join(taus)} (from {MOSTLY_SIZE:g} on)."
        )
    changes = "another seed changes its scores by"
    if share < SEED_SHARE:
        rule = "It is a function of the architecture's choices alone"
        found.append(f"{rule}: {changes} {100 * share:.2f} % of their spread.")
    else:
        found.append(f"{changes.capitalize()} {100 * share:.0f} % of their spread.")
    return paragraph(" ".join(found))
