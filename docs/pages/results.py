"""What README tells of the reference runs: a formula, its scatter plot, and a table."""

import html
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from autoprox.evaluation.time_estimate import span
from autoprox.report.html.figures import Point, Series, plot
from autoprox.report.html.style import CSS

from .text import block, table

REFERENCE = Path(__file__).parent.parent.parent / "runs" / "reference"
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
Run = tuple[Mapping[str, Any], Mapping[str, Any]]  # configuration and summary


def reference_runs() -> dict[str, list[Run]]:
    """By space, the newest finished run of each split that has its means."""
    found: dict[tuple[str, int], Run] = {}
    for folder in sorted(REFERENCE.glob("2*")):
        config, file = json.loads((folder / "config.json").read_text()), folder / "summary.json"
        summary = json.loads(file.read_text()) if file.is_file() else {}
        if config["kind"] == "evolve" and "means" in summary and config["objective"] == "jcm":
            found[config["space"], config["split_seed"]] = config, summary
    spaces: dict[str, list[Run]] = defaultdict(list)
    for (space, _), run in sorted(found.items()):
        spaces[space].append(run)
    return spaces


def rows() -> Iterator[Sequence[str]]:
    """A line of the table for each space, the means over its splits."""
    runs = reference_runs()
    for space in (*PLACES, *(own for own in runs if own not in PLACES)):
        if space in runs:
            found = [summary for _, summary in runs[space]]
            means = [summary["means"] for summary in found]
            tau = {name: of_test(means, name, "kendall") for name in ("proxy", "params", "ridge")}
            left = {name: of_test(means, name, "partial_tau") for name in ("proxy", "ridge")}
            forgiven = fmean(row["tau_b"] for summary in found for row in summary["test"].values())
            best = max(tau.values())
            shown = [f"**{v:.3f}**" if v == best else f"{v:.3f}" for v in tau.values()]
            yield (
                PLACES.get(space, space), str(len(found)), f"{forgiven:.3f}", shown[0],
                f"{left['proxy']:.3f}", shown[1], shown[2], f"{left['ridge']:.3f}",
                span(median(summary["seconds"] for summary in found)),
            )  # fmt: skip


def of_test(means: Sequence[Mapping[str, Any]], name: str, figure: str) -> float:
    """The mean over splits of a figure on the networks that evolution didn't see."""
    return fmean(own[name]["test"][figure] for own in means)


def told(readme: str) -> str:
    """README with the formula and the table as the runs have them."""
    headings = (
        "benchmark", "splits", "proxy", "ties broken", "at equal size", "params", "ridge",
        "ridge at equal size", "time",
    )  # fmt: skip
    _, summary = reference_runs()[SHOWN][0]
    parts = {
        "formula": f"{block('text', summary['formula'])}\n\n`{summary['expression']}`",
        "table": table(headings, rows()),
    }
    for name, content in parts.items():
        marks = re.compile(rf"(<!-- {name}:[^\n]*-->\n).*?(<!-- end -->)", re.DOTALL)
        readme = marks.sub(lambda m, content=content: f"{m[1]}{content}\n{m[2]}", readme)
    return readme


def scatter() -> str | None:
    """The scatter plot of the run that README shows; None where an earlier version made it."""
    config, summary = reference_runs()[SHOWN][0]
    if "networks" not in summary:
        return None
    return drawn(config["datasets"][0], summary["networks"])


def drawn(dataset: str, networks: Mapping[str, Any]) -> str:
    """Score against accuracy, the networks that evolution saw and the others."""
    series = []
    for part, name in (("train", "seen by evolution"), ("test", "not seen")):
        pairs = zip(
            networks[part]["scores"][dataset], networks[part]["truth"][dataset], strict=True
        )
        series.append(Series(name, [Point(x, y, "·") for x, y in pairs]))
    page = plot(series, "score, untrained", f"accuracy on {dataset}, trained", "score and accuracy")
    [figure] = FIGURE.findall(page)
    style = f"<style>{html.escape(CSS, quote=False)} svg {{ max-width: none; }}</style>"
    plain = re.sub(r"><title>·</title></circle>", "/>", figure)
    return plain.replace("</title>", f"</title>{style}", 1) + "\n"
