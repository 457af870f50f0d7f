"""The curve: how well methods rank by the number of labels, on every installed table.

    python runs/scripts/curves.py run [--tables A,B] [--draws 20] [--workers 1]
    python runs/scripts/curves.py page

`run` makes a run of `autoprox curve` on each table, goes on with a stopped one, and writes
runs/curves/TABLE.json. `page` writes docs/results/curve.md and docs/images/curve.svg from these.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

from make_prior import TABLES
from ranked_tables import WORK, bounds, figure, forget, show_progress

from autoprox.commands.curve import CurveRow, CurveSummary
from autoprox.configurations.commands import CurveConfig
from autoprox.evaluation.label_curves import METHODS, PROCESS_WITH_PRIOR, WITH_PRIOR
from autoprox.files.atomic_writes import write_json, write_text
from autoprox.files.json_documents import read_object
from autoprox.report.html.curve_figure import curve_figure
from autoprox.report.terminal.layout import markdown_line
from autoprox.runner import resume_run, start
from autoprox.runs.folder import LOG

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "runs" / "curves"
PAGE = ROOT / "docs" / "results" / "curve.md"
FIGURE = ROOT / "docs" / "images" / "curve.svg"
FEW = 20  # labels
Results = Mapping[str, CurveSummary]


def run(names: Sequence[str], draws: int, workers: int) -> None:
    """Make the curves that aren't there yet."""
    for table in TABLES:
        path = RESULTS / f"{table.name}.json"
        if (names and table.name not in names) or path.exists():
            continue
        if reason := table.absent():
            print(f"{table.name}: left out, {reason}")
            continue
        folder = WORK / f"curve-{table.name}"
        started = sorted(own.parent for own in folder.glob(f"*/{LOG}"))
        if started:
            summary = resume_run(started[-1], show_progress, "curve", workers=workers)
        else:
            options = {**table.options(), "draws": draws, "workers": workers, "device": "cpu"}
            summary = start(CurveConfig(**options, runs=folder), show_progress)
        RESULTS.mkdir(exist_ok=True)
        write_json(path, summary.model_dump(mode="json", exclude={"run"}))
        forget(folder.name)
        print(f"{table.name}: done", flush=True)


def results() -> dict[str, CurveSummary]:
    """Return what was measured, by the tables' titles."""
    paths = {table.title: RESULTS / f"{table.name}.json" for table in TABLES}
    return {
        title: CurveSummary.model_validate({**read_object(path), "run": ""}, strict=False)
        for title, path in paths.items()
        if path.exists()
    }


def best_rivals(found: Results) -> dict[str, dict[int, CurveRow]]:
    """Return the best method without the prior for each table and number of labels."""
    return {
        title: {
            count: max(
                (
                    row
                    for row in summary.rows
                    if row.labels == count and row.method not in (WITH_PRIOR, PROCESS_WITH_PRIOR)
                ),
                key=lambda row: row.tau or 0,
            )
            for count in sorted({row.labels for row in summary.rows})
        }
        for title, summary in found.items()
    }


def sentence(found: Results) -> str:
    """Say what the figure shows."""
    rivals = [
        (title, count, row)
        for title, own in best_rivals(found).items()
        for count, row in own.items()
        if count <= FEW
    ]
    above = [own for own in rivals if (own[2].behind or 0) > 0]
    high = [row.behind_interval[1] for _, _, row in rivals]
    worse = [own for own, top in zip(rivals, high, strict=True) if top is not None and top < 0]
    listed = "; ".join(f"{title}, {count} labels, by {row.method}" for title, count, row in worse)
    return (
        f"With 0 to {FEW} labels, the power law with the prior has a higher mean tau than the best "
        f"method without the prior in {len(above)} of {len(rivals)} cases (a table and a number of "
        f"labels). It is significantly worse (in 95 % of the draws) in {len(worse) or 'none'}"
        f"{f': {listed}' if worse else ''}."
    )


def page_files() -> dict[Path, str]:
    """Return the page and its figure."""
    found = results()
    parts = [
        "<!-- Written by runs/scripts/curves.py page: change it there. -->",
        "# How many trained networks are needed",
        "How well methods rank the other networks of a table, by the number of networks whose true "
        "scores they were fitted to: the mean Kendall tau over a table's datasets and over draws "
        "of the labels.",
        "![Kendall tau by the number of labels](../images/curve.svg)",
        sentence(found),
        "The prior of a table is a power law that was fitted only to the other tables, so the "
        "column of 0 labels shows what the ready-made proxy `autoprox-1` would achieve without "
        "that table. The penalty of fits with the prior and the number of the prior's members "
        "were chosen on the training parts of these tables. Power laws are committees: means "
        "of the logarithms of power laws that are chosen on random parts of the labels. "
        "`best of the zoo` is the published proxy that ranks the labelled networks best. "
        "Brackets contain 95 % of the draws.",
    ]
    for title, summary in found.items():
        counts = sorted({row.labels for row in summary.rows})
        cells = {(row.method, row.labels): row for row in summary.rows}
        lines = [markdown_line(["", *map(str, counts)]), markdown_line(["---"] * (1 + len(counts)))]
        for method in METHODS:
            own = [cells.get((method, count)) for count in counts]
            shown = [
                "-" if row is None else f"{figure(row.tau)} {bounds(row.interval)}" for row in own
            ]
            lines.append(markdown_line([method, *shown]))
        rivals = best_rivals({title: summary})[title]
        differences = [f"{figure(r.behind)} {bounds(r.behind_interval)}" for r in rivals.values()]
        lines.append(markdown_line(["the prior's minus the best without it", *differences]))
        tables = ", ".join(summary.prior_tables)
        parts += [
            f"## {title}",
            "\n".join(lines),
            f"{summary.networks} networks of {summary.title}, {summary.draws} draws, "
            f"{summary.terms} random terms. The prior was fitted to {tables}.",
        ]
    parts.append(
        "Made by `python runs/scripts/make_prior.py` and `python runs/scripts/curves.py`, from the "
        "files of `runs/curves/`; `autoprox curve` does the same for one table."
    )
    return {
        PAGE: "\n\n".join(parts) + "\n",
        FIGURE: curve_figure(list(found.items())),
    }


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    modes = parser.add_subparsers(dest="mode", required=True)
    own = modes.add_parser("run")
    own.add_argument("--tables", type=lambda text: text.split(","), default=[])
    own.add_argument("--draws", type=int, default=20)
    own.add_argument("--workers", type=int, default=1)
    modes.add_parser("page")
    given = parser.parse_args()
    if given.mode == "run":
        run(given.tables, given.draws, given.workers)
        return
    FIGURE.parent.mkdir(exist_ok=True)
    for path, content in page_files().items():
        write_text(path, content)


if __name__ == "__main__":
    main()
