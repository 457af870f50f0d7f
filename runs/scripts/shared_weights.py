"""Rank the whole zoo with fresh and with shared weights, and write what differs.

    python runs/scripts/shared_weights.py rank nano-bench autoformer-nano --networks 64 --seeds 3
    python runs/scripts/shared_weights.py compare FRESH SHARED
    python runs/scripts/shared_weights.py page

`rank` ranks with both kinds of weights in .rankings, so that a stopped call goes on, and compares.
`compare` takes two finished runs of `autoprox rank` instead, on the same networks, and the seeds
that both have. The result is runs/shared-weights/BENCHMARK-SPACE.json; `page` writes
docs/results/shared_weights.md from all of them. All figures are means over the datasets, on the
networks for which a proxy has a score with every seed and both kinds of weights:

- tau and partial tau (controlling for the number of parameters): mean and standard error over seeds
- seconds: processor time for each of a dozen networks, of all proxies together, at its fastest
- seed share: 1 less Spearman's correlation of the scores of two seeds, mean over pairs of seeds
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

import leaderboard
import numpy as np
from ranked_tables import finished_ranking, show_progress

from autoprox.commands.rank import RankLogLine, RankTask
from autoprox.configurations.commands import RankConfig
from autoprox.configurations.shared_options import FRESH, SHARED
from autoprox.evaluation.proxy_measurement import SIZE_PROXIES
from autoprox.files.atomic_writes import write_json, write_text
from autoprox.parallel.threads import single_torch_thread
from autoprox.runner import read_config
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
MARGIN = 0.05  # of two taus that count as different where there are few seeds

INTRODUCTION = """\
With `--weights fresh` each network draws its own initial weights; with `shared` the weights of all
networks are slices of one draw ([which to use](../compare.md#fresh-and-shared-weights)). This page
compares how well the published proxies rank networks with each. Kendall's tau (ties count as
unordered) and the partial tau (controlling for parameter count) are means over datasets and seeds,
± the standard error over the seeds. The seed share is 1 minus Spearman's correlation between the
scores of two seeds. A difference between two taus counts as better or worse if it exceeds two
standard errors.

`python runs/scripts/shared_weights.py rank BENCHMARK SPACE --networks N` measures a table, and
`page` writes this page."""


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    modes = parser.add_subparsers(dest="mode", required=True)
    own = modes.add_parser("rank")
    own.add_argument("benchmark")
    own.add_argument("space")
    own.add_argument("--networks", type=int, help="a random sample of the table; default: all")
    own.add_argument("--seeds", type=int, default=3)
    own.add_argument("--workers", type=int, default=1)
    runs = modes.add_parser("compare")
    for kind in KINDS:
        runs.add_argument(kind, type=Path)
    modes.add_parser("page")
    given = parser.parse_args()
    if given.mode == "page":
        PAGE.parent.mkdir(exist_ok=True)
        write_text(PAGE, page())
        return
    found = compared_runs(rank(given) if given.mode == "rank" else (given.fresh, given.shared))
    write_json(RESULTS / f"{found['benchmark']}-{found['space']}.json", found)
    print("\n".join(table_lines(found)))


def rank(given: argparse.Namespace) -> list[Path]:
    """Rank with each kind of weights, and return the runs."""
    runs = []
    for kind in KINDS:
        options = {
            **{name: getattr(given, name) for name in ("benchmark", "space", "networks", "seeds")},
            **{"device": "cpu", "proxies": ("all",), "weights": kind},
        }
        name = f"shared-weights-{given.benchmark}-{given.space}-{kind}"
        runs.append(Path(finished_ranking(name, options, given.workers, show_progress).run))
    return runs


def rank_config(run: Path) -> RankConfig:
    """Return the configuration of a finished ranking."""
    config = read_config(Run.open(run, "rank"))
    assert isinstance(config, RankConfig)
    return config


def compared_runs(runs: Sequence[Path]) -> dict[str, Any]:
    """Compare rankings of the same networks, one with each kind of weights."""
    tasks = [RankTask(rank_config(run)) for run in runs]
    for task, kind in zip(tasks, KINDS, strict=True):
        if task.config.weights != kind:
            raise SystemExit(f"weights must be {kind}, but are {task.config.weights}")
    task, other = tasks
    if task.benchmark.architectures != other.benchmark.architectures:
        raise SystemExit("both runs must be of the same networks")
    seeds = min(own.config.seeds for own in tasks)
    proxies = [
        name
        for name in task.config.proxies
        if name not in SIZE_PROXIES and name in other.config.proxies
    ]
    datasets = list(task.benchmark.datasets)
    logs = [Run.open(run).read_log_as(RankLogLine) for run in runs]
    ranked = list(zip(tasks, logs, strict=True))

    def scores(proxy: str) -> Floats:
        return np.stack(
            [
                np.stack([own.scores(log, proxy, d)[:seeds] for d in datasets], axis=1)
                for own, log in ranked
            ]
        )

    return {
        "benchmark": task.benchmark.name,
        "space": task.space.name,
        "label": task.benchmark.label,
        "datasets": datasets,
        "networks": len(task.benchmark.architectures),
        "seeds": seeds,
        "seconds_per_network": processor_seconds(task),
        "rows": [{"proxy": own, **compared(task, scores(own))} for own in proxies],
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
    return f"With shared weights, {better} of {known} proxies ranked better and {worse} worse."


def page() -> str:
    """Return the page of all tables that were measured."""
    lines = [
        "<!-- Written by runs/scripts/shared_weights.py page: change it there. -->",
        "",
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
    return "\n".join([*lines, *leaderboard_lines()]) + "\n"


def leaderboard_lines() -> Iterator[str]:
    """Yield the section on the tables that the leaderboard has with both kinds of weights."""
    yield from (
        "",
        "## All tables",
        "",
        "The [leaderboard](leaderboard.md) has the taus of all proxies on the tables that were "
        "ranked with both kinds of weights. Means are over the proxies; larger and smaller count "
        f"the proxies whose taus differ by more than {MARGIN:g}.",
        "",
        "| table | networks | seeds, fresh | seeds, shared | mean tau, fresh | mean tau, shared "
        "| larger with shared | smaller with shared |",
        "|---|---|---|---|---|---|---|---|",
    )
    by_weights = leaderboard.results()
    fresh = {own["title"]: own for own in by_weights[FRESH]}
    for shared in by_weights[SHARED]:
        other = fresh.get(shared["title"])
        if not other or other["networks"] != shared["networks"]:
            continue
        taus = [
            (other["rows"][name]["kendall"], own["kendall"])
            for name, own in shared["rows"].items()
            if own["kind"] == "proxy" and name in other["rows"]
        ]
        known = [(one, two) for one, two in taus if one is not None and two is not None]
        gains = [two - one for one, two in known]
        cells = [
            shared["title"],
            str(shared["networks"]),
            *map(leaderboard.seeds_of, (other, shared)),
            *(f"{fmean(own):.3f}" for own in zip(*known, strict=True)),
            *(str(sum(own > MARGIN for own in gains)), str(sum(-own > MARGIN for own in gains))),
        ]
        yield f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
