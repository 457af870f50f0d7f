"""What the commands print: results as text and tables, or as one JSON document."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from inspect import getdoc
from pathlib import Path
from statistics import median
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from autoprox.export import latex, legend, pretty
from autoprox.files.atomic import to_json
from autoprox.language import Tree, canonical, digest, statistics
from autoprox.scoring.tables import mean_kendall
from autoprox.zoo.functions import FunctionProxy
from autoprox.zoo.loading import Loaded

MEAN = "mean"
WIDTH = 80
ROUNDING = 1e-9


def show(*parts: str | Table) -> None:
    """Print the parts with an empty line between two."""
    console = Console(highlight=False, markup=False, emoji=False)
    console.width = max(console.width, WIDTH)
    for number, part in enumerate(parts):
        if number:
            print()
        if isinstance(part, str):
            print(part, flush=True)
        else:
            console.print(part)


def show_json(value: Any) -> None:
    print(to_json(value, indent=2))


def evolution_report(summary: Mapping[str, Any]) -> list[str | Table]:
    """The proxy that was found, what it is worth, and what was done for it."""
    return [
        summary["formula"],
        summary["expression"],
        _worth_table(summary),
        textwrap.fill(_verdict(summary), WIDTH),
        textwrap.fill(_counts(summary), WIDTH),
        f"Run: {summary['run']}\nNext: autoprox show {summary['run']}",
    ]


def _worth_table(summary: Mapping[str, Any]) -> Table:
    table = _table("\nscored by")
    for heading in ("test\nKendall", "\n95 % interval", "\nSpearman", "\nPearson"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("train\nKendall", "\n95 % interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    rows = _scored(summary)
    for dataset in summary["test"]:
        table.add_row(dataset)
        for name, parts in rows.items():
            test, train = parts["test"][dataset], parts["train"][dataset]
            table.add_row(
                f"  {name}",
                *(_number(test["kendall"]), _interval(test["interval"])),
                *(_number(test["spearman"]), _number(test["pearson"])),
                *(_number(train["kendall"]), _interval(train["interval"])),
            )
    table.add_row(MEAN)
    for name, parts in rows.items():
        means = {part: _number(mean_kendall(parts[part])) for part in ("test", "train")}
        table.add_row(f"  {name}", means["test"], "", "", "", means["train"])
    return table


def _scored(summary: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The proxy's own tables of both parts, then those of each baseline."""
    own = {part: summary[part] for part in ("train", "test")}
    return {"proxy": own, **summary["baselines"]}


def _verdict(summary: Mapping[str, Any]) -> str:
    """Which baselines rank the test networks better than the proxy, and where."""
    kendall = {
        name: {dataset: row["kendall"] for dataset, row in parts["test"].items()}
        | {MEAN: mean_kendall(parts["test"])}
        for name, parts in _scored(summary).items()
    }
    own = kendall.pop("proxy")
    better = {
        name: [d for d, tau in taus.items() if _or_least(tau) - _or_least(own[d]) > ROUNDING]
        for name, taus in kendall.items()
    }
    found = [f"{name} ({', '.join(where)})" for name, where in better.items() if where]
    if found:
        verdict = f"Better than the proxy on the test networks: {', '.join(found)}."
    else:
        verdict = "On the test networks no baseline is better than the proxy."
    broken = mean_kendall(summary["test"], "ties_broken")
    if own[MEAN] is None or broken is None or own[MEAN] - broken <= ROUNDING:
        return verdict
    return f"{verdict} With the proxy's ties in random order its mean Kendall is {broken:.3f}."


def _counts(summary: Mapping[str, Any]) -> str:
    reasons = summary["invalid"]
    detail = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    invalid = f"{sum(reasons.values())} invalid" + (f" ({detail})" if detail else "")
    failed = len(summary["failed_networks"])
    return (
        f"Formulas evaluated: {summary['evaluations']}, {invalid}; "
        f"networks failed: {failed}; {summary['seconds']:.0f} s"
    )


def rank_report(summary: Mapping[str, Any]) -> list[str | Table]:
    """How well each proxy ranks, the best first, a part for each dataset."""
    rows = summary["rows"]
    shown: dict[str, Callable[[Mapping[str, Any]], str]] = {
        "Ken-\ndall": lambda row: _number(row["kendall"]),
        "std of\nseeds": lambda row: _number(row["std"]["kendall"]),
        "\n95 % interval": lambda row: _interval(row["interval"]["kendall"]),
        "Spear-\nman": lambda row: _number(row["spearman"]),
        "Pear-\nson": lambda row: _number(row["pearson"]),
        "pub-\nlished": lambda row: _number(row["published"]["kendall"]),
        "left\nout": lambda row: str(row["invalid"] or ""),
    }
    if summary["seeds"] == 1:
        del shown["std of\nseeds"]
    if all(row["published"]["kendall"] is None for row in rows):
        del shown["pub-\nlished"]
    if not summary["invalid"]:
        del shown["left\nout"]
    table = _table("\nproxy")
    table.columns[0].no_wrap, table.columns[0].max_width = True, 26
    for heading in shown:
        table.add_column(heading, justify="right", no_wrap=True)
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        table.add_row(dataset)
        for row in rows:
            if row["dataset"] == dataset:
                table.add_row(f"  {row['proxy']}", *(cell(row) for cell in shown.values()))
    reasons = [
        f"{proxy}: {count} networks left out, {reason}"
        for proxy, found in summary["invalid"].items()
        for reason, count in found.items()
    ]
    counts = (
        f"{summary['networks']} networks, seeds: {summary['seeds']}; {summary['seconds']:.0f} s"
    )
    return [table, "\n".join([*reasons, counts]), f"Run: {summary['run']}"]


def proxy_details(loaded: Loaded) -> dict[str, Any]:
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
        "citation": loaded.citation,
        "found": loaded.found,
        "taus": loaded.taus,
    }


def proxy_report(loaded: Loaded) -> list[str | Table]:
    """The formula with its legend, the tree's facts, where it was found, and its taus."""
    if isinstance(loaded.proxy, FunctionProxy):
        formula, rule, *rest = _function_facts(loaded.proxy).items()
        return [formula[1], rule[1], _aligned(dict(rest))]
    tree = loaded.proxy
    needed = "; ".join(f"{probe} {kind}" for probe, kind in passes(tree).items())
    facts = {
        "type": str(tree.type),
        "size": f"{tree.size} nodes, depth {tree.depth}",
        "reads": ", ".join(terminals(tree)) or "nothing",
        "passes": needed or "none",
        "hash": digest(tree),
        "from": loaded.citation,
        **_origin(loaded.found or {}),
    }
    parts: list[str | Table] = [pretty(tree, Console().width)]
    if symbols := legend(tree):
        parts.append(_aligned(symbols))
    parts += [str(tree), _aligned({name: text for name, text in facts.items() if text})]
    return [*parts, _tau_table(loaded.taus)] if loaded.taus else parts


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

    return sorted(canonical(tree).fold(visit) - {"one"})


def passes(tree: Tree) -> dict[str, str]:
    """Of each probe that the tree needs a pass of: `forward`, or `forward and backward`."""
    found: dict[str, str] = {}
    for statistic in sorted(statistics(tree), key=str):
        if statistic.quantity in ("grad", "act_grad"):
            found[statistic.probe] = "forward and backward"
        elif statistic.quantity == "act":
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
    table = _table("Kendall's tau")
    for part in taus:
        table.add_column(part, justify="right")
    for dataset in dict.fromkeys(dataset for part in taus.values() for dataset in part):
        table.add_row(dataset, *(_number(part.get(dataset)) for part in taus.values()))
    return table


def benchmark_table(benchmarks: Iterable[Mapping[str, Any]]) -> Table:
    """A line for each benchmark."""
    table = _table("benchmark")
    for heading in ("spaces", "datasets", "networks", "installed"):
        table.add_column(heading, justify="right" if heading == "networks" else "left")
    for found in benchmarks:
        table.add_row(
            found["name"],
            "\n".join(found["spaces"]),
            "\n".join(found["datasets"]),
            str(found["architectures"]),
            _installed(found),
        )
    return table


def _installed(found: Mapping[str, Any]) -> str:
    if found["embedded"]:
        return "embedded"
    if not found["installed"]:
        return f"no: autoprox bench fetch {found['name']}"
    there = sum(file["status"] == "installed" for file in found["files"])
    return "yes" if there == len(found["files"]) else f"{there} of {len(found['files'])} files"


def benchmark_details(found: Mapping[str, Any]) -> list[str | Table]:
    """Everything of a benchmark that a user chooses from or has to know."""
    labels = _table("space")
    labels.add_column("label")
    labels.add_column("datasets")
    for space, own in found["labels"].items():
        for label, datasets in own.items():
            labels.add_row(space, label, ", ".join(datasets))
    facts = {
        "datasets": ", ".join(f"{d} ({count} classes)" for d, count in found["datasets"].items()),
        "licence": found["licence"],
        "source": found["source"],
        "embedded" if found["embedded"] else "looked in": ", ".join(found["folders"]),
    }
    if ceilings := found["noise_ceiling"]:
        taus = ", ".join(f"{dataset} {_number(tau)}" for dataset, tau in ceilings.items())
        facts["noise ceiling"] = f"{taus} (Kendall's tau between two trainings)"
    return [
        f"{found['name']}: {found['description']}",
        labels,
        _aligned(facts),
        file_table(found["files"]),
    ]


def build_details(table: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """What was built: the range of the scores, how far they can be trusted, what failed."""
    training = table["training"]
    datasets = {}
    for dataset, ceiling in training["noise_ceiling"].items():
        scores = [entry["scores"][dataset] for entry in table["architectures"]]
        datasets[dataset] = {
            "lowest": min(scores),
            "median": median(scores),
            "highest": max(scores),
            "noise_ceiling": ceiling,
        }
    return {
        "file": str(file),
        "name": table["name"],
        "space": table["space"],
        "architectures": len(table["architectures"]),
        "datasets": datasets,
        **{name: training[name] for name in ("measure", "seeds", "core_hours", "failures")},
    }


def build_report(details: Mapping[str, Any]) -> list[str | Table]:
    """The same for people, with the next command."""
    table = _table(details["measure"])
    for heading in ("lowest", "median", "highest", "tau between seeds"):
        table.add_column(heading, justify="right")
    for dataset, row in details["datasets"].items():
        scores = (f"{row[name]:.2f}" for name in ("lowest", "median", "highest"))
        table.add_row(dataset, *scores, _number(row["noise_ceiling"]))
    failures = details["failures"]
    counts = (
        f"{details['architectures']} architectures of {details['space']}, seeds: "
        f"{details['seeds']}; {details['core_hours']:g} core hours; "
        f"trainings failed: {len(failures)}"
    )
    left_out = [f"left out: {f['dataset']}, seed {f['seed']}: {f['failure']}" for f in failures]
    file = details["file"]
    return [
        table,
        "\n".join([counts, *left_out]),
        f"Table: {file}\nNext: autoprox evolve --benchmark {file}",
    ]


def file_table(files: Sequence[Mapping[str, Any]]) -> Table:
    """A benchmark's files, with what is known or was done of each."""
    columns = [name for name in ("file", "subset", "architectures", "status") if name in files[0]]
    table = _table(columns[0])
    for column in columns[1:]:
        table.add_column(column)
    for file in files:
        table.add_row(*(str(file[column]) for column in columns))
    return table


def _table(first: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column(first)
    return table


def _aligned(facts: Mapping[str, str]) -> str:
    width = max(map(len, facts)) + 2
    wrap = textwrap.TextWrapper(
        WIDTH,
        subsequent_indent=width * " ",
        drop_whitespace=True,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(wrap.fill(f"{name:{width}}{text}") for name, text in facts.items())


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _interval(bounds: Sequence[float | None]) -> str:
    low, high = bounds
    return "-" if low is None or high is None else f"[{low:.2f}, {high:.2f}]"


def _or_least(tau: float | None) -> float:
    return -2.0 if tau is None else tau
