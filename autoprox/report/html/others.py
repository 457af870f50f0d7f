"""The sections of rediscoveries, built benchmarks, supernets and searched search spaces."""

from pathlib import Path
from typing import Any

from autoprox.files.located_json import read_object
from autoprox.files.sizes import short
from autoprox.language import parse
from autoprox.report.html.elements import Markup, joined, note, section
from autoprox.report.html.formula import formula_section
from autoprox.report.html.plots import Point, Series, joined_plots, plot
from autoprox.report.html.told import Told
from autoprox.report.html.trees import architecture_drawing
from autoprox.searchspaces import get_space


def found(told: Told) -> Markup:
    """What was found beside what was looked for."""
    target = told.summary["target"]["expression"]
    return joined(
        [
            formula_section(parse(told.summary["expression"]), "What was found"),
            formula_section(parse(target), "What was looked for"),
        ]
    )


def correlation(told: Told) -> Markup:
    """The best correlation so far with the scores that were looked for."""
    points = [
        Point(line["evaluations"], line["best"], line["expression"])
        for line in told.log
        if line["best"] is not None
    ]
    if not points:
        return section("The search", note("No round has been logged"))
    curve = [Series("best", points, "steps")]
    title = "The best correlation over the formulas scored"
    return section("The search", plot(curve, "formulas scored", "Pearson's r", title))


def losses(told: Told) -> Markup:
    """The loss over the epochs of a training."""
    points = [Point(line["epoch"], line["loss"], f"{line['loss']:.4f}") for line in told.log]
    if not points:
        return section("The training", note("No epoch has been logged yet"))
    drawn = plot([Series("loss", points, "line")], "epochs", "loss", "The loss over the epochs")
    return section("The training", drawn)


def spaces(told: Told) -> Markup:
    """How good the spaces of a search of the search space are, one after the other."""
    names = {
        "error": "E-T error",
        "expected": "expected error",
        "top_tier": "error of the top tier",
    }
    series = [
        Series(
            label,
            [
                Point(n, own[name], f"{own[name]:.2f}")
                for n, own in enumerate(told.summary["rounds"])
            ],
            "line",
        )
        for name, label in names.items()
    ]
    return section("The spaces", plot(series, "space", "error", "How good the spaces are"))


def best(told: Told) -> Markup:
    """The best network of the last space, block by block."""
    return section(
        "The architecture", architecture_drawing(told.summary["best"]["arch"]["choices"])
    )


def table_scores(told: Told) -> Markup:
    """The true scores of the table by size, for each dataset."""
    file = Path(told.summary["file"])
    if not file.is_file():
        return section("Scores", note(f"The table is no longer at {file}"))
    table = read_object(file)
    plots = {
        dataset: plot(
            [Series("networks", _networks(table, dataset))],
            *("parameters", "true score", dataset),
            log=True,
        )
        for dataset in table["datasets"]
    }
    return section("Scores", joined_plots(plots))


def _networks(table: dict[str, Any], dataset: str) -> list[Point]:
    space, classes = get_space(table["space"]), table["datasets"][dataset]["classes"]
    points = []
    for number, entry in enumerate(table["architectures"]):
        params = space.params(space.architecture(entry["arch"]), classes)
        score = entry["scores"][dataset]
        points.append(Point(params, score, f"network {number}, {short(params)}: {score:g}"))
    return points
