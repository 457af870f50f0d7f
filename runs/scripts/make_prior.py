"""Prior knowledge: power laws that order the networks of other tables well.

    python runs/scripts/make_prior.py measure [--tables A,B] [--workers 1]
    python runs/scripts/make_prior.py fit

`measure` scores random terms on all networks of each installed table, and keeps the scores in
.prior/TABLE.npz. `fit` fits power laws to all tables but one, and writes autoprox/data/prior.json
with an entry for each table that is left out and one for all tables. A power law is the mean of the
logarithms of MEMBERS products of one to three random terms: those whose exponents, fitted without a
table, correlate best with its true scores, by the mean and by the worst of these tables.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ranked_tables import Table, show_progress

from autoprox.configurations.commands import EvolveConfig
from autoprox.evaluation.space_problem import SpaceProblem
from autoprox.evaluation.term_scores import measured_terms, random_terms
from autoprox.evolution.power_law import LabelledNetworks, power_law
from autoprox.files.atomic_writes import write_json
from autoprox.language import parse_expression
from autoprox.language.grammar import Grammar
from autoprox.scoring.correlations import Floats
from autoprox.zoo.prior_file import (
    PRIOR_FILE,
    EntryWithout,
    PriorEntry,
    PriorFile,
    PriorTable,
)

WORK = Path(__file__).parents[2] / ".prior"
TABLES = (
    Table("AutoFormer nano", "nano-bench", "autoformer-nano"),
    Table("PiT nano", "nano-bench", "pit-nano"),
    Table("GPT-2 nano", "nano-bench", "gpt2-nano"),
    Table("AutoFormer", "vit-bench-101", "autoformer-ti"),
    Table("PiT", "vit-bench-101", "pit"),
)
TERMS, TERMS_SEED = 1500, 7
PRODUCTS, MOST_FACTORS, MEMBERS = 3000, 3, 10
RIDGE = 0.5  # of standardised terms, relative to the variance of the true scores


def measure(names: Sequence[str], workers: int) -> None:
    """Score the terms on the tables that aren't scored yet."""
    WORK.mkdir(exist_ok=True)
    for table in TABLES:
        path = WORK / f"{table.name}.npz"
        if (names and table.name not in names) or path.exists():
            continue
        if reason := table.absent():
            print(f"{table.name}: left out, {reason}")
            continue
        options: dict[str, Any] = {
            **table.options(),
            "zoo": (),
            "device": "cpu",
            "workers": workers,
        }
        config = EvolveConfig(**options)
        grammar = Grammar(structure=True, combinators=False, limits=config)
        problem = SpaceProblem(config)
        terms = random_terms(grammar, TERMS, TERMS_SEED)
        found = measured_terms(problem, terms, progress=show_progress)
        texts = np.array([str(term) for term in found.terms])
        np.savez_compressed(path, terms=texts, logs=found.logs, **vars_of(found.labelled))
        print(f"{table.name}: {len(texts)} of {TERMS} terms", flush=True)


def vars_of(labelled: LabelledNetworks) -> dict[str, Any]:
    """Return the fields of the labels."""
    return {name: getattr(labelled, name) for name in ("target", "pair")}


@dataclass
class Moments:
    """The second moments of terms, and of terms with the target, each pair of a table alike."""

    terms: Floats
    target: Floats
    variance: float


def moments(name: str) -> tuple[list[str], Moments]:
    """Return the terms of a table and their moments."""
    with np.load(WORK / f"{name}.npz") as file:
        terms, logs, target, pair = (file[own] for own in ("terms", "logs", "target", "pair"))
    logs, target = logs.astype(float), target.astype(float)
    for own in range(pair.max() + 1):
        rows = pair == own
        logs[:, rows] -= logs[:, rows].mean(axis=1, keepdims=True)
        target[rows] -= target[rows].mean()
    size = len(target)
    return terms.tolist(), Moments(
        logs @ logs.T / size, logs @ target / size, float(target @ target / size)
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
    """Write the prior knowledge of all tables that were measured."""
    measured = {t.name: moments(t.name) for t in TABLES if (WORK / f"{t.name}.npz").exists()}
    common = set.intersection(*(set(terms) for terms, _ in measured.values()))
    terms = [own for own in next(iter(measured.values()))[0] if own in common]
    tables = {}
    for name, (own, each) in measured.items():
        places = [own.index(term) for term in terms]
        index = np.ix_(places, places)
        tables[name] = Moments(each.terms[index], each.target[places], each.variance)
    print(f"{len(terms)} terms that are usable on {len(tables)} tables")
    file = PriorFile(
        every=entry(list(tables), terms, tables),
        without=[
            EntryWithout(
                table=described(table),
                entry=entry([n for n in tables if n != table.name], terms, tables),
            )
            for table in TABLES
            if table.name in tables
        ],
    )
    write_json(PRIOR_FILE, file.model_dump(mode="json"))


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
