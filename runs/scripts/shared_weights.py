"""Rank the whole zoo with fresh and with shared weights, and write what differs.

    python runs/scripts/shared_weights.py nano-bench autoformer-nano --networks 64 --seeds 3
    python runs/scripts/shared_weights.py --page

Each table, seed and kind of weights is a ranking in .rankings, so that a stopped call goes on. The
result is runs/shared-weights/BENCHMARK-SPACE.json; --page writes
docs/results/shared_weights.md from all of them. All figures are means over the datasets, on the
networks for which a proxy has a score with every seed and both kinds of weights:

- tau and partial tau (controlling for the number of parameters): mean and standard error over seeds
- seconds: processor time for each of a dozen networks, of all proxies together, at its fastest
- seed share: 1 less Spearman's correlation of the scores of two seeds, mean over pairs of seeds
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

import numpy as np
from ranked_tables import finished_ranking, show_progress

from autoprox.commands.rank import RankLogLine, RankTask
from autoprox.configurations.commands import RankConfig
from autoprox.configurations.shared_options import FRESH, SHARED
from autoprox.evaluation.proxy_measurement import SIZE_PROXIES
from autoprox.files.atomic_writes import write_json, write_text
from autoprox.parallel.threads import single_torch_thread
from autoprox.runs.folder import Run
from autoprox.scoring.bootstrap import finite_or_none
from autoprox.scoring.correlations import TIES, Floats, spearman
from autoprox.scoring.fitness_correlations import partial_kendall
from autoprox.statistics.untrained_networks import SpaceNetwork

ROOT = Path(__file__).resolve().parents[2]
RESULTS, PAGE = ROOT / "runs" / "shared-weights", ROOT / "docs" / "results" / "shared_weights.md"
KINDS = (FRESH, SHARED)
LEAST = 10  # networks for a correlation
TIMED = 12  # networks
REPEATS = 2
TAU = TIES["unordered"]

INTRODUCTION = """\
With `--weights fresh` each network draws its own initial weights; with `shared` the weights of all
networks are slices of one draw ([which to use](../compare.md#fresh-and-shared-weights)). This page
compares how the published proxies rank networks with both. Kendall's tau (ties count as unordered)
and the partial tau (controlling for parameter count) are means over datasets and seeds, ± the
standard error over the seeds. The seed share is 1 minus Spearman's correlation between the scores
of two seeds. A difference between two taus counts as better or worse if it exceeds two standard
errors.

`python runs/scripts/shared_weights.py BENCHMARK SPACE --networks N` measures a table, and `--page`
writes this page."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("benchmark", nargs="?")
    parser.add_argument("space", nargs="?")
    parser.add_argument("--networks", type=int, help="a random sample of the table; default: all")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--proxies", default="all")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--page", action="store_true", help="write the page of all tables")
    given = parser.parse_args()
    if given.space:
        found = measure(given)
        write_json(RESULTS / f"{given.benchmark}-{given.space}.json", found)
        print("\n".join(table_lines(found)))
    elif not given.page:
        parser.error("a benchmark and a space are needed, or --page")
    if given.page:
        PAGE.parent.mkdir(exist_ok=True)
        write_text(PAGE, page())


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """Measure what is lacking, and compare."""
    seeds = range(given.seeds)
    options = {"benchmark": given.benchmark, "space": given.space, "device": "cpu"}
    options |= {"proxies": tuple(given.proxies.split(",")), "networks": given.networks}
    task = RankTask(RankConfig(**options))
    proxies = [name for name in task.config.proxies if name not in SIZE_PROXIES]
    datasets = list(task.benchmark.datasets)
    scores: dict[tuple[str, int], Floats] = {}
    for seed in seeds:
        for kind in KINDS:
            name = f"shared-weights-{given.benchmark}-{given.space}-{kind}-{seed}"
            own = {**options, "weights": kind, "seed": seed}
            summary = finished_ranking(name, own, given.workers, show_progress)
            lines = Run.open(Path(summary.run)).read_log_as(RankLogLine)
            ranked = RankTask(RankConfig(**own))
            scores[kind, seed] = np.array(
                [[ranked.scores(lines, own, d)[0] for d in datasets] for own in proxies]
            )
    every = np.array([[scores[kind, seed] for seed in seeds] for kind in KINDS])
    return {
        "benchmark": given.benchmark,
        "space": given.space,
        "label": task.benchmark.label,
        "datasets": datasets,
        "networks": len(task.benchmark.architectures),
        "seeds": given.seeds,
        "seconds_per_network": processor_seconds(task),
        "rows": [
            {"proxy": proxy, **compared(task, every[:, :, index])}
            for index, proxy in enumerate(proxies)
        ],
    }


def processor_seconds(task: RankTask) -> dict[str, float]:
    """Measure some networks with both kinds of weights in turn, each at its fastest."""
    every = task.benchmark.architectures
    setting, some = task.setting(0), every[:: max(len(every) // TIMED, 1)][:TIMED]
    fastest: dict[str, list[float]] = {kind: [] for kind in KINDS}
    with single_torch_thread():
        for architecture in some:
            seconds: dict[str, list[float]] = {kind: [] for kind in KINDS}
            for kind in (*KINDS, *reversed(KINDS)) * REPEATS:
                network = SpaceNetwork(task.space, architecture, 0, shared=kind == SHARED)
                started = process_time()
                task.proxies.of_network(setting, 0, network)
                seconds[kind].append(process_time() - started)
            for kind, own in seconds.items():
                fastest[kind].append(min(own))
    return {kind: fmean(own) for kind, own in fastest.items()}


def compared(task: RankTask, scores: Floats) -> dict[str, Any]:
    """Compare the scores [kinds, seeds, datasets, networks] of a proxy, nan for none."""
    benchmark = task.benchmark
    valid = np.isfinite(scores).all(axis=(0, 1, 2))
    if valid.sum() < LEAST:
        return {"networks": int(valid.sum()), "fresh": None, "shared": None}
    found: dict[str, Any] = {"networks": int(valid.sum())}
    for kind, known in zip(KINDS, scores[..., valid], strict=True):
        taus, partials, shares = [], [], []
        for index, dataset in enumerate(benchmark.datasets):
            truth, values = benchmark.scores[dataset][valid], known[:, index]
            classes = benchmark.classes[dataset]
            sizes = np.array([task.space.params(a, classes) for a in benchmark.architectures])[
                valid
            ]
            taus.append(TAU(values, truth))
            partials.append(partial_kendall(taus[-1], TAU(values, sizes), TAU(sizes, truth)))
            shares += [1 - spearman(one, other) for one, other in combinations(values, 2)]
        found[kind] = {
            **mean_and_error("tau", taus),
            **mean_and_error("partial_tau", partials),
            "seed_share": finite_or_none(np.mean(shares)) if shares else None,
        }
    return found


def mean_and_error(name: str, values: Sequence[Floats]) -> dict[str, float | None]:
    """Return the mean over datasets and seeds, and its standard error over the seeds."""
    by_seed = np.mean(values, axis=0)
    error = by_seed.std(ddof=1) / len(by_seed) ** 0.5 if len(by_seed) > 1 else np.nan
    return {name: finite_or_none(by_seed.mean()), f"{name}_error": finite_or_none(error)}


def table_lines(found: Mapping[str, Any]) -> list[str]:
    """Return a Markdown table of the proxies, the best with fresh weights first."""
    rows = [row for row in found["rows"] if row["fresh"] and row["fresh"]["tau"] is not None]
    rows = [row for row in rows if row["shared"]["tau"] is not None]
    lines = [
        "| proxy | tau, fresh | tau, shared | partial tau, fresh | partial tau, shared "
        "| seed share, fresh | seed share, shared |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in sorted(rows, key=lambda row: -row["fresh"]["tau"]):
        cells = [
            *(with_error(row[kind], "tau") for kind in KINDS),
            *(with_error(row[kind], "partial_tau") for kind in KINDS),
            *(number(row[kind]["seed_share"]) for kind in KINDS),
        ]
        lines.append(f"| `{row['proxy']}` | {' | '.join(cells)} |")
    return lines


def with_error(figures: Mapping[str, float | None], name: str) -> str:
    return f"{number(figures[name])} ± {number(figures[f'{name}_error'])}"


def number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def verdict(found: Mapping[str, Any]) -> str:
    """Count the proxies that rank better or worse by more than two standard errors."""
    better, worse, known = 0, 0, 0
    for row in found["rows"]:
        taus = [row[kind] and row[kind]["tau"] for kind in KINDS]
        errors = [row[kind] and row[kind]["tau_error"] for kind in KINDS]
        if None in (*taus, *errors):
            continue
        gain, limit = taus[1] - taus[0], 2 * float(np.hypot(*errors))
        known, better, worse = known + 1, better + (gain > limit), worse + (gain < -limit)
    return f"With shared weights, of {known} proxies {better} ranked better and {worse} worse."


def page() -> str:
    """Return the page of all tables that were measured."""
    lines = [
        "# Fresh and shared weights",
        "",
        INTRODUCTION,
    ]
    for path in sorted(RESULTS.glob("*.json")):
        found = json.loads(path.read_text())
        seconds = found["seconds_per_network"]
        lines += [
            "",
            f"## {found['benchmark']}, {found['space']}",
            "",
            f"{found['networks']} networks, {found['seeds']} seeds; datasets: "
            f"{', '.join(found['datasets'])}. "
            f"CPU time for each network: {seconds['fresh']:.3f} s fresh, "
            f"{seconds['shared']:.3f} s shared. "
            f"{verdict(found)}",
            "",
            *table_lines(found),
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
