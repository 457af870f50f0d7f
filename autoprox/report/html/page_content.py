"""The content of pages: what templates show of each kind of run, read from its files."""

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unicodedata import normalize

import numpy as np
from rich.table import Table
from scipy.stats import rankdata

from autoprox.commands.build_benchmark import BuildSummary
from autoprox.commands.evolve import EvolutionFold, EvolveSummary
from autoprox.commands.rank import RankSummary
from autoprox.commands.s3_space_search import S3Summary
from autoprox.evaluation.full_resolution_choice import NetworkScores, RankingQuality
from autoprox.export import formula_legend
from autoprox.export.mathml_format import mathml_from_latex
from autoprox.export.proxy_formats import latex, latex_formula
from autoprox.files.human_readable_sizes import format_with_unit
from autoprox.files.json_documents import read_object
from autoprox.language import Tree, parse_expression
from autoprox.loaded_runs import EvolveResult, LoadedRun
from autoprox.nas.candidate_measurement import (
    PredictorSearchProxy,
    SearchProxy,
    load_search_proxy,
)
from autoprox.primitives import OPERATIONS, LatexFormula, fill_template
from autoprox.report.html.svg_geometry import (
    PlotGeometry,
    PlotPoint,
    PlotSeries,
    layout_plot,
    pareto_front,
)
from autoprox.report.terminal.layout import NEXT, WIDTH, Part
from autoprox.report.terminal.run_report_by_kind import run_report
from autoprox.scoring.correlations import Floats
from autoprox.scoring.fitness_correlations import size_adjusted
from autoprox.searchspaces import Architecture, get_space
from autoprox.zoo.expression_proxies import EXPRESSION_PROXIES, parse_with_zoo_names
from autoprox.zoo.proxy_loading import find_run

Log = Sequence[Mapping[str, Any]]
Taus = Mapping[str, Mapping[str, float | None]]  # by proxy or run, and dataset

MIN_POINTS = 10  # for which outliers are looked for
OUTLYING = 3  # times the range of nine tenths of the points
ARITHMETIC = frozenset({"add", "sub", "mul", "div"})  # operations that need no explanation
ALIGNED = re.compile(r"\S {2,}\S|^ |^(?:Run|Report|Table|Weights): ", re.MULTILINE)


class ReportPart(NamedTuple):
    """A part of what the terminal shows: paragraphs, preformatted text, or a table."""

    paragraphs: Sequence[str] = ()
    preformatted: str = ""
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def report_parts(run: LoadedRun) -> list[ReportPart]:
    """Return what the command printed, without the formula, which has its own section."""
    answer = answers(run)
    formulas = tuple(getattr(run.summary, name, None) for name in ("formula", "expression"))
    parts = run_report(run.kind, run.summary)
    return [report_part(part) for part in parts if part not in (*formulas, *answer)]


def answers(run: LoadedRun) -> list[Part]:
    """Return the first parts of a report, up to what to do next; none if it is at the end."""
    parts = run_report(run.kind, run.summary)
    first = parts[:-1]
    ends = [n for n, part in enumerate(first) if isinstance(part, str) and part.startswith(NEXT)]
    return parts[: ends[0] + 1] if ends else []


def answer_parts(run: LoadedRun) -> list[ReportPart]:
    """Return the answer of a run, and what to do next, which have the first section."""
    return [report_part(part) for part in answers(run)]


def search_formula(proxy: str) -> Tree | None:
    """Return the formula of a search's proxy; None for a function, a predictor or a count."""
    if find_run(proxy) is not None:
        return None
    found = load_search_proxy(proxy)
    return parse_expression(proxy) if isinstance(found, SearchProxy) else None


def proxy_title(tree: Tree) -> str:
    """Return the heading of a search's proxy, with the name that the zoo has for it, if any."""
    names = [name for name in EXPRESSION_PROXIES if parse_with_zoo_names(name) == tree]
    return f"The proxy: {names[0]}" if names else "The proxy"


def report_part(part: Part) -> ReportPart:
    if isinstance(part, Table):
        columns = [[str(cell) for cell in column.cells] for column in part.columns]
        return ReportPart(
            paragraphs=[str(part.title)] if part.title else [],
            headings=[str(own.header).replace("-\n", "").strip() for own in part.columns],
            rows=list(zip(*columns, strict=True)),
        )
    if part.startswith(NEXT):
        return ReportPart(paragraphs=[NEXT.strip()], preformatted=part.removeprefix(NEXT))
    if ALIGNED.search(part):
        return ReportPart(preformatted=part)
    paragraphs, before = list[str](), ""
    for line in part.split("\n"):
        if before and len(f"{before} {line.split(' ')[0]}") > WIDTH:  # wrapped at this width
            paragraphs[-1] += f" {line}"
        else:
            paragraphs.append(line)
        before = line
    return ReportPart(paragraphs)


def format_setting(value: Any) -> str:
    """Format a value of a run's configuration."""
    if isinstance(value, dict):
        return "\n".join(f"{name}: {own}" for name, own in value.items()) or "-"
    if isinstance(value, list):
        return (
            ", ".join(map(format_setting, value)) if any(own is not None for own in value) else "-"
        )
    return "-" if value is None else str(value)


def original_command_line(environment: Mapping[str, Any]) -> str | None:
    """Return the command that started a run; None if it was started from Python."""
    program, *arguments = map(str, environment.get("command") or [""])
    if Path(program).stem not in ("autoprox", "__main__"):
        return None
    return shlex.join(["autoprox", *arguments])


def mathml_formula_lines(tree: Tree) -> list[str]:
    """Return MathML with each term of a sum on its own line, as browsers don't break formulas."""
    if tree.symbol != "add":
        return [mathml_from_latex(latex(tree))]
    first, second = tree.args
    return [
        *mathml_formula_lines(first),
        mathml_from_latex(f"+ {latex_formula(second).within('TERM')}"),
    ]


def symbol_meanings(tree: Tree) -> dict[str, str]:
    """Return the meaning of each letter, and of each leaf that is written as a word."""
    letters = {normalize("NFKC", label): meaning for label, meaning in formula_legend(tree).items()}
    leaves = [(node.symbol, node.leaf) for node in _nodes(tree) if node.leaf]
    meanings = {symbol: leaf.kind.meaning(leaf.payload) for symbol, leaf in leaves}
    return letters | {symbol: meaning for symbol, meaning in meanings.items() if meaning}


def operations_used(tree: Tree) -> list[tuple[str, str, str]]:
    """Return the MathML, name and rule of each operation but those of arithmetic."""
    symbols = {node.symbol for node in _nodes(tree)} - ARITHMETIC
    x, y, times = LatexFormula("x"), LatexFormula("y"), LatexFormula(r"\cdot")
    return [
        (
            mathml_from_latex(fill_template(own.latex, x=x, y=y, times=times)),
            own.name,
            " ".join(own.rule.split()),
        )
        for name, own in OPERATIONS.items()
        if name in symbols
    ]


def _nodes(tree: Tree) -> list[Tree]:
    nodes: list[Tree] = []
    tree.fold(lambda node, _: nodes.append(node))
    return nodes


def evolution_sections(summary: EvolveSummary) -> list[tuple[str, EvolutionFold]]:
    """Return each fold with a title, if there are several spaces."""
    if len(summary.spaces) == 1:
        return [("", summary.folds[0])]
    return [
        ("on all spaces" if fold.held_out is None else f"without {fold.held_out}", fold)
        for fold in summary.folds
    ]


def ranking_qualities(summary: EvolveSummary) -> list[tuple[str, RankingQuality]]:
    """Return how well each formula ranks, on each of the spaces where it was measured."""
    return [
        (f"{space}, evolved {title}: " if title else "", quality)
        for title, fold in evolution_sections(summary)
        for space, quality in fold.spaces.items()
    ]


def score_plots(summary: EvolveSummary) -> list[PlotGeometry]:
    """Plot the networks by score and true score."""
    plots = []
    for title, quality in ranking_qualities(summary):
        for dataset in quality.networks["test"].truth:
            series = [
                PlotSeries(part, _networks(quality.networks[part], dataset))
                for part in ("test", "train")
            ]
            x_label = "score of the proxy (higher: predicted better)"
            if is_flattened([point.x for own in series for point in own.points]):
                x_label = "rank of the proxy's score (higher: predicted better)"
                series = _by_rank(series)
            axes = (x_label, "true score (higher is better)")
            plots.append(layout_plot(f"{title}{dataset}", *axes, *series))
    return plots


def is_flattened(values: Sequence[float]) -> bool:
    """Return whether a few outliers take most of the range, so that the others fall together."""
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) < MIN_POINTS:
        return False
    low, high = np.quantile(finite, (0.05, 0.95))
    return bool(max(finite) - min(finite) > OUTLYING * (high - low))


def _by_rank(series: Sequence[PlotSeries]) -> list[PlotSeries]:
    """Replace the horizontal positions by their ranks among all points."""
    ranks = rankdata([point.x for own in series for point in own.points]).tolist()
    return [
        own._replace(points=[point._replace(x=ranks.pop(0)) for point in own.points])
        for own in series
    ]


def _networks(part: NetworkScores, dataset: str) -> list[PlotPoint]:
    columns = (part.network, part.params, part.scores[dataset], part.truth[dataset])
    return [
        PlotPoint(score, truth, f"network {name}, {format_with_unit(params)} parameters: {truth:g}")
        for name, params, score, truth in zip(*columns, strict=True)
        if score is not None
    ]


def front_plots(summary: EvolveSummary) -> list[PlotGeometry]:
    """Plot the formulas of the front by nodes and fitness."""
    plots = []
    for title, fold in evolution_sections(summary):
        points = [PlotPoint(own.size, own.jcm, own.expression) for own in fold.front]
        chosen = [point for point, own in zip(points, fold.front, strict=True) if own.chosen]
        series = (
            PlotSeries("formulas that were kept", points),
            PlotSeries("front of nodes and fitness", pareto_front(points), "steps"),
            PlotSeries(
                "chosen" + ", closest to the committee" * bool(fold.committee), chosen, "ring"
            ),
        )
        caption = f"Nodes and fitness, evolved {title}" if title else "Nodes and fitness"
        plots.append(
            layout_plot(caption, "nodes (fewer is simpler)", "fitness (higher is better)", *series)
        )
    return plots


def fitness_plots(log: Log) -> list[PlotGeometry]:
    """Plot the best fitness so far and the mean, for each fold and island."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    islands = {line.get("island") for line in log}
    for line in log:
        held_out = f", without {line['held_out']}" if line.get("held_out") else ""
        island = f", island {line['island'] + 1}" if len(islands) > 1 else ""
        groups.setdefault(f"{held_out}{island}", []).append(line)
    plots = []
    for title, lines in groups.items():
        best, mean = (
            [PlotPoint(line["evaluations"], line[name]) for line in lines if line[name] is not None]
            for name in ("best", "mean")
        )
        series = (PlotSeries("best", best, "steps"), PlotSeries("mean", mean, "line"))
        axes = ("formulas evaluated", "fitness (higher is better)")
        plots.append(layout_plot(f"Fitness over evaluations{title}", *axes, *series))
    return plots


def _candidate_scores(run: LoadedRun, valid: Sequence[Mapping[str, Any]]) -> Floats:
    """Return the recorded scores of candidates; those of a search that goes on aren't recorded."""
    if all(own.get("score") is not None for own in valid):
        return np.array([own["score"] for own in valid], dtype=float)
    config = run.config
    proxy = load_search_proxy(config["proxy"], config.get("dataset") or "")
    archs: list[Architecture] = []
    if isinstance(proxy, PredictorSearchProxy):
        space = get_space(config["space"])
        archs = [space.architecture(own["arch"]) for own in valid]
    scores = proxy.scores(np.array([own["terms"] for own in valid], dtype=float), archs)
    if config.get("objective") == "size-adjusted":
        scores = size_adjusted(scores, np.array([float(own["params"]) for own in valid]))
    return scores


def candidate_plots(run: LoadedRun) -> list[PlotGeometry]:
    """Plot all candidates of a search by size and score, the front, and the pick."""
    valid = {n: own for n, own in enumerate(run.candidates) if not own["failure"]}
    if not valid:
        return []
    scores = _candidate_scores(run, list(valid.values()))
    points = {
        n: PlotPoint(
            own["params"], score, f"candidate {n}: {own['params']:,} parameters, {score:.6g}"
        )
        for (n, own), score in zip(valid.items(), scores.tolist(), strict=True)
        if math.isfinite(score)
    }
    series = [
        PlotSeries("candidates", list(points.values())),
        PlotSeries("front", pareto_front(points.values()), "steps"),
    ]
    if run.summary:
        pick = run.summary.best.candidate
        series.append(PlotSeries("the pick", [points[pick]] if pick in points else [], "ring"))
    title = "Candidates by size and score"
    return (
        [layout_plot(title, "parameters", "score (higher is better)", *series, log=True)]
        if points
        else []
    )


def correlation_plots(log: Log) -> list[PlotGeometry]:
    """Plot the best correlation so far of a rediscovery."""
    logged = [line for line in log if line["best"] is not None]
    points = [PlotPoint(line["evaluations"], line["best"], line["expression"]) for line in logged]
    title = "The best correlation over the formulas scored"
    series = PlotSeries("best", points, "steps")
    return [layout_plot(title, "formulas scored", "Pearson's r", series)] if points else []


def loss_plots(log: Log) -> list[PlotGeometry]:
    points = [PlotPoint(line["epoch"], line["loss"], f"{line['loss']:.4f}") for line in log]
    series = PlotSeries("loss", points, "line")
    return (
        [layout_plot("The loss over the epochs", "epochs", "loss (lower is better)", series)]
        if points
        else []
    )


def space_plots(summary: S3Summary) -> list[PlotGeometry]:
    """Plot the errors of the search spaces of a search of the search space."""
    errors = {
        "E-T error": "error",
        "expected error": "expected",
        "error of the top tier": "top_tier",
    }
    values = {k: [getattr(own, name) for own in summary.rounds] for k, name in errors.items()}
    series = [
        PlotSeries(label, [PlotPoint(n, own, f"{own:.2f}") for n, own in enumerate(row)], "line")
        for label, row in values.items()
    ]
    return [layout_plot("How good the spaces are", "space", "error (lower is better)", *series)]


def per_block_choices(choices: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the choices of an architecture that are lists of numbers."""
    lists = {name: own for name, own in choices.items() if isinstance(own, list) and own}
    return {n: own for n, own in lists.items() if all(isinstance(v, int | float) for v in own)}


def true_score_by_size_plots(summary: BuildSummary) -> list[PlotGeometry]:
    """Plot the true scores of a built benchmark by size; none if its file is gone."""
    file = Path(summary.file)
    if not file.is_file():
        return []
    table, plots = read_object(file), []
    space = get_space(table["space"])
    for dataset, described in table["datasets"].items():
        points = []
        for n, entry in enumerate(table["architectures"]):
            params = space.params(space.architecture(entry["arch"]), described["classes"])
            score = entry["scores"][dataset]
            points.append(
                PlotPoint(params, score, f"network {n}, {format_with_unit(params)}: {score:g}")
            )
        series = PlotSeries("networks", points)
        plots.append(layout_plot(dataset, "parameters", "true score", series, log=True))
    return plots


def ranking_taus(summary: RankSummary) -> Taus:
    """Return the tau of each proxy on each dataset, the highest mean first."""
    taus: dict[str, dict[str, float | None]] = {}
    for row in summary.rows:
        taus.setdefault(row.proxy, {})[row.dataset] = row.kendall
    means = {proxy: mean_tau(own) for proxy, own in taus.items()}
    ranked = sorted(taus, key=lambda p: -1.0 if (mean := means[p]) is None else mean, reverse=True)
    return {proxy: taus[proxy] for proxy in ranked}


def test_taus(runs: Sequence[LoadedRun]) -> Taus:
    """Return the taus of evolved proxies on their test sets, by run."""
    return {
        run.name: {dataset: row.kendall for dataset, row in run.test.items()}
        for run in runs
        if isinstance(run, EvolveResult) and run.finished
    }


def mean_tau(taus: Mapping[str, float | None]) -> float | None:
    known = [tau for tau in taus.values() if tau is not None]
    return sum(known) / len(known) if known else None


def differing_settings(runs: Sequence[LoadedRun]) -> dict[str, list[Any]]:
    """Return the settings that aren't the same in all runs."""
    names = dict.fromkeys(name for run in runs for name in run.config)
    settings = {name: [run.config.get(name) for run in runs] for name in names}
    return {name: own for name, own in settings.items() if any(v != own[0] for v in own)}
