"""Several runs side by side."""

from collections.abc import Sequence

from autoprox.report.html.elements import Markup, element, joined, section, setting, table
from autoprox.report.html.plots import heat_map
from autoprox.report.html.told import Told
from autoprox.report.terminal.layout import number

LONG = 160  # characters of a setting


def comparison(runs: Sequence[Told]) -> Markup:
    """What the runs are of and what they came to, and where their settings differ."""
    headings = ("run", "command", "space", "seed", "mean tau", "seconds")
    rows = [
        (
            element("a", told.name, href=f"#{told.name}"),
            *(told.command, str(told.config.get("space", "-"))),
            *(str(told.config.get("seed", "-")), number(_mean(told)), _seconds(told)),
        )
        for told in runs
    ]
    return joined(
        [
            section("The runs", table(headings, rows)),
            *_taus([told for told in runs if told.summary and told.kind == "evolve"]),
            *_differences(runs),
        ]
    )


def _test(told: Told) -> dict[str, float | None]:
    """The proxy's tau on the test networks of each dataset, or of each space and dataset."""
    folds = told.summary.get("folds", ())
    if not folds:
        return {dataset: row["kendall"] for dataset, row in told.summary["test"].items()}
    measured = [(name, own) for fold in folds for name, own in fold["spaces"].items()]
    return {
        f"{name}/{d}": row["kendall"] for name, own in measured for d, row in own["test"].items()
    }


def _mean(told: Told) -> float | None:
    if told.kind != "evolve" or not told.summary:
        return None
    known = [tau for tau in _test(told).values() if tau is not None]
    return sum(known) / len(known) if known else None


def _seconds(told: Told) -> str:
    return f"{told.summary['seconds']:.0f}" if "seconds" in told.summary else "-"


def _taus(runs: Sequence[Told]) -> list[Markup]:
    """Test taus of discovered proxies; only the datasets of a run have one."""
    if not runs:
        return []
    taus = {told.name: _test(told) for told in runs}
    datasets = list(dict.fromkeys(d for own in taus.values() for d in own))
    title = "Kendall's tau of the proxies on their test networks"
    return [
        section("Test taus", heat_map(list(taus), datasets, lambda r, d: taus[r].get(d), title))
    ]


def _differences(runs: Sequence[Told]) -> list[Markup]:
    """The settings that aren't the same in all runs."""
    names = dict.fromkeys(name for told in runs for name in told.config)
    rows = [
        (name, *(setting(told.config.get(name))[:LONG] for told in runs))
        for name in names
        if any(told.config.get(name) != runs[0].config.get(name) for told in runs)
    ]
    headings = ("setting", *(told.name for told in runs))
    return [section("Settings that differ", table(headings, rows))] if rows else []
