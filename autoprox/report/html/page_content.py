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

from autoprox.export import legend
from autoprox.export.latex_form import latex, latex_formula
from autoprox.export.mathml_form import mathml_of
from autoprox.files.human_readable import compact
from autoprox.files.json_documents import read_object
from autoprox.files.json_lines import JSONLines
from autoprox.language import Tree, parse
from autoprox.nas.proxy import SplitProxy
from autoprox.primitives import OPERATIONS, Formula, fill
from autoprox.report.html.figures import Plot, Point, Series, pareto_front, plot
from autoprox.report.terminal.layout import WIDTH, Part
from autoprox.report.terminal.summaries import report_of
from autoprox.runs.folder import CANDIDATES, COMMANDS
from autoprox.runs.loading import LoadedRun
from autoprox.scoring.fitness import beyond_size
from autoprox.searchspaces import get_space

Summary = Mapping[str, Any]  # or a part of one
Log = Sequence[Mapping[str, Any]]
Taus = Mapping[str, Mapping[str, float | None]]  # by proxy or run, and dataset

ARITHMETIC = frozenset({"add", "sub", "mul", "div"})  # operations that need no explanation
ALIGNED = re.compile(r"\S {2,}\S|^ |^(?:Run|Next|Report|Table|Weights): ", re.MULTILINE)


class ReportPart(NamedTuple):
    """A part of what the terminal shows: paragraphs, preformatted text, or a table."""

    paragraphs: Sequence[str] = ()
    preformatted: str = ""
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


def report_parts(run: LoadedRun) -> list[ReportPart]:
    """Return what the command printed, without the formula, which has its own section."""
    summary = {"run": str(run.path), **(run.summary or {})}
    formulas = (summary.get("formula"), summary.get("expression"))
    parts = report_of(run.kind, summary)
    return [report_part(part) for part in parts if part not in formulas]


def report_part(part: Part) -> ReportPart:
    if isinstance(part, Table):
        columns = [[str(cell) for cell in column.cells] for column in part.columns]
        return ReportPart(
            paragraphs=[str(part.title)] if part.title else [],
            headings=[str(own.header).replace("-\n", "").strip() for own in part.columns],
            rows=list(zip(*columns, strict=True)),
        )
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


def setting(value: Any) -> str:
    """Format a value of a run's configuration."""
    if isinstance(value, dict):
        return "\n".join(f"{name}: {own}" for name, own in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(map(setting, value)) if any(own is not None for own in value) else "-"
    return "-" if value is None else str(value)


def run_name(run: LoadedRun) -> str:
    return run.path.absolute().name


def run_command(run: LoadedRun) -> str:
    return f"autoprox {COMMANDS.get(run.kind, run.kind)}"


def command_given(environment: Summary) -> str | None:
    """Return the command that started a run; None if it was started from Python."""
    program, *arguments = map(str, environment.get("command") or [""])
    if Path(program).stem not in ("autoprox", "__main__"):
        return None
    return shlex.join(["autoprox", *arguments])


def formula_lines(tree: Tree) -> list[str]:
    """Return MathML with each term of a sum on its own line, as browsers don't break formulas."""
    if tree.symbol != "add":
        return [mathml_of(latex(tree))]
    first, second = tree.args
    return [*formula_lines(first), mathml_of(f"+ {latex_formula(second).within('TERM')}")]


def symbol_meanings(tree: Tree) -> dict[str, str]:
    """Return the meaning of each letter, and of each leaf that is written as a word."""
    letters = {normalize("NFKC", label): meaning for label, meaning in legend(tree).items()}
    leaves = {node.symbol: node.leaf.meaning for node in _nodes(tree) if node.leaf}
    return letters | {symbol: meaning for symbol, meaning in leaves.items() if meaning}


def operations_used(tree: Tree) -> list[tuple[str, str, str]]:
    """Return the MathML, name and rule of each operation but those of arithmetic."""
    symbols = {node.symbol for node in _nodes(tree)} - ARITHMETIC
    x, y, times = Formula("x"), Formula("y"), Formula(r"\cdot")
    return [
        (mathml_of(fill(own.latex, x=x, y=y, times=times)), own.name, " ".join(own.rule.split()))
        for name, own in OPERATIONS.items()
        if name in symbols
    ]


def _nodes(tree: Tree) -> list[Tree]:
    nodes: list[Tree] = []
    tree.fold(lambda node, _: nodes.append(node))
    return nodes


def evolutions(summary: Summary) -> list[tuple[str, Summary]]:
    """Return what was evolved: the summary, or a part of it for each space that was held out."""
    if "folds" not in summary:
        return [("", summary)]
    return [
        ("on all spaces" if fold["held_out"] is None else f"without {fold['held_out']}", fold)
        for fold in summary["folds"]
    ]


def evaluations(summary: Summary) -> list[tuple[str, Summary]]:
    """Return how well each formula ranks, on each of the spaces where it was measured."""
    return [
        (f"{space}, evolved {title}: " if title else "", result)
        for title, fold in evolutions(summary)
        for space, result in (fold["spaces"].items() if title else [("", summary)])
    ]


def score_plots(summary: Summary) -> list[Plot]:
    """Plot the networks by score and true score; none if the run didn't record them."""
    results, plots = evaluations(summary), []
    if any("networks" not in result for _, result in results):
        return []
    for title, result in results:
        networks = result["networks"]
        for dataset in networks["test"]["truth"]:
            series = [
                Series(name, _networks(networks[name], dataset)) for name in ("test", "train")
            ]
            plots.append(plot(f"{title}{dataset}", "score of the proxy", "true score", *series))
    return plots


def _networks(part: Mapping[str, Any], dataset: str) -> list[Point]:
    columns = (part["network"], part["params"], part["scores"][dataset], part["truth"][dataset])
    return [
        Point(score, truth, f"network {name}, {compact(params)} parameters: {truth:g}")
        for name, params, score, truth in zip(*columns, strict=True)
        if score is not None
    ]


def front_plots(summary: Summary) -> list[Plot]:
    """Plot the formulas of the front by size and fitness."""
    plots = []
    for title, result in evolutions(summary):
        front = result.get("front", [])
        points = [Point(own["size"], own["jcm"], own["expression"]) for own in front]
        chosen = [point for point, own in zip(points, front, strict=True) if own["chosen"]]
        series = (
            Series("formulas that were kept", points),
            Series("front of size and fitness", pareto_front(points), "steps"),
            Series("chosen", chosen, "ring"),
        )
        caption = f"Size and fitness, evolved {title}" if title else "Size and fitness"
        if front:
            plots.append(plot(caption, "nodes", "fitness on the training networks", *series))
    return plots


def fitness_plots(log: Log) -> list[Plot]:
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
            [Point(line["evaluations"], line[name]) for line in lines if line[name] is not None]
            for name in ("best", "mean")
        )
        series = (Series("best", best, "steps"), Series("mean", mean, "line"))
        axes = ("formulas evaluated", "fitness")
        plots.append(plot(f"Fitness over evaluations{title}", *axes, *series))
    return plots


def candidate_plots(run: LoadedRun) -> list[Plot]:
    """Plot all candidates of a search by size and score, the front, and the pick."""
    candidates = JSONLines(run.path / CANDIDATES).read()
    valid = {n: own for n, own in enumerate(candidates) if not own["failure"]}
    if not valid:
        return []
    terms = np.array([own["terms"] for own in valid.values()], dtype=float)
    scores = SplitProxy(parse(run.config["proxy"])).scores(terms)
    if run.config.get("objective") == "equal-size":
        scores = beyond_size(scores, np.array([float(own["params"]) for own in valid.values()]))
    points = {
        n: Point(own["params"], score, f"candidate {n}: {own['params']:,} parameters, {score:.6g}")
        for (n, own), score in zip(valid.items(), scores.tolist(), strict=True)
        if math.isfinite(score)
    }
    series = [
        Series("candidates", list(points.values())),
        Series("front", pareto_front(points.values()), "steps"),
    ]
    if run.summary:
        pick = run.summary["best"]["candidate"]
        series.append(Series("the pick", [points[pick]] if pick in points else [], "ring"))
    title = "Candidates by size and score"
    return [plot(title, "parameters", "score", *series, log=True)] if points else []


def correlation_plots(log: Log) -> list[Plot]:
    """Plot the best correlation so far of a rediscovery."""
    logged = [line for line in log if line["best"] is not None]
    points = [Point(line["evaluations"], line["best"], line["expression"]) for line in logged]
    title = "The best correlation over the formulas scored"
    series = Series("best", points, "steps")
    return [plot(title, "formulas scored", "Pearson's r", series)] if points else []


def loss_plots(log: Log) -> list[Plot]:
    points = [Point(line["epoch"], line["loss"], f"{line['loss']:.4f}") for line in log]
    series = Series("loss", points, "line")
    return [plot("The loss over the epochs", "epochs", "loss", series)] if points else []


def space_plots(summary: Summary) -> list[Plot]:
    """Plot the errors of the search spaces of a search of the search space."""
    labels = ("E-T error", "expected error", "error of the top tier")
    rounds = list(enumerate(summary["rounds"]))
    series = [
        Series(label, [Point(n, own[key], f"{own[key]:.2f}") for n, own in rounds], "line")
        for key, label in zip(("error", "expected", "top_tier"), labels, strict=True)
    ]
    return [plot("How good the spaces are", "space", "error", *series)]


def numbers_by_block(choices: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the choices of an architecture that are lists of numbers."""
    lists = {name: own for name, own in choices.items() if isinstance(own, list) and own}
    return {n: own for n, own in lists.items() if all(isinstance(v, int | float) for v in own)}


def benchmark_plots(summary: Summary) -> list[Plot]:
    """Plot the true scores of a built benchmark by size; none if its file is gone."""
    file = Path(summary["file"])
    if not file.is_file():
        return []
    table, plots = read_object(file), []
    space = get_space(table["space"])
    for dataset, described in table["datasets"].items():
        points = []
        for n, entry in enumerate(table["architectures"]):
            params = space.params(space.architecture(entry["arch"]), described["classes"])
            score = entry["scores"][dataset]
            points.append(Point(params, score, f"network {n}, {compact(params)}: {score:g}"))
        series = Series("networks", points)
        plots.append(plot(dataset, "parameters", "true score", series, log=True))
    return plots


def ranking_taus(summary: Summary) -> Taus:
    """Return the tau of each proxy on each dataset, the highest mean first."""
    taus: dict[str, dict[str, float | None]] = {}
    for row in summary["rows"]:
        taus.setdefault(row["proxy"], {})[row["dataset"]] = row["kendall"]
    means = {proxy: mean_tau(own) for proxy, own in taus.items()}
    ranked = sorted(taus, key=lambda p: -1.0 if (mean := means[p]) is None else mean, reverse=True)
    return {proxy: taus[proxy] for proxy in ranked}


def test_taus(runs: Sequence[LoadedRun]) -> Taus:
    """Return the taus of evolved proxies on their test sets, by run."""
    taus = {}
    for run in runs:
        if run.kind == "evolve" and run.summary:
            taus[run_name(run)] = {
                f"{space}/{dataset}".removeprefix("/"): row["kendall"]
                for fold in run.summary.get("folds") or [{"spaces": {"": run.summary}}]
                for space, result in fold["spaces"].items()
                for dataset, row in result["test"].items()
            }
    return taus


def mean_tau(taus: Mapping[str, float | None]) -> float | None:
    known = [tau for tau in taus.values() if tau is not None]
    return sum(known) / len(known) if known else None


def differing_settings(runs: Sequence[LoadedRun]) -> dict[str, list[Any]]:
    """Return the settings that aren't the same in all runs."""
    names = dict.fromkeys(name for run in runs for name in run.config)
    settings = {name: [run.config.get(name) for run in runs] for name in names}
    return {name: own for name, own in settings.items() if any(v != own[0] for v in own)}
