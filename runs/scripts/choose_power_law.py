"""Choose the defaults of power laws by nested cross-validation on training parts alone.

    python runs/scripts/choose_power_law.py run --tables autoformer-nano,pit-nano,gpt2-nano
    python runs/scripts/choose_power_law.py run --tables autoformer-ti,pit --splits 5
    python runs/scripts/choose_power_law.py page [--tables A,B]

Random terms are scored once on all networks of a table, with two seeds; of large tables, on some
networks. The training part of each split is divided repeatedly: 70 % of it select terms and fit
exponents, the others give the tau. No label of a test part is read. `run` keeps the means in
runs/measured/power-law-TABLE.json; `page` prints the tables of docs/results/selection.md.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from leaderboard import TABLES
from ranked_tables import Table, installed_tables
from scipy.stats import rankdata

from autoprox.commands.evolve import EvolveTask
from autoprox.configurations.commands import EvolveConfig
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.evaluation.power_law_evaluator import RESEEDED_NETWORKS
from autoprox.evolution import power_law
from autoprox.evolution.power_law import LabelledNetworks, PowerLawFit, usable
from autoprox.evolution.term_archive import TermArchive
from autoprox.files.atomic_writes import write_json
from autoprox.files.json_documents import read_object
from autoprox.language import Tree
from autoprox.scoring.bootstrap import split_networks
from autoprox.scoring.correlations import Floats, Indices, normal_scores

ROOT = Path(__file__).parents[2]
MEASURED = ROOT / "runs" / "measured"
CHOOSING = ("autoformer-nano", "pit-nano", "gpt2-nano")
DIVISIONS, INNER = 5, 0.7  # of a training part, and the share that selects and fits
DRAWN = {7: 3000, 5: 1500, 10: 1500}  # random terms by their most nodes
MOST_TERMS = 12


class Variant(NamedTuple):
    """Settings of a power law; the penalty was 5 before this chose it."""

    filter: float = 0.9  # least rank correlation with the values of another seed
    penalty: float = 5.0
    size: int = 7
    terms: int = 3000  # that are drawn


class ScoredTerms(NamedTuple):
    """Random terms with the logarithms of their magnitudes by each of two seeds."""

    trees: list[Tree]
    logs: Floats  # [seeds, terms, datasets, networks]


VARIANTS: Mapping[str, Variant] = {
    "the first settings": Variant(),
    **{f"filter {own:g}": Variant(filter=own) for own in (-1.0, 0.8, 0.95)},
    **{f"penalty {own:g}": Variant(penalty=own) for own in (1.0, 3.0, 10.0, 20.0, 40.0)},
    **{f"{own} terms": Variant(terms=own) for own in (375, 750, 1500)},
    "5 nodes, 1500 terms": Variant(size=5, terms=1500),
    "10 nodes, 1500 terms": Variant(size=10, terms=1500),
    "10 nodes, 1500 terms, penalty 20": Variant(size=10, terms=1500, penalty=20.0),
}


def scored_terms(task: EvolveTask, size: int) -> ScoredTerms:
    """Draw random terms, and score them on all networks of the space."""
    config = task.config.model_copy(update={"max_size": size, "max_depth": size - 1})
    grammar = EvolveTask(config.model_copy(update={"set": None})).grammar
    rng = random.Random(size)
    trees = list(dict.fromkeys(grammar.generate(rng) for _ in range(DRAWN[size])))
    [problem] = task.problems.values()
    every = np.arange(len(problem.benchmark.architectures))
    both = []
    for seed in (None, task.config.seed + 1):
        source = problem.collect(task.needs(), every, task.config.memory, seed=seed)
        values = TreeEvaluator(source).evaluate(trees).values
        with np.errstate(divide="ignore", invalid="ignore"):
            both.append(np.log(np.abs(values)))
    return ScoredTerms(trees, np.stack(both))


def labelled_networks(
    truth: Floats, params: Floats, networks: Indices, inner: Indices
) -> LabelledNetworks:
    """Return the labels of networks; targets are of the inner ones alone."""
    own = truth[:, networks]
    known = np.isin(networks, inner)
    target = np.zeros_like(own)
    target[:, known] = [normal_scores(scores[known]) for scores in own]
    datasets = len(truth)
    return LabelledNetworks(
        truth=own.ravel(),
        target=target.ravel(),
        params=np.log(params[:, networks]).ravel(),
        pair=np.repeat(np.arange(datasets), len(networks)),
        network=np.tile(networks, datasets),
        weight=np.ones(own.size),
    )


def seed_correlations(logs: Floats, networks: Indices) -> Floats:
    """Return each term's mean rank correlation with itself under the other seed."""
    steps = np.linspace(0, len(networks) - 1, min(RESEEDED_NETWORKS, len(networks)))
    one, other = rankdata(logs[..., networks[steps.round().astype(int)]], axis=-1)
    one, other = one - one.mean(-1, keepdims=True), other - other.mean(-1, keepdims=True)
    spread = np.sqrt((one**2).sum(-1) * (other**2).sum(-1))
    found = np.divide((one * other).sum(-1), spread, out=np.zeros(spread.shape), where=spread > 0)
    return np.asarray(found.mean(axis=-1))


def taus(
    scored: ScoredTerms, variant: Variant, outer: LabelledNetworks, inner: Indices
) -> list[float]:
    """Return the mean tau on the other networks of power laws of 1 to `MOST_TERMS` terms."""
    networks = outer.network[outer.pairs[0]]
    trees, both = scored.trees[: variant.terms], scored.logs[:, : variant.terms]
    finite = np.isfinite(both[:, ..., networks]).all(axis=(0, 2, 3))
    stable = np.zeros(len(trees), dtype=bool)
    stable[finite] = seed_correlations(both[:, finite], inner) >= variant.filter
    logs = both[0][..., networks].reshape(len(trees), -1)
    rows = outer.rows_of(inner)
    fitted = outer.only(rows)
    kept = [n for n in np.flatnonzero(stable) if usable(logs[n, rows], fitted)]
    archive = TermArchive(fitted)
    archive.add([trees[n] for n in kept], logs[kept][:, rows])
    numbers = {trees[n]: n for n in kept}
    chosen_logs = logs[[numbers[tree] for tree in archive.terms]]
    with patch.object(power_law, "RIDGE", variant.penalty):
        fit = PowerLawFit(chosen_logs, outer, rows)
        chosen = fit.forward_selection(MOST_TERMS)
        rest = np.setdiff1d(np.arange(len(outer.truth)), rows)
        left = outer.only(rest)
        return [
            float(np.mean(left.taus(fit.predictions(chosen[:count])[rest], "unordered")[0]))
            for count in range(1, MOST_TERMS + 1)
        ]


def measured(table: Table, splits: int, workers: int) -> dict[str, Any]:
    """Return the inner taus of each variant, [splits * divisions, numbers of terms]."""
    task = EvolveTask(EvolveConfig(**table.evolve_options(), workers=workers))
    [problem] = task.problems.values()
    scored = {size: scored_terms(task, size) for size in DRAWN}
    benchmark = problem.benchmark
    truth = np.stack(list(benchmark.scores.values()))
    params = np.array(
        [
            [problem.space.params(arch, classes) for arch in benchmark.architectures]
            for classes in benchmark.classes.values()
        ],
        dtype=float,
    )
    found: dict[str, list[list[float]]] = {name: [] for name in VARIANTS}
    for split in range(splits):
        train, _ = split_networks(truth.shape[1], split, task.config.train)
        for division in range(DIVISIONS):
            part, _ = split_networks(len(train), 1000 * split + division, INNER)
            outer = labelled_networks(truth, params, train, train[part])
            for name, variant in VARIANTS.items():
                found[name].append(taus(scored[variant.size], variant, outer, train[part]))
        print(f"{table.name}: split {split}", flush=True)
    return {
        "space": table.space,
        "splits": splits,
        "divisions": DIVISIONS,
        "inner": INNER,
        "networks": int(truth.shape[1]),
        "tau": {name: np.round(np.mean(own, axis=0), 4).tolist() for name, own in found.items()},
    }


def page(names: Sequence[str]) -> str:
    """Return the tables of the page: inner taus by variant and by number of terms."""
    runs = [read_object(MEASURED / f"power-law-{name}.json")["tau"] for name in names]
    count = EvolveConfig().terms
    titles = [*names, "mean"]
    lines = [f"| of {count} terms | {' | '.join(titles)} |", f"|---|{'---|' * len(titles)}"]

    def row(name: str, values: Sequence[float]) -> str:
        cells = [f"{own:.3f}" for own in (*values, float(np.mean(values)))]
        return f"| {name} | {' | '.join(cells)} |"

    lines += [row(name, [own[name][count - 1] for own in runs]) for name in runs[0]]
    lines += ["", f"| terms | {' | '.join(titles)} |", f"|---|{'---|' * len(titles)}"]
    lines += [
        row(str(number), [own["the first settings"][number - 1] for own in runs])
        for number in (1, 2, 3, 4, 5, 6, 8, 10, MOST_TERMS)
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure, or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("run", "page"))
    parser.add_argument("--tables", default=",".join(CHOOSING))
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    names = given.tables.split(",")
    if given.action == "page":
        print(page(names))
        return
    for table in installed_tables(TABLES, names):
        write_json(
            MEASURED / f"power-law-{table.name}.json", measured(table, given.splits, given.workers)
        )


if __name__ == "__main__":
    main()
