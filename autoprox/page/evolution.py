"""The sections of a discovery."""

from collections.abc import Mapping
from typing import Any

from autoprox.files.sizes import short
from autoprox.language import parse
from autoprox.page.elements import Markup, joined, note, section, table
from autoprox.page.formula import formula_section
from autoprox.page.fronts import front
from autoprox.page.plots import Point, Series, joined_plots, plot
from autoprox.page.told import Told
from autoprox.report.layout import interval, number

PARTS = ("test", "train")


def formula(told: Told) -> Markup:
    return formula_section(parse(told.summary["expression"]))


def results(told: Told) -> Markup:
    """Of each part and dataset, the proxy's correlations and those of the baselines."""
    headings = ("scored by", "Kendall", "95 % interval", "Spearman", "Pearson")
    parts = []
    for name in PARTS:
        rows = [
            (
                f"{dataset}: {scored_by}",
                *(number(row["kendall"]), interval(row["interval"])),
                *(number(row["spearman"]), number(row["pearson"])),
            )
            for dataset in told.summary[name]
            for scored_by, row in _scored(told.summary, name, dataset).items()
        ]
        parts += [Markup(f"<h3>{name} networks</h3>"), table(headings, rows)]
    return section("Results", *parts)


def _scored(summary: Mapping[str, Any], part: str, dataset: str) -> dict[str, Any]:
    baselines = {name: own[part][dataset] for name, own in summary["baselines"].items()}
    return {"proxy": summary[part][dataset], **baselines}


def scatter(told: Told) -> Markup:
    """The networks of both parts by score and true score, for each dataset."""
    if "networks" not in told.summary:
        return section(
            "Score and accuracy",
            note("This run did not record the scores of single networks: evolve again to see them"),
        )
    found = told.summary["networks"]
    plots = {
        dataset: plot(
            [Series(part, _points(found[part], dataset)) for part in PARTS],
            *("score of the proxy", "true score", dataset),
        )
        for dataset in found["test"]["truth"]
    }
    return section("Score and accuracy", joined_plots(plots))


def _points(part: Mapping[str, Any], dataset: str) -> list[Point]:
    columns = (part["network"], part["params"], part["scores"][dataset], part["truth"][dataset])
    return [
        Point(score, truth, f"network {name}, {short(params)} parameters: {truth:g}")
        for name, params, score, truth in zip(*columns, strict=True)
        if score is not None
    ]


def fitness(told: Told) -> Markup:
    """The best fitness so far and the mean, over the evaluations."""
    if not told.log:
        return section("Fitness", note("No iteration has been logged yet"))
    curves = [
        Series(name, [_step(line, name) for line in told.log if line[name] is not None], form)
        for name, form in (("best", "steps"), ("mean", "line"))
    ]
    drawn = plot(curves, "formulas evaluated", "fitness", "Fitness over evaluations")
    return section("Fitness", joined_plots({"": drawn}))


def _step(line: Mapping[str, Any], name: str) -> Point:
    return Point(line["evaluations"], line[name])


def pareto(told: Told) -> Markup:
    """The formulas of the front by size and fitness."""
    if "front" not in told.summary:
        return section("Size and fitness", note("This run did not record the front's fitness"))
    points = {
        entry["expression"]: Point(entry["size"], entry["jcm"], entry["expression"])
        for entry in told.summary["front"]
    }
    chosen = [points[e["expression"]] for e in told.summary["front"] if e["chosen"]]
    series = [
        Series("formulas that were kept", list(points.values())),
        Series("front of size and fitness", front(points.values()), "steps"),
        Series("chosen", chosen, "ring"),
    ]
    drawn = plot(series, "nodes", "fitness on the training networks", "Size and fitness")
    return section("Size and fitness", joined([drawn]))
