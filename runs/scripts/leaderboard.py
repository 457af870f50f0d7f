"""The leaderboard: how well each proxy of the zoo and each baseline ranks, on every table.

    python runs/scripts/leaderboard.py run [--tables A,B] [--weights fresh] [--seeds 3]
    python runs/scripts/leaderboard.py adopt RUN ...
    python runs/scripts/leaderboard.py page

`run` ranks the whole zoo on each installed table and writes runs/leaderboard/TABLE-WEIGHTS.json. A
stopped ranking is resumed. Of a file with as many networks, only the proxies that it lacks or has
with fewer seeds are ranked. `adopt` takes finished runs of `autoprox rank` over instead. `page`
writes docs/results/leaderboard.md and its heat map from these files.
"""

from __future__ import annotations

import argparse
import html
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from ranked_tables import (
    Table,
    bounds,
    figure,
    finished_ranking,
    forget,
    installed_tables,
    show_progress,
)
from scipy.stats import rankdata

from autoprox import load_run
from autoprox.benchmarks import Benchmark
from autoprox.commands.rank import RankSummary, RankTask
from autoprox.configurations.commands import RankConfig
from autoprox.evaluation.proxy_measurement import MeasuredProxies, all_proxy_names
from autoprox.evaluation.time_estimate import median_size_index
from autoprox.files.atomic_writes import write_json, write_text
from autoprox.files.json_documents import read_object
from autoprox.loaded_runs import RankResult
from autoprox.parallel.threads import single_torch_thread
from autoprox.parallel.worker_pool import WorkerPool
from autoprox.report.terminal.layout import markdown_line
from autoprox.scoring.baselines import network_sizes, regression_baselines
from autoprox.scoring.evaluation_set import EvaluationSet
from autoprox.statistics.untrained_networks import untrained_space_networks
from autoprox.zoo.prior_file import BOTH, read_prior_file

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "runs" / "leaderboard"
PAGE = ROOT / "docs" / "results" / "leaderboard.md"
MOST_NETWORKS = 200
LABELS = 60  # of a regression
SURROGATE, INHERITED = "scores of a surrogate", "accuracies with inherited weights"
TABLES = (
    Table("AutoFormer nano", "nano-bench", "autoformer-nano"),
    Table("PiT nano", "nano-bench", "pit-nano"),
    Table("GPT-2 nano", "nano-bench", "gpt2-nano"),
    Table("AutoFormer-101", "vit-bench-101", "autoformer-ti"),
    Table("PiT-101", "vit-bench-101", "pit"),
    Table("AutoFormer supernet Ti", "ood-vit-nas", "autoformer-supernet-ti", INHERITED),
    Table("AutoFormer supernet S", "ood-vit-nas", "autoformer-supernet-s", INHERITED),
    Table("AutoFormer supernet B", "ood-vit-nas", "autoformer-supernet-b", INHERITED),
    Table("FlexiBERT", "nas-bench-bert", "flexibert"),
    Table("GPT-2 LTS, WikiText-103", "lts", "gpt2-lts"),
    Table("GPT-2 LTS, LM1B", "lts", "gpt2-lts-lm1b"),
    Table("GPT-2 HW", "hw-gpt-bench", "gpt2-hw", SURROGATE),
)
MARKS = {SURROGATE: "†", INHERITED: "‡"}


def proxies_of(table: Table) -> dict[str, str]:
    """Return the proxies of a table by their rows: the zoo, and autoprox-1 without this table."""
    groups = read_prior_file().groups
    zoo = {name: name for name in all_proxy_names() if name not in groups}
    return {**zoo, BOTH: groups[BOTH].entry(table.benchmark, table.space).expression}


def measured(
    table: Table, known: Mapping[str, Any], weights: str, seeds: int, networks: int, workers: int
) -> dict[str, Any]:
    """Rank the proxies that a table's file lacks, and return what the page needs."""
    of = len(table.load().architectures)
    options: dict[str, Any] = {
        **table.options(),
        "proxies": tuple(own for row, own in proxies_of(table).items() if row not in known),
        "seeds": seeds,
        "weights": weights,
    }
    options |= {"networks": networks} if of > networks else {}
    name = f"leaderboard-{table.name}-{weights}"
    summary = finished_ranking(name, options, workers, show_progress)
    result = described(table, options, summary)
    forget(name)
    return result


def described(table: Table, options: Mapping[str, Any], summary: RankSummary) -> dict[str, Any]:
    """Return what the page needs of a ranking with these options, measuring seconds."""
    config = RankConfig(**options)
    benchmark = table.load(options.get("networks"))
    spent = seconds(config)
    names = {own: row for row, own in proxies_of(table).items()}
    rows = {
        names.get(proxy, proxy): {
            "kind": "proxy",
            **own.model_dump(mode="json"),
            "seeds": summary.seeds,
            "seconds": spent[proxy],
        }
        for proxy, own in summary.means.items()
    }
    return {
        "benchmark": table.benchmark,
        "space": table.space,
        "labels": table.labels,
        "label": benchmark.label,
        "datasets": list(benchmark.datasets),
        "weights": options["weights"],
        "networks": summary.networks,
        "of": len(table.load().architectures),
        "batch_size": config.batch_size,
        "left_out": summary.invalid,
        "rows": rows | baseline_rows(table, benchmark, config),
    }


def adopt(paths: Sequence[Path]) -> None:
    """Take over finished runs of `autoprox rank` on whole tables."""
    for path in paths:
        found = load_run(path)
        if not isinstance(found, RankResult) or not found.finished:
            raise SystemExit(f"{path} must be a finished run of rank")
        own = found.config
        chosen = [
            table
            for table in TABLES
            if (table.benchmark, table.space) == (own["benchmark"], own["space"])
            and table.load().label == own["label"]
            and set(table.load().datasets) == set(own["datasets"])
        ]
        if len(chosen) != 1 or own["images"] or own.get("networks"):
            raise SystemExit(f"{path} must be of one whole table, with noise as input")
        [table] = chosen
        options = {
            "proxies": tuple(found.summary.means),
            "seeds": own["seeds"],
            "weights": own["weights"],
        }
        result = described(table, {**table.options(), **options}, found.summary)
        RESULTS.mkdir(exist_ok=True)
        write_json(RESULTS / f"{table.name}-{result['weights']}.json", result)


def baseline_rows(
    table: Table, benchmark: Benchmark, config: RankConfig
) -> dict[str, dict[str, Any]]:
    """Return the means over the datasets of each size and of each regression on LABELS labels.

    The labels are of the whole table, of which the benchmark may be a sample.
    """
    whole = table.load()
    places = {arch: index for index, arch in enumerate(whole.architectures)}
    chosen = [places[arch] for arch in benchmark.architectures]
    evaluation = EvaluationSet(benchmark, range(len(chosen)), config.seed, config.ties)
    regressions = {
        name: {dataset: own[chosen] for dataset, own in scores.items()}
        for name, scores in regression_baselines(whole, labels=LABELS).items()
    }
    kinds = {"size": network_sizes(benchmark), "regression": regressions}
    return {
        name: {"kind": kind, **evaluation.mean(scores).summary().model_dump(mode="json")}
        for kind, found in kinds.items()
        for name, scores in found.items()
    }


def seconds(config: RankConfig) -> dict[str, float]:
    """Return the seconds that each proxy alone takes for the network of median size, one thread."""
    task = RankTask(config)
    architectures = task.benchmark.architectures
    middle = [architectures[median_size_index(task.space, architectures)]]
    networks = untrained_space_networks(task.space, middle, config.seed)
    found = {}
    with single_torch_thread(), WorkerPool(1) as pool:
        for name in (task.config.proxies[0], *task.config.proxies):  # the first warms up
            started = time.perf_counter()
            proxy = MeasuredProxies([name])
            proxy.measured(networks, task.setting(config.seed), config.seed, pool, lambda own: None)
            found[name] = round(time.perf_counter() - started, 4)
    return found


def run(names: Sequence[str], weights: str, seeds: int, networks: int, workers: int) -> None:
    """Measure on the tables that are installed what isn't measured yet."""
    for table in installed_tables(TABLES, names):
        path = RESULTS / f"{table.name}-{weights}.json"
        known = read_object(path) if path.exists() else {"rows": {}, "left_out": {}}
        if known["rows"] and known["networks"] < min(networks, known["of"]):
            known = {"rows": {}, "left_out": {}}
        known["rows"] = {
            name: own for name, own in known["rows"].items() if own.get("seeds", seeds) >= seeds
        }
        if set(proxies_of(table)) <= set(known["rows"]):
            print(f"{table.name}: there already")
            continue
        print(f"{table.name}:", flush=True)
        started = time.monotonic()
        RESULTS.mkdir(exist_ok=True)
        drawn = known.get("networks", networks)
        found = measured(table, known["rows"], weights, seeds, drawn, workers)
        for part in ("rows", "left_out"):
            found[part] = {**known[part], **found[part]}
        write_json(path, found)
        print(f"{table.name}: {time.monotonic() - started:.0f} s", flush=True)


Results = Sequence[Mapping[str, Any]]
HEAT_MAP_STYLE = (
    ".page { fill: #fff } "
    "@media (prefers-color-scheme: dark) { .page { fill: #14171b } .name { fill: #e6e9ed } }"
)


def results() -> dict[str, list[dict[str, Any]]]:
    """Return what was measured, by weights, in the order of TABLES."""
    found: dict[str, list[dict[str, Any]]] = {}
    for weights in ("fresh", "shared"):
        files = {table.title: RESULTS / f"{table.name}-{weights}.json" for table in TABLES}
        if known := [
            {**read_object(file), "title": title} for title, file in files.items() if file.exists()
        ]:
            found[weights] = known
    return found


def mean_ranks(tables: Results) -> dict[str, float]:
    """Return each row's mean rank by tau over the tables that have it, the best first.

    Rows that lack a table come after the others.
    """
    ranks: dict[str, list[float]] = {}
    for table in tables:
        known = {
            n: own["kendall"] for n, own in table["rows"].items() if own["kendall"] is not None
        }
        for name, rank in zip(known, rankdata([-tau for tau in known.values()]), strict=True):
            ranks.setdefault(name, []).append(float(rank))
    means = {name: fmean(own) for name, own in ranks.items()}
    return dict(sorted(means.items(), key=lambda row: (len(ranks[row[0]]) < len(tables), row[1])))


def heat_map(tables: Results, ranks: Mapping[str, float]) -> str:
    """Draw the taus: blue is above zero, red below."""
    left, top, wide, high = 150, 90, 62, 18
    width, height = left + wide * len(tables) + 40, top + high * len(ranks) + 6
    parts = [
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        'xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="11">',
        "<title>Kendall tau of each proxy and baseline on each table</title>",
        f"<style>{HEAT_MAP_STYLE}</style>",
        f'<rect class="page" width="{width}" height="{height}"/>',
    ]
    for i, table in enumerate(tables):
        x = left + wide * i + wide / 2
        title = html.escape(title_of(table))
        parts.append(
            f'<text class="name" x="{x:g}" y="{top - 6}" '
            f'transform="rotate(-40 {x:g} {top - 6})">{title}</text>'
        )
    for j, name in enumerate(ranks):
        y = top + high * j
        weight = "" if kind_of(tables, name) == "proxy" else ' font-weight="bold"'
        label = html.escape(name)
        parts.append(
            f'<text class="name" x="{left - 6}" y="{y + 13}" text-anchor="end"{weight}>{label}'
            "</text>"
        )
        for i, table in enumerate(tables):
            tau = table["rows"].get(name, {}).get("kendall")
            x = left + wide * i
            parts.append(
                f'<rect x="{x}" y="{y}" width="{wide - 1}" height="{high - 1}" '
                f'fill="{colour(tau)}"/><text x="{x + wide / 2:g}" y="{y + 13}" '
                f'text-anchor="middle">{figure(tau)}</text>'
            )
    return "\n".join([*parts, "</svg>\n"])


def colour(tau: float | None) -> str:
    """Return white for 0, and deeper colours for larger taus."""
    if tau is None:
        return "#eee"
    share = min(abs(tau), 1.0)
    strong = (70, 130, 200) if tau > 0 else (215, 90, 75)
    return "#" + "".join(f"{round(255 - (255 - own) * share):02x}" for own in strong)


def title_of(table: Mapping[str, Any]) -> str:
    """Return a table's title with the mark of its labels."""
    return f"{table['title']}{MARKS.get(table['labels'], '')}"


def kind_of(tables: Results, name: str) -> str:
    """Return whether a row is of a proxy, a size or a regression."""
    return next(str(own["rows"][name]["kind"]) for own in tables if name in own["rows"])


def ranking_table(tables: Results, ranks: Mapping[str, float]) -> Iterator[str]:
    """Yield the lines of the table of all rows."""
    headings = ["", "kind", "mean rank", *map(title_of, tables), "s per network"]
    yield markdown_line(headings)
    yield markdown_line(["---"] * len(headings))
    for name, rank in ranks.items():
        cells = []
        for table in tables:
            own = table["rows"].get(name)
            cells.append(
                f"{figure(own['kendall'])} {bounds(own['interval'])}<br>"
                f"partial {figure(own['partial_tau'])}"
                if own and own["kendall"] is not None
                else "-"
            )
        times = [own["rows"].get(name, {}).get("seconds") for own in tables]
        known = [own for own in times if own is not None]
        spent = f"{min(known):.2g} to {max(known):.2g}" if known else "-"
        kind = kind_of(tables, name)
        kind += f", {LABELS} labels" if kind == "regression" else ""
        yield markdown_line([f"`{name}`", kind, f"{rank:.1f}", *cells, spent])


def tables_table(tables: Results) -> Iterator[str]:
    """Yield the lines of the table of what was ranked."""
    headings = ("table", "benchmark", "space", "labels", "datasets", "networks", "seeds")
    yield markdown_line(headings)
    yield markdown_line(["---"] * len(headings))
    for own in tables:
        networks = f"{own['networks']} of {own['of']}" if own["networks"] < own["of"] else own["of"]
        datasets = ", ".join(own["datasets"])
        yield markdown_line(
            [
                *(title_of(own), own["benchmark"], f"`{own['space']}`", own["labels"], datasets),
                *(str(networks), seeds_of(own)),
            ]
        )


def seeds_of(table: Mapping[str, Any]) -> str:
    """Return with how many seeds the proxies of a table were ranked."""
    found = {own["seeds"] for own in table["rows"].values() if own["kind"] == "proxy"}
    return " or ".join(map(str, sorted(found)))


def left_out(tables: Results) -> Iterator[str]:
    """Yield a sentence for each table on which some networks have no score."""
    for own in tables:
        counts = {name: sum(reasons.values()) for name, reasons in own["left_out"].items()}
        listed = ", ".join(f"`{name}` {count}" for name, count in counts.items())
        if listed:
            yield f"Networks of {title_of(own)} without a score, which are left out: {listed}."


def page_files() -> dict[Path, str]:
    """Return the page and its heat maps."""
    files: dict[Path, str] = {}
    parts = [
        "<!-- Written by runs/scripts/leaderboard.py page: change it there. -->",
        "# Leaderboard",
        "How well the published proxies, the sizes of networks, and regressions on their choices "
        "rank the networks of each table. Rows without gaps come first, sorted by the mean rank "
        "over the tables. A tau is the mean over a table's datasets and seeds, with ties counted "
        "as unordered and a bootstrap 95 % interval over the networks. The partial tau controls "
        "for parameter count. Inputs are seeded noise.",
        f"In each column, `{BOTH}` is a version of the ready-made proxy that was fitted without "
        "the networks of that column; tables of similar spaces, such as other AutoFormers, remain "
        "in the fit. All other proxies are as published.",
        "Regressions predict the networks of each fold from the architectures' choices and the "
        f"true scores of {LABELS} networks of the other folds. Sizes and proxies use no true "
        "scores. The last column has the seconds that the proxy alone takes for the network of "
        "median size, with one thread, on the fastest and on the slowest table. Proxies that are "
        "measured together share passes, and take less time.",
    ]
    for weights, tables in results().items():
        ranks = mean_ranks(tables)
        drawing = PAGE.with_name(f"leaderboard-{weights}.svg")
        files[drawing] = heat_map(tables, ranks)
        notes = [f"{mark} {own}." for own, mark in MARKS.items() if own in _labels(tables)]
        parts += [
            f"## {'Fresh' if weights == 'fresh' else 'Shared'} weights",
            "Each network has its own initial weights."
            if weights == "fresh"
            else "All networks of a table are slices of one draw of initial weights.",
            f"![Kendall tau of each proxy and baseline on each table]({drawing.name})",
            "\n".join(ranking_table(tables, ranks)),
            *([" ".join(notes)] if notes else []),
            "\n".join(tables_table(tables)),
            *left_out(tables),
        ]
    parts.append(
        "Made by `python runs/scripts/leaderboard.py run` and `page`, from the files of "
        "`runs/leaderboard/`."
    )
    files[PAGE] = "\n\n".join(parts) + "\n"
    return files


def _labels(tables: Results) -> set[str]:
    return {str(own["labels"]) for own in tables}


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    modes = parser.add_subparsers(dest="mode", required=True)
    own = modes.add_parser("run")
    names = [table.name for table in TABLES]
    own.add_argument("--tables", type=lambda text: text.split(","), default=[], help=str(names))
    own.add_argument("--weights", choices=("fresh", "shared"), default="fresh")
    own.add_argument("--seeds", type=int, default=1)
    own.add_argument("--networks", type=int, default=MOST_NETWORKS)
    own.add_argument("--workers", type=int, default=1)
    modes.add_parser("adopt").add_argument("runs", nargs="+", type=Path)
    modes.add_parser("page")
    given = parser.parse_args()
    if given.mode == "page":
        PAGE.parent.mkdir(exist_ok=True)
        for path, content in page_files().items():
            write_text(path, content)
        return
    if given.mode == "adopt":
        adopt(given.runs)
        return
    run(given.tables, given.weights, given.seeds, given.networks, given.workers)


if __name__ == "__main__":
    main()
