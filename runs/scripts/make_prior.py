"""Prior knowledge and ready-made proxies: power laws that order the networks of several tables.

    python runs/scripts/make_prior.py measure [--tables A,B] [--workers 1]
    python runs/scripts/make_prior.py fit

`measure` scores random terms on all networks of each installed table, or on a sample, and keeps
their logarithms in runs/prior/TABLE.npz: what isn't usable as a factor is left out. `fit` reads the
true scores and fits power laws for all tables, for those of vision and for those of language. For
each of these groups it writes an entry for all tables and one without each table to
autoprox/data/prior.json, and how well the latter rank the table that they don't know to
runs/prior/left_out.json, next to the parameter count. The group that ranks left-out tables of
vision, or of language, best on the mean is the default there.

A power law is the mean of the logarithms of MEMBERS products of one to three random terms: those
whose exponents, fitted without a table, correlate best with its true scores, by the mean and by the
worst of these tables.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ranked_tables import Table, installed_tables, show_progress

from autoprox.benchmarks import Benchmark
from autoprox.configurations.commands import EvolveConfig
from autoprox.configurations.shared_options import SHARED
from autoprox.evaluation.space_problem import SpaceProblem
from autoprox.evaluation.term_scores import measured_terms, random_terms
from autoprox.evolution.power_law import factors_of, power_law
from autoprox.files.atomic_writes import write_json
from autoprox.files.json_documents import JSONDocument
from autoprox.language import parse_expression
from autoprox.language.grammar import Grammar
from autoprox.scoring.baselines import network_sizes
from autoprox.scoring.bootstrap import bootstrap_picks, percentile_interval
from autoprox.scoring.correlations import Floats, kendall_unordered_ties, normal_scores
from autoprox.searchspaces import get_space
from autoprox.searchspaces.language_model_bases import TokenSpace
from autoprox.zoo.prior_file import (
    BOTH,
    LANGUAGE,
    PRIOR_FILE,
    VISION,
    EntryWithout,
    PriorEntry,
    PriorFile,
    PriorGroup,
    PriorTable,
)

FOLDER = Path(__file__).parents[2] / "runs" / "prior"
LEFT_OUT = FOLDER / "left_out.json"
PARAMS = "parameters"
TABLES = (
    Table("AutoFormer nano", "nano-bench", "autoformer-nano"),
    Table("PiT nano", "nano-bench", "pit-nano"),
    Table("GPT-2 nano", "nano-bench", "gpt2-nano"),
    Table("AutoFormer-101", "vit-bench-101", "autoformer-ti"),
    Table("PiT-101", "vit-bench-101", "pit"),
    Table("FlexiBERT", "nas-bench-bert", "flexibert", datasets=("glue",)),
    Table("GPT-2 LTS", "lts", "gpt2-lts"),
    Table("AutoFormer supernet Ti", "ood-vit-nas", "autoformer-supernet-ti"),
)
SAMPLES: Mapping[str, Mapping[str, Any]] = {  # options of measurements of large tables
    "flexibert-glue": {"networks": 100},
    "gpt2-lts": {"networks": 60},
    "autoformer-supernet-ti": {"networks": 100, "weights": SHARED},
}
TERMS, TERMS_SEED = 600, 7
GROUPS = {BOTH: (False, True), VISION: (False,), LANGUAGE: (True,)}  # of what reads tokens
PRODUCTS, MOST_FACTORS, MEMBERS = 3000, 3, 10
RIDGE = 0.5  # of standardised terms, relative to the variance of the true scores


def measure(names: Sequence[str], workers: int) -> None:
    """Score the terms on the tables that aren't scored yet."""
    FOLDER.mkdir(exist_ok=True)
    for table in installed_tables(TABLES, names):
        path = FOLDER / f"{table.name}.npz"
        if path.exists():
            continue
        options = {**table.options(), **SAMPLES.get(table.name, {}), "workers": workers}
        config = EvolveConfig(**options, zoo=(), device="cpu")
        grammar = Grammar(structure=True, combinators=False, limits=config)
        problem = SpaceProblem(config)
        terms = random_terms(grammar, TERMS, TERMS_SEED)
        found = measured_terms(problem, terms, progress=show_progress)
        own = found.labelled
        logs = own.centred(found.logs, np.arange(len(own.truth))).astype(np.float16)
        texts = np.array([str(term) for term in found.terms])
        np.savez_compressed(path, terms=texts, logs=logs, networks=found.networks)
        print(f"{table.name}: {len(texts)} of {TERMS} terms", flush=True)


@dataclass
class Moments:
    """The second moments of terms, and of terms with the target, each pair of a table alike."""

    terms: Floats
    target: Floats
    variance: float


class LeftOutTau(JSONDocument):
    """A mean tau over the datasets of a table that a proxy doesn't know, and its interval."""

    tau: float
    interval: tuple[float, float]


class LeftOutFigures(JSONDocument):
    """The taus on each table of the parameter count and of proxies fitted without the table."""

    tables: dict[str, dict[str, LeftOutTau]]


@dataclass
class MeasuredTable:
    """The logarithms of terms [terms, datasets, networks], the true scores, and the parameters."""

    terms: list[str]
    logs: Floats
    truth: Floats  # [datasets, networks]
    params: Floats
    networks: list[int]  # of the benchmark
    benchmark: Benchmark

    def moments(self, terms: Sequence[str]) -> Moments:
        """Return the moments of some of the terms."""
        index = {term: place for place, term in enumerate(self.terms)}
        logs = self.logs[[index[term] for term in terms]].reshape(len(terms), -1)
        target = np.stack([normal_scores(own) for own in self.truth]).ravel()
        size = len(target)
        return Moments(logs @ logs.T / size, logs @ target / size, float(target @ target / size))

    def tau(self, expression: str) -> LeftOutTau:
        """Return how well a power law of these terms ranks the networks."""
        factors = factors_of(parse_expression(expression)) or []
        index = {term: place for place, term in enumerate(self.terms)}
        chosen = np.stack([self.logs[index[str(term)]] for term, _ in factors])
        exponents = np.array([exponent for _, exponent in factors])
        return self.tau_of(np.tensordot(exponents, chosen, 1))

    def tau_of(self, scores: Floats) -> LeftOutTau:
        """Return the mean over the datasets of the tau of scores [datasets, networks]."""
        found, bounds = mean_tau(scores, self.truth)
        return LeftOutTau(tau=found, interval=bounds)


def mean_tau(scores: Floats, truth: Floats) -> tuple[float, tuple[float, float]]:
    """Return the mean tau over the datasets and its bootstrap interval."""
    picks = bootstrap_picks(truth.shape[1], 0)
    each = [kendall_unordered_ties(s, t) for s, t in zip(scores, truth, strict=True)]
    drawn = [kendall_unordered_ties(s[picks], t[picks]) for s, t in zip(scores, truth, strict=True)]
    low, high = percentile_interval(np.mean(drawn, axis=0))
    return round(float(np.mean(each)), 3), (round(low, 3), round(high, 3))


def read_table(table: Table) -> MeasuredTable | None:
    """Return the committed scores of a table with its true scores, None if either is missing."""
    path = FOLDER / f"{table.name}.npz"
    if not path.exists():
        print(f"{table.name}: not measured")
        return None
    if reason := table.absent():
        print(f"{table.name}: left out, {reason}")
        return None
    with np.load(path) as file:
        terms, logs, networks = (file[own] for own in ("terms", "logs", "networks"))
    benchmark = table.load(SAMPLES.get(table.name, {}).get("networks"))
    truth = np.stack([benchmark.scores[own][networks] for own in benchmark.datasets])
    shape = len(terms), *truth.shape
    sizes = network_sizes(benchmark)["params"]
    params = np.stack([sizes[own][networks] for own in benchmark.datasets])
    return MeasuredTable(
        terms=terms.tolist(),
        logs=logs.astype(np.float64).reshape(shape),
        truth=truth,
        params=params,
        networks=networks.tolist(),
        benchmark=benchmark,
    )


def fitted(products: Sequence[Sequence[int]], tables: Mapping[str, Moments]) -> list[Any]:
    """Return for each product its mean and least correlation on tables left out, and exponents."""
    found = []
    for own in products:
        index = np.ix_(own, own)
        grams = np.stack([each.terms[index] for each in tables.values()])
        sides = np.stack([each.target[list(own)] for each in tables.values()])
        ridge = RIDGE * np.diag(np.diagonal(grams, axis1=1, axis2=2).mean(axis=0))
        correlations = []
        for held, table in enumerate(tables.values()):
            others = [n for n in range(len(grams)) if n != held]
            exponents = np.linalg.solve(grams[others].mean(axis=0) + ridge, sides[others].mean(0))
            deviation = np.sqrt(exponents @ grams[held] @ exponents * table.variance)
            correlations.append(float(exponents @ sides[held] / max(deviation, 1e-12)))
        solution = np.linalg.solve(grams.mean(axis=0) + ridge, sides.mean(axis=0))
        found.append((np.mean(correlations), min(correlations), solution))
    return found


def entry(names: Sequence[str], terms: Sequence[str], tables: Mapping[str, Moments]) -> PriorEntry:
    """Fit a power law to some tables."""
    rng = np.random.default_rng(0)
    products = [
        rng.choice(len(terms), rng.integers(1, MOST_FACTORS + 1), replace=False).tolist()
        for _ in range(PRODUCTS)
    ]
    chosen = {name: tables[name] for name in names}
    found = fitted(products, chosen)
    best = sorted(range(PRODUCTS), key=lambda i: -(found[i][0] + found[i][1]))[:MEMBERS]
    exponents: dict[str, float] = {}
    for i in best:
        index = np.ix_(products[i], products[i])
        own = found[i][2]
        deviation = np.sqrt(np.mean([own @ each.terms[index] @ own for each in chosen.values()]))
        for term, exponent in zip(products[i], own / deviation / MEMBERS, strict=True):
            exponents[terms[term]] = exponents.get(terms[term], 0) + float(exponent)
    return PriorEntry(
        tables=[described(table) for table in TABLES if table.name in names],
        correlation=round(float(np.mean([found[i][0] for i in best])), 3),
        expression=str(power_law(list(map(parse_expression, exponents)), list(exponents.values()))),
    )


def described(table: Table) -> PriorTable:
    """Return a table as the file of prior knowledge names it."""
    return PriorTable(benchmark=table.benchmark, space=table.space)


def fit() -> None:
    """Write the prior knowledge of all tables that were measured, and show its ranking quality."""
    read = {table: read_table(table) for table in TABLES}
    found = {table: own for table, own in read.items() if own is not None}
    figures = {t.title: {PARAMS: own.tau_of(own.params)} for t, own in found.items()}
    groups: dict[str, PriorGroup] = {}
    for group, kinds in GROUPS.items():
        tables = {t.name: own for t, own in found.items() if is_language(t) in kinds}
        common = set.intersection(*(set(own.terms) for own in tables.values()))
        terms = [term for term in next(iter(tables.values())).terms if term in common]
        each = {name: own.moments(terms) for name, own in tables.items()}
        print(f"{group}: {len(terms)} terms that are usable on {len(tables)} tables")
        without = []
        for table in found:
            if table.name in tables:
                other = entry([name for name in tables if name != table.name], terms, each)
                without.append(EntryWithout(table=described(table), entry=other))
                figures[table.title][group] = tables[table.name].tau(other.expression)
        groups[group] = PriorGroup(every=entry(list(tables), terms, each), without=without)
    defaults = {}
    for kind, of_tokens in ((VISION, False), (LANGUAGE, True)):
        titles = [table.title for table in found if is_language(table) is of_tokens]
        means = {
            name: float(np.mean([figures[title][name].tau for title in titles]))
            for name in (BOTH, kind)
        }
        defaults[kind] = max(means, key=lambda name: means[name])
        print(f"{kind}: mean tau on tables that are left out {means}")
    file = PriorFile(groups=groups, vision=defaults[VISION], language=defaults[LANGUAGE])
    write_json(PRIOR_FILE, file.model_dump(mode="json"))
    write_json(LEFT_OUT, LeftOutFigures(tables=figures).model_dump(mode="json"))


def is_language(table: Table) -> bool:
    """Return whether the networks of a table read tokens."""
    return isinstance(get_space(table.space), TokenSpace)


def main() -> None:
    """Measure or fit."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    modes = parser.add_subparsers(dest="mode", required=True)
    own = modes.add_parser("measure")
    own.add_argument("--tables", type=lambda text: text.split(","), default=[])
    own.add_argument("--workers", type=int, default=1)
    modes.add_parser("fit")
    given = parser.parse_args()
    if given.mode == "fit":
        fit()
    else:
        measure(given.tables, given.workers)


if __name__ == "__main__":
    main()
