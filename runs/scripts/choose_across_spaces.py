"""How terms for several spaces should be selected, by tables that the choice doesn't read.

    python runs/scripts/choose_across_spaces.py

Each of five tables is held out in turn. Methods are compared on the four others: each of these is
left out of a fit to the remaining three, and ranked by it. The last column is how the methods,
fitted to all four, rank the table that was held out, which chooses nothing. Figures are taus minus
that of the parameter count. The terms are those of runs/prior that are usable on all five tables.
Prints a table, and writes the figures of the tables held out to runs/measured/across-spaces.json.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any
from unittest.mock import patch

import numpy as np
from make_prior import TABLES, MeasuredTable, entry, read_table

from autoprox.evolution import power_law
from autoprox.evolution.power_law import LabelledNetworks, PowerLawFit, factors_of
from autoprox.evolution.term_archive import TermArchive
from autoprox.files.atomic_writes import write_json
from autoprox.language import parse_expression
from autoprox.scoring.bootstrap import bootstrap_picks, percentile_interval
from autoprox.scoring.correlations import Floats, kendall_unordered_ties, normal_scores

SPACES = ("autoformer-nano", "pit-nano", "gpt2-nano", "autoformer-ti", "pit")
COUNT = 8  # terms at most
MEASURED = Path(__file__).parents[2] / "runs" / "measured" / "across-spaces.json"
Tables = Mapping[str, MeasuredTable]


def labelled_networks(tables: Tables) -> LabelledNetworks:
    """Return the true scores of the networks of some tables."""
    pairs = [scores for own in tables.values() for scores in own.truth]
    counts = [len(scores) for scores in pairs]
    sizes = [own.truth.shape[1] for own in tables.values()]
    starts = np.cumsum([0, *sizes])
    numbers = [
        start + np.arange(size)
        for own, start, size in zip(tables.values(), starts, sizes, strict=False)
        for _ in own.truth
    ]
    return LabelledNetworks(
        truth=np.concatenate(pairs),
        target=np.concatenate(list(map(normal_scores, pairs))),
        params=np.concatenate([np.log(own.params).ravel() for own in tables.values()]),
        pair=np.repeat(range(len(pairs)), counts),
        network=np.concatenate(numbers),
        weight=np.ones(sum(counts)),
    )


def logs_of(table: MeasuredTable, terms: Sequence[str]) -> Floats:
    """Return the logarithms of some terms [terms, datasets, networks]."""
    places = {term: place for place, term in enumerate(table.terms)}
    return table.logs[[places[term] for term in terms]]


def fit_to(tables: Tables, terms: Sequence[str], ridge: float | None = None) -> PowerLawFit:
    """Fit to the networks of some tables."""
    logs = [logs_of(own, terms).reshape(len(terms), -1) for own in tables.values()]
    labelled = labelled_networks(tables)
    rows = np.arange(len(labelled.truth))
    return PowerLawFit(np.concatenate(logs, axis=1), labelled, rows, ridge=ridge)


def exponents_of(fit: PowerLawFit, chosen: Sequence[int], terms: Sequence[str]) -> Floats:
    """Return the exponents of all terms, most of them 0."""
    found = np.zeros(len(terms))
    found[list(chosen)] = fit.exponents(chosen)
    return found


def by_leave_one_out(tables: Tables, terms: Sequence[str]) -> Floats:
    """Select by the error on networks that are left out one by one."""
    with patch.object(power_law, "SEVERAL_SPACES", len(tables) + 1):
        fit = fit_to(tables, terms)
        return exponents_of(fit, fit.forward_selection(COUNT), terms)


def across_spaces(tables: Tables, terms: Sequence[str], count: int = COUNT) -> Floats:
    """Select by the correlations on spaces that are left out, as evolution does."""
    fit = fit_to(tables, terms)
    return exponents_of(fit, fit.forward_selection(count), terms)


def committee(tables: Tables, terms: Sequence[str]) -> Floats:
    """Return the mean of such selections on random parts of the networks."""
    fit = fit_to(tables, terms)
    archive = TermArchive(labelled_networks(tables))
    logs = [logs_of(own, terms).reshape(len(terms), -1) for own in tables.values()]
    archive.terms = list(map(parse_expression, terms))
    archive.logs = np.concatenate(logs, axis=1).astype(np.float32)
    votes = [exponents_of(fit, own, terms) for _, own in archive.selections(COUNT, False, 0)]
    return np.asarray(np.mean(votes, axis=0))


def ridge_regression(tables: Tables, terms: Sequence[str]) -> Floats:
    """Use all terms."""
    every = range(len(terms))
    return exponents_of(fit_to(tables, terms, ridge=2000.0), every, terms)


def products(tables: Tables, terms: Sequence[str]) -> Floats:
    """Return the mean of the best random products, as the prior of other tables is made."""
    moments = {name: own.moments(terms) for name, own in tables.items()}
    tree = parse_expression(entry(list(tables), terms, moments).expression)
    known = {str(term): exponent for term, exponent in factors_of(tree) or []}
    return np.array([known.get(term, 0.0) for term in terms])


METHODS: Mapping[str, Callable[[Tables, Sequence[str]], Floats]] = {
    "forward selection by the leave-one-out error": by_leave_one_out,
    "by the correlation on the space left out": across_spaces,
    "the same, at most 3 terms": lambda tables, terms: across_spaces(tables, terms, 3),
    "a committee of these on random parts": committee,
    "ridge regression on all terms": ridge_regression,
    "the 10 best random products": products,
}


def gains(
    method: Callable[[Tables, Sequence[str]], Floats],
    tables: Tables,
    held: MeasuredTable,
    terms: Sequence[str],
) -> dict[str, Any]:
    """Return the mean tau on a table and the parameter count's, and the interval of the gain."""
    scores = np.tensordot(method(tables, terms), logs_of(held, terms), 1)
    picks = bootstrap_picks(held.truth.shape[1], 0)
    taus, drawn = (
        [
            np.mean(
                [
                    kendall_unordered_ties(own[chosen], truth[chosen])
                    for own, truth in zip(values, held.truth, strict=True)
                ],
                axis=0,
            )
            for values in (scores, held.params)
        ]
        for chosen in (np.arange(held.truth.shape[1]), picks)
    )
    return {
        "networks": held.truth.shape[1],
        "tau": float(taus[0]),
        "params": float(taus[1]),
        "difference": float(taus[0] - taus[1]),
        "interval": percentile_interval(drawn[0] - drawn[1]),
    }


def main() -> None:
    """Print the table."""
    tables = {
        own.name: found for own in TABLES if own.name in SPACES and (found := read_table(own))
    }
    common = set.intersection(*(set(own.terms) for own in tables.values()))
    terms = sorted(common)
    print(f"{len(terms)} terms, {', '.join(tables)}\n")
    print("| method | on training tables | on tables held out |\n|---|---|---|")
    measured: dict[str, Any] = {}
    for title, method in METHODS.items():
        inner, outer = [], {}
        for name, held in tables.items():
            others = {key: own for key, own in tables.items() if key != name}
            outer[name] = gains(method, others, held, terms)
            for left in others:
                rest = {key: own for key, own in others.items() if key != left}
                inner.append(gains(method, rest, others[left], terms)["difference"])
        mean = fmean(own["difference"] for own in outer.values())
        measured[title] = {"inner": fmean(inner), "outer": outer}
        print(f"| {title} | {fmean(inner):+.3f} | {mean:+.3f} |", flush=True)
    write_json(MEASURED, {"terms": len(terms), "methods": measured})


if __name__ == "__main__":
    main()
