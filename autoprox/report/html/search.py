"""The sections of a search."""

import math

import numpy as np

from autoprox.files.sizes import short
from autoprox.language import parse
from autoprox.nas.candidate_measurement import SearchProxy
from autoprox.report.html.elements import Markup, element, facts, note, section
from autoprox.report.html.formula import formula_section
from autoprox.report.html.fronts import front
from autoprox.report.html.plots import Point, Series, plot
from autoprox.report.html.told import Told
from autoprox.report.html.trees import architecture_drawing
from autoprox.scoring.fitness import beyond_size


def formula(told: Told) -> Markup:
    return formula_section(parse(told.config["proxy"]), "The proxy")


def candidates(told: Told) -> Markup:
    """All candidates by size and score, the front, and the pick."""
    points = _points(told)
    if not points:
        return section("Candidates", note("No candidate has been measured yet"))
    series = [
        Series("candidates", list(points.values())),
        Series("front", front(points.values()), "steps"),
    ]
    if told.summary:
        pick = told.summary["best"]["candidate"]
        series.append(Series("the pick", [points[pick]] if pick in points else [], "ring"))
    title = "Candidates by size and score"
    return section("Candidates", plot(series, "parameters", "score", title, log=True))


def _points(told: Told) -> dict[int, Point]:
    """The valid candidates by their numbers, ranked among all where the proxy ranks."""
    valid = {n: own for n, own in enumerate(told.candidates) if not own["failure"]}
    if not valid:
        return {}
    terms = np.array([own["terms"] for own in valid.values()], dtype=float)
    scores = SearchProxy(parse(told.config["proxy"])).scores(terms)
    if told.config.get("objective") == "equal-size":
        scores = beyond_size(scores, np.array([float(own["params"]) for own in valid.values()]))
    return {
        n: Point(own["params"], score, f"candidate {n}: {own['params']:,} parameters, {score:.6g}")
        for (n, own), score in zip(valid.items(), scores.tolist(), strict=True)
        if math.isfinite(score)
    }


def architecture(told: Told) -> Markup:
    """The pick, block by block."""
    best = told.summary["best"]
    sizes = {name: short(best[name]) for name in ("params", "flops") if name in best}
    title = element("h3", f"candidate {best['candidate']}") if "candidate" in best else Markup()
    return section("The architecture", title, facts(sizes), architecture_drawing(best["arch"]))
