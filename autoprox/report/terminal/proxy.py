"""A proxy as text and facts."""

from collections.abc import Mapping
from inspect import getdoc
from typing import Any

from rich.console import Console
from rich.table import Table

from autoprox.export import latex, legend, pretty
from autoprox.language import Tree, canonical, digest, statistics
from autoprox.language.leaf_kinds import leaf_words
from autoprox.language.quantities import QUANTITIES
from autoprox.report.terminal.layout import Part, aligned, new_table, number
from autoprox.report.terminal.worth import equal_size_parts, nature, size_parts
from autoprox.zoo.functions import FunctionProxy
from autoprox.zoo.proxy_loading import LoadedProxy

# What of a run's summary is said of its proxy, by which name: its size is the number of nodes.
OF_RUN = {"size": "size_check", "means": "means", "seed_share": "seed_share"}


def proxy_details(loaded: LoadedProxy) -> dict[str, Any]:
    """All that `autoprox show --json` says."""
    if isinstance(loaded.proxy, FunctionProxy):
        return _function_facts(loaded.proxy)
    tree = loaded.proxy
    return {
        "expression": str(tree),
        "formula": pretty(tree),
        "latex": latex(tree),
        "type": str(tree.type),
        "size": tree.size,
        "depth": tree.depth,
        "hash": digest(tree),
        "reads": terminals(tree),
        "passes": passes(tree),
        "choices_alone": not statistics(tree),
        "citation": loaded.citation,
        "found": loaded.found,
        "taus": loaded.taus,
        **{OF_RUN[name]: own for name, own in (loaded.summary or {}).items() if name in OF_RUN},
    }


def proxy_report(loaded: LoadedProxy) -> list[Part]:
    """The formula with its legend, the tree's facts, where it was found, and its taus."""
    if isinstance(loaded.proxy, FunctionProxy):
        formula, rule, *rest = _function_facts(loaded.proxy).items()
        return [formula[1], rule[1], aligned(dict(rest))]
    tree = loaded.proxy
    needed = "; ".join(f"{probe} {kind}" for probe, kind in passes(tree).items())
    facts = {
        "type": str(tree.type),
        "size": f"{tree.size} nodes, depth {tree.depth}",
        "reads": ", ".join(terminals(tree)) or "nothing",
        "passes": needed or "none",
        "hash": digest(tree),
        "note": "" if statistics(tree) else "a function of the architecture's choices alone",
        "from": loaded.citation,
        **_origin(loaded.found or {}),
    }
    parts: list[Part] = [pretty(tree, Console().width)]
    if symbols := legend(tree):
        parts.append(aligned(symbols))
    parts += [str(tree), aligned({name: text for name, text in facts.items() if text})]
    if loaded.taus:
        parts.append(_tau_table(loaded.taus))
    return [*parts, *_of_run(loaded.summary or {})]


def _of_run(summary: Mapping[str, Any]) -> list[Part]:
    """What of a proxy is size, as the run that found it measured; older runs didn't."""
    if "size" not in summary or "means" not in summary:
        return []
    test = summary["size"]["test"]
    own = {"proxy": summary["means"]["proxy"]["test"]}
    return [
        *size_parts(summary["size"], "part"),
        *equal_size_parts(own, test["networks"], test["pairs"]),
        nature(summary),
    ]


def _function_facts(proxy: FunctionProxy) -> dict[str, str]:
    return {
        "formula": proxy.equation,
        "rule": getdoc(proxy.function) or "",
        "passes": ", ".join(sorted(proxy.needs)) or "its own",
        "citation": proxy.citation,
    }


def terminals(tree: Tree) -> list[str]:
    """The names of the statistics and of the structure that a tree reads."""

    def visit(node: Tree, args: list[set[str]]) -> set[str]:
        return set().union(*args) if args else {node.symbol}

    return sorted(canonical(tree).fold(visit).intersection(leaf_words()) - {"one"})


def passes(tree: Tree) -> dict[str, str]:
    """Of each probe that the tree needs a pass of: `forward`, or `forward and backward`."""
    found: dict[str, str] = {}
    for statistic in sorted(statistics(tree), key=str):
        needs = QUANTITIES[statistic.quantity].needs
        if needs == "backward":
            found[statistic.probe] = "forward and backward"
        elif needs == "forward":
            found.setdefault(statistic.probe, "forward")
    return found


def _origin(found: Mapping[str, Any]) -> dict[str, str]:
    if not found:
        return {}
    return {
        "found by": f"{found['run']}, seed {found['seed']}",
        "found on": f"{found['benchmark']}, {found['space']}, label {found['label']}",
        "datasets": ", ".join(found["datasets"]),
    }


def _tau_table(taus: Mapping[str, Mapping[str, float | None]]) -> Table:
    table = new_table("Kendall's tau")
    for part in taus:
        table.add_column(part, justify="right")
    for dataset in dict.fromkeys(dataset for part in taus.values() for dataset in part):
        table.add_row(dataset, *(number(part.get(dataset)) for part in taus.values()))
    return table
