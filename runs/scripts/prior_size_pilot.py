"""Whether the prior ranks a table that it doesn't know better with some parameter count added.

    python runs/scripts/prior_size_pilot.py

Adds the standardised logarithm of the parameter count, times a weight, to that of the power law
that make_prior.py fits without a table; prints the mean tau on each of these tables. The last line
chooses the weight for each table by the mean tau on the others, left out in turn.
"""

from functools import cache

import numpy as np
from make_prior import TABLES, entry, mean_tau, read_table

from autoprox.evolution.power_law import factors_of
from autoprox.language import parse_expression
from autoprox.scoring.correlations import Floats

WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
READ = {table.name: own for table in TABLES if (own := read_table(table))}
COMMON = set.intersection(*(set(own.terms) for own in READ.values()))
TERMS = [term for term in next(iter(READ.values())).terms if term in COMMON]
MOMENTS = {name: own.moments(TERMS) for name, own in READ.items()}


def standardised(values: Floats) -> Floats:
    """Return values with mean 0 on each dataset and standard deviation 1."""
    centred = values - values.mean(axis=-1, keepdims=True)
    return np.asarray(centred / centred.std())


@cache
def prior(known: tuple[str, ...]) -> dict[str, float]:
    """Return the exponents of a power law that is fitted to some tables."""
    factors = factors_of(parse_expression(entry(known, TERMS, MOMENTS).expression)) or []
    return {str(term): exponent for term, exponent in factors}


@cache
def taus(name: str, without: tuple[str, ...] = ()) -> list[float]:
    """Return the tau on a table for each weight, of a prior that was fitted without it."""
    table = READ[name]
    exponents = prior(tuple(own for own in READ if own != name and own not in without))
    logs = sum(own * table.logs[table.terms.index(term)] for term, own in exponents.items())
    one, size = standardised(np.asarray(logs)), standardised(np.log(table.params))
    return [mean_tau(one + weight * size, table.truth)[0] for weight in WEIGHTS]


def main() -> None:
    """Print the taus."""
    sizes = [mean_tau(own.params, own.truth)[0] for own in READ.values()]
    print(f"{'weight':>10}", *(f"{name[:10]:>10}" for name in READ), f"{'mean':>10}")
    rows = [("size alone", sizes), *zip(WEIGHTS, zip(*map(taus, READ), strict=True), strict=True)]
    nested = []
    for name in READ:
        others = np.mean([taus(own, (name,)) for own in READ if own != name], axis=0)
        nested.append(taus(name)[int(np.argmax(others))])
    for title, row in [*rows, ("chosen", nested)]:
        print(f"{title!s:>10}", *(f"{tau:10.3f}" for tau in (*row, np.mean(row))))


if __name__ == "__main__":
    main()
