"""Simulates what `autoprox suggest` would have had trained, on tables of trained networks.

    python runs/scripts/suggestions.py measure [--tables A,B] [--proxy PROXY ...]
    python runs/scripts/suggestions.py run [--tables A,B] [--methods M,N] [--draws 20]
    python runs/scripts/suggestions.py page

`measure` measures proxies on each installed table: runs/measured/suggestions/TABLE.json. `run` then
has each method choose one network of the table after the other, and knows its true score from then
on. It goes on where it was stopped, and keeps what was simulated with as many draws and the same
code of the method. `page` writes docs/results/suggest.md from runs/measured/suggestions.json.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from leaderboard import MARKS, TABLES
from ranked_tables import Table, installed_tables
from scipy.stats import t as student

from autoprox.benchmarks import Benchmark
from autoprox.configurations.commands import SUGGESTING_PROXIES
from autoprox.evaluation.proxy_measurement import MeasuredProxies, NetworkValues
from autoprox.files.atomic_writes import write_json, write_text
from autoprox.files.json_documents import read_object
from autoprox.inputs.batch_loading import load_batches
from autoprox.parallel.threads import single_torch_thread
from autoprox.parallel.worker_pool import WorkerPool
from autoprox.report.terminal.layout import markdown_line
from autoprox.scoring.baselines import regression_features
from autoprox.scoring.bootstrap import finite_or_none
from autoprox.scoring.correlations import Floats, normal_scores
from autoprox.scoring.expected_improvement import (
    Acquisition,
    ScoreProcess,
    expected_improvement,
    next_networks,
)
from autoprox.searchspaces import Architecture, SearchSpace, get_space
from autoprox.searchspaces.space import choice_values
from autoprox.statistics.collector import MeasurementSetting
from autoprox.statistics.untrained_networks import untrained_space_networks

ROOT = Path(__file__).parents[2]
SCORES = ROOT / "runs" / "measured" / "suggestions"
RESULTS = SCORES.with_suffix(".json")
PAGE = ROOT / "docs" / "results" / "suggest.md"
PROXIES = ("autoprox-p", "dss++", "sept", "meco")  # measured
BUDGETS = (5, 10, 20, 40)
LIMITS = {"the smallest third": 1 / 3, "the smaller two thirds": 2 / 3, "any size": 1.0}
NETWORKS = 200  # drawn from a table that has more
SHARE = 0.8  # of the networks within a limit, which are in a draw
NEAR = 0.01  # of the range of the scores
OURS, TPE = "suggest", "TPE"


class Pool(NamedTuple):
    """The networks that a method chooses from; it may only look at labels of those it chose."""

    space: SearchSpace
    architectures: Sequence[Architecture]
    features: Floats
    proxies: Mapping[str, Floats]
    params: Floats
    truth: Floats
    seed: int

    @property
    def steps(self) -> int:
        """How many are trained."""
        return min(max(BUDGETS), len(self.truth))


Choices = dict[str, tuple[float, int]]  # the index of an option, and that of the last
Method = Callable[[Pool], Sequence[int]]


def at_random(pool: Pool) -> list[int]:
    """Choose at random."""
    order: list[int] = np.random.default_rng(pool.seed).permutation(len(pool.truth)).tolist()
    return order[: pool.steps]


def by_size(pool: Pool) -> list[int]:
    """Choose the largest first."""
    found: list[int] = np.argsort(-pool.params, kind="stable")[: pool.steps].tolist()
    return found


def by_proxies(pool: Pool, names: Sequence[str] = SUGGESTING_PROXIES) -> list[int]:
    """Choose by the proxies' mean normal score, without the labels."""
    scores = ScoreProcess(pool.features, [pool.proxies[n] for n in names], weight=1.0).prior_mean
    found: list[int] = np.argsort(-scores, kind="stable")[: pool.steps].tolist()
    return found


def by_process(
    pool: Pool,
    names: Sequence[str] = SUGGESTING_PROXIES,
    acquisition: Acquisition = expected_improvement,
    batch: int = 1,
    ranks: bool = True,
    **options: Any,
) -> list[int]:
    """Choose as `suggest` does; without proxies, the first is drawn at random."""
    process = ScoreProcess(pool.features, [pool.proxies[n] for n in names], **options)
    known: list[int] = []
    if not names:
        known.append(int(np.random.default_rng(pool.seed).integers(len(pool.truth))))
    while len(known) < pool.steps:
        truth = pool.truth[known]
        labels = normal_scores(truth)
        if not ranks and np.ptp(truth) if len(truth) else False:
            labels = (truth - truth.mean()) / truth.std()
        left = [index for index in range(len(pool.truth)) if index not in set(known)]
        count = min(batch, pool.steps - len(known))
        known += next_networks(process, known, labels, left, count, acquisition)
    return known


def by_tpe(pool: Pool, on_features: bool = False, **options: Any) -> list[int]:
    """Choose by Optuna's TPE on the choices: the network that is nearest to what it asks for.

    A choice is the index of its option. TPE is told the choices of the network that was trained,
    not those that it asked for. Instead of choices it can be asked for the features of the process.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    floats, integers = (
        optuna.distributions.FloatDistribution,
        optuna.distributions.IntDistribution,
    )
    if on_features:
        points = feature_points(pool.features)
    else:
        points = [choice_indices(pool.space, own) for own in pool.architectures]
    sampler = optuna.samplers.TPESampler(seed=pool.seed, **options)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    known: list[int] = []
    while len(known) < pool.steps:
        trial = study.ask()
        if on_features:
            asked = {name: (trial.suggest_float(name, 0, 1), 1) for name in points[0]}
        else:
            asked = ask_choices(pool.space, trial)
        study.tell(trial, state=optuna.trial.TrialState.FAIL)
        left = [index for index in range(len(points)) if index not in set(known)]
        chosen = min(left, key=lambda index: distance(points[index], asked))
        known.append(chosen)
        kind = floats if on_features else integers
        told = optuna.trial.create_trial(
            params={name: value for name, (value, _) in points[chosen].items()},
            distributions={name: kind(0, most) for name, (_, most) in points[chosen].items()},
            value=float(pool.truth[chosen]),
        )
        study.add_trial(told)
    return known


def feature_points(features: Floats) -> list[Choices]:
    """Return the features that differ, each from 0 to 1."""
    low, width = features.min(axis=0), np.ptp(features, axis=0)
    kept = np.flatnonzero(width)
    scaled = (features[:, kept] - low[kept]) / width[kept]
    return [{str(n): (float(v), 1) for n, v in zip(kept, row, strict=True)} for row in scaled]


def choice_indices(space: SearchSpace, architecture: Architecture) -> Choices:
    """Return the index of each choice's option, and of its last option."""
    found: Choices = {}
    chosen = dict(architecture.choices)
    for name, field in space.fields.items():
        for i, (options, value) in enumerate(
            zip(field.positions(chosen), choice_values(chosen[name]), strict=True)
        ):
            if len(options) > 1:
                found[f"{name}.{i}"] = list(options).index(value), len(options) - 1
    return found


def ask_choices(space: SearchSpace, trial: Any) -> Choices:
    """Return the choices that a trial asks for, those of a layer only if it has the layer."""
    found: Choices = {}
    chosen: dict[str, Any] = {}
    for name, field in space.fields.items():
        values = []
        for i, options in enumerate(field.positions(chosen)):
            index = 0
            if len(options) > 1:
                most = len(options) - 1
                index = trial.suggest_int(f"{name}.{i}", 0, most)
                found[f"{name}.{i}"] = index, most
            values.append(options[index])
        chosen[name] = field.value(values)
    return found


def distance(one: Choices, other: Choices) -> float:
    """Return the mean difference of the choices; 1 for a choice that only one of them has."""
    differences = [
        abs(one[name][0] - other[name][0]) / max(one[name][1], other[name][1])
        if name in one and name in other
        else 1.0
        for name in {*one, *other}
    ]
    return fmean(differences)


def upper_bound(mean: Floats, deviation: Floats, best: float) -> Floats:
    """Return the upper confidence bound of one deviation."""
    return mean + deviation


METHODS: Mapping[str, Method] = {
    OURS: by_process,
    "random": at_random,
    "largest first": by_size,
    "proxies alone": by_proxies,
    "GP without proxies": partial(by_process, names=()),
    TPE: by_tpe,
    "TPE, multivariate": partial(by_tpe, multivariate=True, group=True),
    "TPE, 5 at random first": partial(by_tpe, n_startup_trials=5),
    "TPE on the GP's features": partial(by_tpe, on_features=True),
    "suggest, without `params`": partial(by_process, names=SUGGESTING_PROXIES[:-1]),
    "suggest, `autoprox-p` alone": partial(by_process, names=("autoprox-p",)),
    "suggest, with `meco`": partial(by_process, names=(*SUGGESTING_PROXIES, "meco")),
    "suggest, prior weight 0.25": partial(by_process, weight=0.25),
    "suggest, prior weight 0.8": partial(by_process, weight=0.8),
    "suggest, upper bound": partial(by_process, acquisition=upper_bound),
    "suggest, scores instead of ranks": partial(by_process, ranks=False),
    "suggest, without the linear kernel": partial(by_process, linear_shares=(0.0,)),
    "suggest, less noise": partial(by_process, noises=(0.03, 0.1, 0.3)),
    "suggest, 4 at once": partial(by_process, batch=4),
}
FEWER = 6  # draws of the variants


def loaded(table: Table) -> Benchmark:
    """Load a table, or some of its networks."""
    return table.load(min(NETWORKS, len(table.load().architectures)))


def pools(table: Table, draws: int) -> Iterator[tuple[str, Pool]]:
    """Yield every draw of the networks within each limit, with the scores of each dataset."""
    benchmark = loaded(table)
    space, architectures = get_space(benchmark.space), benchmark.architectures
    features = regression_features("gaussian-process", space, architectures)
    proxies = {}
    for name, values in read_object(SCORES / f"{table.name}.json").items():
        own = np.array(values, dtype=np.float64)
        proxies[name] = np.where(np.isnan(own), np.nanmedian(own), own)
    params = np.array([space.params(own) for own in architectures], dtype=np.float64)
    proxies["params"] = params
    for seed in range(draws):
        for limit, quantile in LIMITS.items():
            within = np.flatnonzero(params <= np.quantile(params, quantile))
            order = np.random.default_rng(seed).permutation(within)
            rows = np.sort(order[: round(SHARE * len(within))])
            for truth in benchmark.scores.values():
                yield (
                    limit,
                    Pool(
                        space,
                        [architectures[row] for row in rows],
                        features[rows],
                        {name: own[rows] for name, own in proxies.items()},
                        params[rows],
                        truth[rows],
                        seed,
                    ),
                )


def regrets(chosen: Sequence[int], truth: Floats) -> Floats:
    """Return the regret after each training, as a share of the range of the scores."""
    best = np.maximum.accumulate(truth[list(chosen)])
    return np.asarray((truth.max() - best) / np.ptp(truth))


def trainings_needed(found: Floats) -> int:
    """Return the trainings until the regret is at most NEAR; one more than there were if never."""
    near = np.flatnonzero(found <= NEAR)
    return int(near[0]) + 1 if len(near) else len(found) + 1


def simulated(method: Method, table: Table, draws: int) -> dict[str, Any]:
    """Return means over draws and datasets for each limit."""
    traces: dict[str, list[Floats]] = {limit: [] for limit in LIMITS}
    started = time.monotonic()
    for limit, pool in pools(table, draws):
        traces[limit].append(regrets(method(pool), pool.truth))
    return {
        "draws": draws,
        "seconds": round(time.monotonic() - started, 1),
        "limits": {
            limit: {
                "trainings": fmean(trainings_needed(own) for own in found),
                "regret": [
                    fmean(float(own[min(budget, len(own)) - 1]) for own in found)
                    for budget in BUDGETS
                ],
            }
            for limit, found in traces.items()
        },
    }


def run(tables: Sequence[Table], methods: Sequence[str], draws: int) -> None:
    """Simulate what isn't in the results."""
    results: dict[str, Any] = read_object(RESULTS) if RESULTS.exists() else {}
    for method in methods:
        for table in tables:
            wanted = min(draws, FEWER) if "," in method or " on " in method else draws
            known = results.setdefault(table.name, {})
            if known.get(method, {"draws": 0})["draws"] < wanted:
                known[method] = simulated(METHODS[method], table, wanted)
                write_json(RESULTS, results)
                means = [own["trainings"] for own in known[method]["limits"].values()]
                spent = known[method]["seconds"]
                print(f"{table.name}, {method}: {fmean(means):.1f}, {spent} s", flush=True)


def measure(table: Table, proxies: Sequence[str], workers: int) -> None:
    """Measure the proxies of a table's networks that weren't measured yet."""
    path = SCORES / f"{table.name}.json"
    found: dict[str, Any] = read_object(path) if path.exists() else {}
    todo = [name for name in proxies if name not in found]
    if todo:
        found |= proxy_scores(loaded(table), todo, workers)
        SCORES.mkdir(parents=True, exist_ok=True)
        write_json(path, found)


def proxy_scores(benchmark: Benchmark, names: Sequence[str], workers: int) -> dict[str, Any]:
    """Return the scores of each proxy on all networks, with a head for the first dataset."""
    space, dataset = get_space(benchmark.space), benchmark.datasets[0]
    proxies = MeasuredProxies(names)
    batches = load_batches(space, {dataset: benchmark.classes[dataset]}, batch_size=4, seed=0)
    networks = untrained_space_networks(space, benchmark.architectures, 0)
    found: list[NetworkValues] = []
    with single_torch_thread(), WorkerPool(workers) as pool:
        proxies.measured(networks, MeasurementSetting(batches), 0, pool, found.append)
    values = [own.values.get(dataset, {}) for own in found]
    return {
        name: [finite_or_none(float(score)) for score in proxies.scores(name, values)]
        for name in names
    }


def page() -> str:
    """Return the page of what was simulated."""
    results = read_object(RESULTS)
    tables = [table for table in TABLES if table.name in results]
    methods = [name for name in METHODS if all(name in results[t.name] for t in tables)]
    needed = {name: overall(results, tables, name) for name in methods}
    ours, tpe = needed[OURS], needed[TPE]
    won = [
        t.title for t in tables if table_mean(results, t, OURS) <= table_mean(results, t, TPE) / 2
    ]
    rival = min(own for name, own in needed.items() if name.startswith(TPE))
    reached = "reached" if ours <= tpe / 2 else "not reached"
    parts = [
        "<!-- Written by runs/scripts/suggestions.py page: change it there. -->",
        "# Which to train next",
        f"On average over {len(tables)} tables, three size limits and "
        f"{results[tables[0].name][OURS]['draws']} draws, `autoprox suggest` has to train "
        f"{ours:.1f} networks to come within 1 % of the best; Optuna's TPE has to train {tpe:.1f}, "
        f"{tpe / ours:.2f} times as many. The goal, at most half as many as TPE, was {reached} on "
        f"average. It was reached on {len(won)} of {len(tables)} tables"
        f"{': ' if won else ''}{', '.join(won)}. The best variant of TPE has to train "
        f"{rival:.1f}. Training networks in the order in which the proxies rank them, without "
        f"using any label, takes {needed['proxies alone']:.1f}.",
        "Each method chooses networks of a table one after the other, and sees the true score of "
        "each after choosing it. The regret is the best score of all networks minus the best so "
        "far, in percent of the range of the scores; *within 1 %* means a regret of at most 1 %. "
        f"A method that doesn't get there with {max(BUDGETS)} networks, or with all of them if "
        "there are fewer, counts as if it had needed one more. The size limits keep the smallest "
        "third of a table by parameter count, the smaller two thirds, or everything. Each draw "
        f"takes {100 * SHARE:.0f} % of the networks within the limit, the same ones for every "
        "method; its number is the random seed. Each dataset of a table is simulated separately. "
        f"Of a table with more than {NETWORKS} networks, {NETWORKS} are drawn. "
        "TPE proposes the index of each option, gets the nearest network that isn't trained yet, "
        "and then sees the choices of that network. Its first 10 networks are random unless a row "
        "says otherwise. The column *minus `suggest`* is the mean difference over the "
        f"{len(tables) * len(LIMITS)} combinations of a table and a limit, with Student's 95 % "
        "interval; the limits of one table are correlated, so the intervals are somewhat too "
        "narrow.",
        "## Networks trained to come within 1 % of the best",
        "\n".join(needed_table(results, tables, needed)),
        "## Regret in percent",
        "After 5 to 40 trained networks; means over the tables and limits.",
        "\n".join(regret_table(results, tables, methods)),
        "## By limit",
        "Networks trained to come within 1 % of the best.",
        "\n".join(limit_table(results, tables)),
        f"`suggest` uses {', '.join(f'`{name}`' for name in SUGGESTING_PROXIES)}. The rows named "
        "after `suggest` or TPE are variants that were tried on some draws of the same tables, "
        "so the best one here need not be the best elsewhere. The proxy `params` and the "
        "amount of noise were chosen in this way, after 6 draws without them.",
        "Made by `python runs/scripts/suggestions.py measure`, `run` and `page`.",
    ]
    return "\n\n".join(parts) + "\n"


Results = Mapping[str, Any]


def table_mean(results: Results, table: Table, method: str) -> float:
    """Return the trainings that a method needs, the mean of a table's limits."""
    return fmean(own["trainings"] for own in results[table.name][method]["limits"].values())


def overall(results: Results, tables: Sequence[Table], method: str) -> float:
    """Return the trainings that a method needs, the mean of all tables and limits."""
    return fmean(table_mean(results, table, method) for table in tables)


def needed_table(
    results: Results, tables: Sequence[Table], needed: Mapping[str, float]
) -> Iterator[str]:
    """Yield a line for each method, the quickest first."""
    titles = [f"{table.title}{MARKS.get(table.labels, '')}" for table in tables]
    yield markdown_line(["method", "draws", "mean", "minus `suggest`", *titles])
    yield markdown_line(["---"] * (4 + len(tables)))
    for name in sorted(needed, key=lambda own: needed[own]):
        cells = [f"{table_mean(results, table, name):.1f}" for table in tables]
        draws = min(results[table.name][name]["draws"] for table in tables)
        behind = "-" if name == OURS else difference(results, tables, name)
        yield markdown_line([name, str(draws), f"{needed[name]:.1f}", behind, *cells])


def difference(results: Results, tables: Sequence[Table], method: str) -> str:
    """Return how many more trainings a method needs than ours, with an interval and a verdict."""
    found, ours = (
        np.array([results[t.name][own]["limits"][n]["trainings"] for t in tables for n in LIMITS])
        for own in (method, OURS)
    )
    gaps = found - ours
    half = student.ppf(0.975, len(gaps) - 1) * gaps.std(ddof=1) / np.sqrt(len(gaps))
    low, high = gaps.mean() - half, gaps.mean() + half
    judged = "more" if low > 0 else "fewer" if high < 0 else "n.s."
    return f"{gaps.mean():+.1f} [{low:.1f}, {high:.1f}] {judged}"


def regret_table(
    results: Results, tables: Sequence[Table], methods: Sequence[str]
) -> Iterator[str]:
    """Yield a line for each method."""
    yield markdown_line(["method", *(f"after {budget}" for budget in BUDGETS)])
    yield markdown_line(["---"] * (1 + len(BUDGETS)))
    for name in methods:
        found = [own for t in tables for own in results[t.name][name]["limits"].values()]
        means = [fmean(own["regret"][i] for own in found) for i in range(len(BUDGETS))]
        yield markdown_line([name, *(f"{100 * own:.2f}" for own in means)])


def limit_table(results: Results, tables: Sequence[Table]) -> Iterator[str]:
    """Yield a line for each table and limit, with what the baselines need."""
    names = [OURS, TPE, "GP without proxies", "largest first", "random"]
    yield markdown_line(["table", "limit", *names])
    yield markdown_line(["---"] * (2 + len(names)))
    for table in tables:
        for limit in LIMITS:
            own = (results[table.name][name]["limits"][limit]["trainings"] for name in names)
            yield markdown_line([table.title, limit, *(f"{value:.1f}" for value in own)])


def main() -> None:
    """Measure, simulate, or write the page."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    modes = parser.add_subparsers(dest="mode", required=True)
    for mode in ("measure", "run"):
        own = modes.add_parser(mode)
        own.add_argument("--tables", type=lambda text: text.split(","), default=[])
    own.add_argument("--methods", type=lambda text: text.split("/"), default=list(METHODS))
    own.add_argument("--draws", type=int, default=20)
    measuring = modes.choices["measure"]
    measuring.add_argument("--proxy", action="append", default=[])
    measuring.add_argument("--workers", type=int, default=1)
    modes.add_parser("page")
    given = parser.parse_args()
    if given.mode == "page":
        write_text(PAGE, page())
        return
    tables = list(installed_tables(TABLES, given.tables))
    if given.mode == "measure":
        for table in tables:
            measure(table, given.proxy or PROXIES, given.workers)
            print(f"{table.name}: measured", flush=True)
    else:
        known = [table for table in tables if (SCORES / f"{table.name}.json").exists()]
        run(known, given.methods, given.draws)


if __name__ == "__main__":
    main()
