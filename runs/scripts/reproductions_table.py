"""The table of reproductions: what papers report beside what was measured here.

    python runs/scripts/reproductions_table.py RANK-RUN ... [--figure5 FILE] [--tolerance 0.12]

A RANK-RUN is the folder of a run of `autoprox rank`; FILE is what
`tests/bench/strategies.py --space autoformer --preset auto-prox` wrote. A figure
counts as reproduced where it is within the tolerance on every dataset: the authors' own code, run
on the published architectures, is up to 0.11 away from what is printed.
"""

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from statistics import fmean

import autoprox
from autoprox.loaded_runs import RankResult
from autoprox.report.terminal.layout import markdown_line
from autoprox.zoo.published_correlations import (
    PUBLISHED_TABLES,
    PublishedRow,
    compare_with_published,
)

HEADINGS = ("source", "space", "proxy", "correlation", "published", "ours", "setting", "verdict")
NAMES = {"kendall": "Kendall", "spearman": "Spearman"}
REASONS = {  # source, space, proxy (or all of the source): why a figure isn't reproduced
    ("Auto-Prox, table 2", "pit", "naswot"): "the authors' own code gives 0.52, 0.59, 0.53",
    ("Auto-Prox, table 2", "pit", "synflow"): "the authors' own code gives 0.77, 0.74, 0.44",
    ("Auto-Prox, table 2", "pit", "autoprox-p"): "its equation 3 on these networks gives ours, "
    "which is more than is printed",
    (
        "Auto-Prox, table 6",
        "pit",
        "naswot",
    ): "the authors' own code gives 0.52, 0.59, 0.53 (Kendall) where its table 2 prints as little",
    ("Auto-Prox, table 5", "autoformer-ti", ""): "the published labels rank otherwise",
    ("NAS-Bench-BERT", "flexibert", ""): "its code measures networks of 256 dimensions, 1024 in "
    "feed-forward layers, whatever was chosen; the parameters counted so have 0.454 "
    "(tests/bench/nas_bert.py)",
}
UNPUBLISHED = "not reproducible, because the accuracies of its networks aren't published"


def rows_of(path: Path, tolerance: float) -> Iterator[Sequence[str]]:
    """Yield a line for each proxy of a ranking that a paper reports on."""
    run = autoprox.load_run(path)
    if not isinstance(run, RankResult) or not run.finished:
        raise SystemExit(f"{path} must be a finished run of rank")
    config, summary = run.config, run.summary
    space, label = str(config["space"]), str(config["label"])
    rows = [
        (row.proxy, row.dataset, row.kendall, row.spearman, row.pearson) for row in summary.rows
    ]
    table = compare_with_published(rows, str(config["benchmark"]), space, label)
    seeds = f"{summary.seeds} seed{'s' if summary.seeds > 1 else ''}"
    setting = f"`{label}`, {summary.networks} networks, {seeds}, {config['images'] or 'noise'}"
    groups: dict[tuple[str, str], list[PublishedRow]] = {}
    for row in table.rows:
        if row.same_networks:
            groups.setdefault((row.source, row.proxy), []).append(row)
    for (source, proxy), own in groups.items():
        name = next(name for name in NAMES if all(getattr(row, name) for row in own))
        figures = [getattr(row, name) for row in own]
        pairs = [(figure.published, figure.ours) for figure in figures]
        reason = REASONS.get((source, space, proxy), REASONS.get((source, space, ""), ""))
        published, ours = (_listed(column) for column in zip(*pairs, strict=True))
        verdict = _verdict(pairs, tolerance, reason)
        yield (source, space, f"`{proxy}`", NAMES[name], published, ours, setting, verdict)


def _verdict(pairs: Iterable[tuple[float, float | None]], tolerance: float, reason: str) -> str:
    if all(ours is not None and abs(published - ours) <= tolerance for published, ours in pairs):
        return "reproduced"
    return f"not reproducible, because {reason}" if reason else "not reproduced; no reason known"


def without_labels() -> Iterator[Sequence[str]]:
    """Yield a line for each table on networks that aren't published."""
    for report in PUBLISHED_TABLES:
        if report.benchmark is None:
            found = report.correlations
            best = max(found, key=lambda proxy: found[proxy].kendall or -1)
            figure = _listed([found[best].kendall])
            yield (
                report.source,
                report.space,
                f"best: `{best}`",
                "Kendall",
                figure,
                "-",
                "-",
                UNPUBLISHED,
            )


def figure5(path: Path) -> Sequence[str]:
    """Return the line on Auto-Prox's claim that elitism finds the best proxies."""
    found = json.loads(path.read_text())
    finals = {
        strategy: [own[-1][1] for own in curves.values()]
        for strategy, curves in found["curves"].items()
    }
    means = {strategy: fmean(own) for strategy, own in finals.items()}
    best = max(means, key=means.__getitem__)
    ours = ", ".join(f"{strategy} {mean:.3f}" for strategy, mean in means.items())
    verdict = "reproduced" if best == "elitist" else f"not reproduced: {best} is best at equal cost"
    setting = f"{len(finals[best])} seeds, {found['budget']} evaluations"
    return (
        "Auto-Prox, figure 5",
        found["space"],
        "-",
        "fitness",
        "elitism is best",
        ours,
        setting,
        verdict,
    )


def _listed(values: Iterable[float | None]) -> str:
    return " ".join("-" if value is None else f"{value:.3f}" for value in values)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--figure5", type=Path)
    parser.add_argument("--tolerance", type=float, default=0.12)
    options = parser.parse_args()
    lines = [line for path in options.runs for line in rows_of(path, options.tolerance)]
    lines += [figure5(options.figure5)] if options.figure5 else []
    for line in (HEADINGS, ["---"] * len(HEADINGS), *lines, *without_labels()):
        print(markdown_line(line))


if __name__ == "__main__":
    main()
