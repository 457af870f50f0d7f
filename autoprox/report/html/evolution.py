"""The sections of a discovery."""

from collections.abc import Mapping, Sequence
from typing import Any

from autoprox.files.sizes import short
from autoprox.language import parse
from autoprox.report.html.elements import Markup, element, folded, joined, note, section, table
from autoprox.report.html.formula import formula_section
from autoprox.report.html.fronts import front
from autoprox.report.html.plots import Point, Series, joined_plots, plot
from autoprox.report.html.told import Told
from autoprox.report.terminal.layout import interval, number

PARTS = ("test", "train")


def formulas(told: Told) -> Markup:
    """The formula; on several spaces that of each fold."""
    found = [(title, parse(own["expression"])) for title, own in _folds(told)]
    if len(found) == 1:
        return formula_section(found[0][1])
    return joined(formula_section(tree, f"The formula evolved {title}") for title, tree in found)


def _folds(told: Told) -> list[tuple[str, Mapping[str, Any]]]:
    """What was evolved, once or for each space that was held out, and without which."""
    if "folds" not in told.summary:
        return [("", told.summary)]
    return [
        ("on all spaces" if own["held_out"] is None else f"without {own['held_out']}", own)
        for own in told.summary["folds"]
    ]


def _measured(told: Told) -> list[tuple[str, Mapping[str, Any]]]:
    """What each formula is worth, on each of the spaces where it was measured."""
    if "folds" not in told.summary:
        return [("", told.summary)]
    return [
        (f"{name}, evolved {title}: ", own)
        for title, fold in _folds(told)
        for name, own in fold["spaces"].items()
    ]


def correlations(told: Told) -> Markup:
    """Of each part and dataset, all correlations of the proxy and the baselines."""
    headings = ("scored by", "Kendall", "95 % interval", "Spearman", "Pearson")
    shown = []
    for title, own in _measured(told):
        for part in PARTS:
            rows = [
                (
                    f"{dataset}: {scored_by}",
                    *(number(row["kendall"]), interval(row["interval"])),
                    *(number(row["spearman"]), number(row["pearson"])),
                )
                for dataset in own[part]
                for scored_by, row in _scored(own, part, dataset).items()
            ]
            if rows:
                shown += [element("h3", f"{title}{part} networks"), table(headings, rows)]
    return folded("All correlations", *shown)


def _scored(own: Mapping[str, Any], part: str, dataset: str) -> dict[str, Any]:
    baselines = {name: scores[part][dataset] for name, scores in own["baselines"].items()}
    return {"proxy": own[part][dataset], **baselines}


def scatters(told: Told) -> Markup:
    """The networks of both parts by score and true score, for each dataset."""
    measured = _measured(told)
    if any("networks" not in own for _, own in measured):
        return section(
            "Score and true score",
            note("This run did not record the scores of single networks: evolve again to see them"),
        )
    plots = {
        f"{title}{dataset}": plot(
            [Series(part, _points(own["networks"][part], dataset)) for part in PARTS],
            *("score of the proxy", "true score", f"{title}{dataset}"),
        )
        for title, own in measured
        for dataset in own["networks"]["test"]["truth"]
    }
    return section("Score and true score", joined_plots(plots))


def _points(part: Mapping[str, Any], dataset: str) -> list[Point]:
    columns = (part["network"], part["params"], part["scores"][dataset], part["truth"][dataset])
    return [
        Point(score, truth, f"network {name}, {short(params)} parameters: {truth:g}")
        for name, params, score, truth in zip(*columns, strict=True)
        if score is not None
    ]


def fitness(told: Told) -> Markup:
    """The best fitness so far and the mean, over the evaluations of each evolution."""
    if not told.log:
        return section("Fitness", note("No iteration has been logged yet"))
    plots = {
        title: plot(
            [
                Series(name, [_step(line, name) for line in lines if line[name] is not None], form)
                for name, form in (("best", "steps"), ("mean", "line"))
            ],
            *("formulas evaluated", "fitness", f"Fitness over evaluations{title}"),
        )
        for title, lines in _evolutions(told.log).items()
    }
    return section("Fitness", joined_plots(plots))


def _evolutions(log: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """The log's lines of each fold and island."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    islands = {line.get("island") for line in log}
    for line in log:
        held_out = f", without {line['held_out']}" if line.get("held_out") else ""
        island = f", island {line['island'] + 1}" if len(islands) > 1 else ""
        found.setdefault(f"{held_out}{island}", []).append(line)
    return found


def _step(line: Mapping[str, Any], name: str) -> Point:
    return Point(line["evaluations"], line[name])


def fronts(told: Told) -> Markup:
    """The formulas of the front by size and fitness."""
    plots = {title: _front(title, own) for title, own in _folds(told)}
    return section("Size and fitness", joined_plots(plots))


def _front(title: str, own: Mapping[str, Any]) -> Markup:
    if "front" not in own:
        return note("This run did not record the front's fitness")
    points = {
        entry["expression"]: Point(entry["size"], entry["jcm"], entry["expression"])
        for entry in own["front"]
    }
    chosen = [points[e["expression"]] for e in own["front"] if e["chosen"]]
    series = [
        Series("formulas that were kept", list(points.values())),
        Series("front of size and fitness", front(points.values()), "steps"),
        Series("chosen", chosen, "ring"),
    ]
    axes = ("nodes", "fitness on the training networks")
    return plot(
        series, *axes, f"Size and fitness, evolved {title}" if title else "Size and fitness"
    )
