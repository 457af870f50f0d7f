"""What README says about the reference runs: a formula, its scatter plot, and a table."""

import html
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median

from autoprox import load_run
from autoprox.evaluation.full_resolution_choice import NetworkScores, RankingQuality
from autoprox.evaluation.time_estimate import format_duration
from autoprox.loaded_runs import EvolveResult
from autoprox.report.html import svg_geometry
from autoprox.report.html.page_rendering import render_macro
from autoprox.report.html.svg_geometry import PlotPoint, PlotSeries, layout_plot

from .text import block, table

REFERENCE = Path(__file__).parent.parent.parent / "runs" / "reference"
STYLE = Path(svg_geometry.__file__).parent / "templates" / "style.css"
SHOWN = "pit"  # whose formula and scatter README has
FIGURE = re.compile(r"<svg.*?</svg>", re.DOTALL)
PLACES = {  # how README names them
    "autoformer-nano": "nano-bench, AutoFormer",
    "pit-nano": "nano-bench, PiT",
    "gpt2-nano": "nano-bench, GPT-2",
    "autoformer-ti": "ViT-Bench-101, AutoFormer",
    "pit": "ViT-Bench-101, PiT",
    "flexibert": "NAS-Bench-BERT",
    "gpt2-hw": "HW-GPT-Bench",
}


def reference_runs() -> dict[str, list[EvolveResult]]:
    """Return the newest finished run of each split, by space."""
    found: dict[tuple[str, int], EvolveResult] = {}
    for folder in sorted(REFERENCE.glob("2*")):
        run = load_run(folder)
        if isinstance(run, EvolveResult) and run.finished and run.config["objective"] == "jcm":
            found[run.config["space"], run.config["split_seed"]] = run
    spaces: dict[str, list[EvolveResult]] = defaultdict(list)
    for (space, _), run in sorted(found.items()):
        spaces[space].append(run)
    return spaces


def quality_of(run: EvolveResult) -> RankingQuality:
    """Return how well the formula of a run on one space ranks."""
    [quality] = run.summary.folds[0].spaces.values()
    return quality


def rows() -> Iterator[Sequence[str]]:
    """Yield a line of the table for each space, with the means over its splits."""
    runs = reference_runs()
    for space in (*PLACES, *(own for own in runs if own not in PLACES)):
        if space in runs:
            found = [quality_of(run) for run in runs[space]]
            tau = {name: mean_of(found, name, "kendall") for name in ("proxy", "params", "ridge")}
            left = {name: mean_of(found, name, "partial_tau") for name in ("proxy", "ridge")}
            tau_b = fmean(row.tau_b or 0.0 for own in found for row in own.test.values())
            best = max(tau.values())
            shown = [f"**{v:.3f}**" if v == best else f"{v:.3f}" for v in tau.values()]
            yield (
                PLACES.get(space, space), str(len(found)), f"{tau_b:.3f}", shown[0],
                f"{left['proxy']:.3f}", shown[1], shown[2], f"{left['ridge']:.3f}",
                format_duration(median(run.summary.seconds for run in runs[space])),
            )  # fmt: skip


def mean_of(found: Sequence[RankingQuality], name: str, metric: str) -> float:
    """Return the mean over splits of a metric on the test networks."""
    return fmean(getattr(own.means[name].test, metric) for own in found)


def with_results(readme: str) -> str:
    """Return README with the formula and the table as the runs have them."""
    headings = (
        "benchmark", "splits", "proxy: tau-b", "proxy: tau", "proxy: partial tau",
        "parameters: tau", "ridge: tau", "ridge: partial tau", "time",
    )  # fmt: skip
    shown = reference_runs()[SHOWN][0].summary
    parts = {
        "formula": f"{block('text', shown.formula)}\n\n`{shown.expression}`",
        "table": table(headings, rows()),
    }
    for name, content in parts.items():
        marks = re.compile(rf"(<!-- {name}:[^\n]*-->\n).*?(<!-- end -->)", re.DOTALL)
        readme = marks.sub(lambda m, content=content: f"{m[1]}{content}\n{m[2]}", readme)
    return readme


def scatter() -> str:
    """Return the scatter plot of the run that README shows."""
    run = reference_runs()[SHOWN][0]
    return drawn(run.config["datasets"][0], quality_of(run).networks)


def drawn(dataset: str, networks: Mapping[str, NetworkScores]) -> str:
    """Draw scores against accuracies of the networks that evolution saw and of the others."""
    series = []
    for part, name in (("train", "training networks"), ("test", "test networks")):
        pairs = zip(networks[part].scores[dataset], networks[part].truth[dataset], strict=True)
        series.append(PlotSeries(name, [PlotPoint(x, y) for x, y in pairs if x is not None]))
    labels = "score, untrained", f"accuracy on {dataset}, trained"
    page = render_macro(
        "figures.html.j2", "plot", layout_plot("score and accuracy", *labels, *series)
    )
    [figure] = FIGURE.findall(page)
    style = (
        f"<style>{html.escape(STYLE.read_text(), quote=False)} svg {{ max-width: none; }}</style>"
    )
    return figure.replace("</title>", f"</title>{style}", 1) + "\n"
