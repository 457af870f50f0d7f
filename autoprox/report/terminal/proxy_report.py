"""Proxies as documents and as text: formula, facts, where it was found, how well it ranks."""

from inspect import getdoc
from typing import Any

from rich.console import Console

from autoprox.evaluation.full_resolution_choice import RankingQuality, SplitMetricMeans
from autoprox.export import formula_legend, latex, pretty_formula
from autoprox.files.json_documents import JSONDocument
from autoprox.language import Tree, canonical, statistics, tree_digest
from autoprox.language.leaf_kinds import leaf_words
from autoprox.language.quantities import QUANTITIES
from autoprox.loaded_runs import EvolveResult, load_run
from autoprox.report.terminal.layout import Part, aligned, new_table, number
from autoprox.report.terminal.metric_tables import near_size_parts, size_and_seed, size_parts
from autoprox.runs.proxy_file import Found
from autoprox.scoring.evaluation_set import SizeCorrelations
from autoprox.zoo.functions import FunctionProxy, RankCombination
from autoprox.zoo.proxy_loading import LoadedProxy, find_run, resolve_proxy

WITH_PROXY = ("evolve", "rediscover")


class ExpressionDetails(JSONDocument):
    """The document of `autoprox show` for an expression, a run or a proxy file."""

    expression: str
    formula: str
    latex: str
    type: str
    size: int
    depth: int
    hash: str
    reads: list[str]
    passes: dict[str, str]
    choices_alone: bool
    citation: str | None
    found: Found | None
    taus: dict[str, dict[str, float | None]] | None
    size_check: dict[str, SizeCorrelations] | None
    means: dict[str, SplitMetricMeans] | None
    seed_share: float | None


class FunctionDetails(JSONDocument):
    """The document of `autoprox show` for a function of the zoo."""

    formula: str
    rule: str
    passes: str
    citation: str


class ProxyGlance(JSONDocument):
    """A proxy or a run as one of several that are shown side by side."""

    name: str
    run: str | None = None
    kind: str | None = None
    benchmark: str | None = None
    space: str | None = None
    seed: int | None = None
    fitness: float | None = None
    test: float | None = None
    seconds: float | None = None
    begun: str | None = None
    ended: bool | None = None
    settings: dict[str, Any] | None = None
    expression: str | None = None
    formula: str | None = None
    nodes: int | None = None
    depth: int | None = None


def proxy_details(loaded: LoadedProxy) -> ExpressionDetails | FunctionDetails:
    """Return everything that `autoprox show --json` says."""
    if not isinstance(loaded.proxy, Tree):
        return _function_details(loaded)
    tree, quality = loaded.proxy, _quality(loaded)
    return ExpressionDetails(
        expression=str(tree),
        formula=pretty_formula(tree),
        latex=latex(tree),
        type=str(tree.type),
        size=tree.size,
        depth=tree.depth,
        hash=tree_digest(tree),
        reads=terminals(tree),
        passes=passes(tree),
        choices_alone=not statistics(tree),
        citation=loaded.citation,
        found=loaded.found,
        taus=loaded.taus,
        size_check=None if quality is None else quality.size,
        means=None if quality is None else quality.means,
        seed_share=None if quality is None else quality.seed_share,
    )


def proxy_glance(source: str) -> ProxyGlance:
    """Return the facts of a proxy or a run, and of the run that it is from."""
    found: dict[str, Any] = {"name": source}
    if (numbered := find_run(source)) is not None:
        path, formula = numbered
        run = load_run(path)
        found |= run.overview().model_dump() if formula == "1" else {}
        found["settings"] = run.config
        if run.kind not in WITH_PROXY or not run.finished:
            return ProxyGlance(**found)
    details = proxy_details(resolve_proxy(source))
    if isinstance(details, ExpressionDetails):
        found |= {"expression": details.expression, "nodes": details.size, "depth": details.depth}
    return ProxyGlance(**found, formula=details.formula)


def proxy_report(loaded: LoadedProxy) -> list[Part]:
    """Show the formula with its legend, the tree's facts, where it was found, and its taus."""
    if not isinstance(loaded.proxy, Tree):
        details = _function_details(loaded)
        facts = {"passes": details.passes, "citation": details.citation}
        return [details.formula, details.rule, aligned(facts)]
    tree, found = loaded.proxy, loaded.found
    needed = "; ".join(f"{probe} {kind}" for probe, kind in passes(tree).items())
    lines = {
        "type": str(tree.type),
        "size": f"{tree.size} nodes, depth {tree.depth}",
        "reads": ", ".join(terminals(tree)) or "nothing",
        "passes": needed or "none",
        "hash": tree_digest(tree),
        "note": "" if statistics(tree) else "a function of the architecture's choices alone",
        "from": loaded.citation,
    }
    if found:
        lines["found by"] = f"{found.run}, seed {found.seed}"
        lines["found on"] = f"{found.benchmark}, {found.space}, label {found.label}"
        lines["datasets"] = ", ".join(found.datasets)
        lines["weights"] = found.weights
    parts: list[Part] = [pretty_formula(tree, Console().width)]
    if symbols := formula_legend(tree):
        parts.append(aligned(symbols))
    parts += [str(tree), aligned({name: text for name, text in lines.items() if text})]
    if loaded.taus:
        table = new_table("Kendall tau", *loaded.taus)
        for dataset in dict.fromkeys(name for part in loaded.taus.values() for name in part):
            table.add_row(dataset, *(number(part.get(dataset)) for part in loaded.taus.values()))
        parts.append(table)
    if quality := _quality(loaded):
        test = quality.size["test"]
        proxy = {"proxy": quality.means["proxy"].test}
        parts += size_parts(quality.size, "part")
        parts += [*near_size_parts(proxy, test.networks, test.pairs), size_and_seed(quality)]
    return parts


def _quality(loaded: LoadedProxy) -> RankingQuality | None:
    """Return what the run that found a proxy measured of it, if it was on one space."""
    if loaded.run is None or not isinstance(run := load_run(loaded.run), EvolveResult):
        return None
    folds = run.summary.folds if run.finished else ()
    spaces = [own for fold in folds for own in fold.spaces.values()]
    return spaces[0] if len(spaces) == 1 else None


def _function_details(loaded: LoadedProxy) -> FunctionDetails:
    proxy = loaded.proxy
    if isinstance(proxy, RankCombination):
        passes = f"those of {', '.join(proxy.parts)}"
        return FunctionDetails(
            formula=proxy.equation, rule=proxy.rule, passes=passes, citation=proxy.citation
        )
    if not isinstance(proxy, FunctionProxy):
        expression = loaded.tree  # raises the error of a predictor
        raise TypeError(f"{expression} is no function")
    return FunctionDetails(
        formula=proxy.equation,
        rule=getdoc(proxy.function) or "",
        passes=", ".join(sorted(proxy.needs)) or "its own",
        citation=proxy.citation,
    )


def terminals(tree: Tree) -> list[str]:
    """Return the names of the statistics and of the structure that a tree reads."""

    def visit(node: Tree, args: list[set[str]]) -> set[str]:
        return set().union(*args) if args else {node.symbol}

    return sorted(canonical(tree).fold(visit).intersection(leaf_words()) - {"one"})


def passes(tree: Tree) -> dict[str, str]:
    """Return the probes that the tree needs: `forward`, or `forward and backward`."""
    found: dict[str, str] = {}
    for statistic in sorted(statistics(tree), key=str):
        needs = QUANTITIES[statistic.quantity].needs
        if needs == "backward":
            found[statistic.probe] = "forward and backward"
        elif needs == "forward":
            found.setdefault(statistic.probe, "forward")
    return found
