"""How labels should correct the prior: committees that are shrunk towards it, or not, or both.

    python runs/scripts/prior_fit_pilot.py [--draws 20]

Reads the committed scores of random terms (runs/prior), and prints Kendall taus with 3 to 20
labels: means over the tables of make_prior.py and over draws of the labels, as on
docs/results/curve.md. The prior of a table was fitted without it.
"""

import argparse
from collections.abc import Iterator

import numpy as np
from curves import curve_table
from make_prior import TABLES, read_table

from autoprox.evaluation.label_curves import CurveTable
from autoprox.evolution.prior_fit import committee, shrunken_fit
from autoprox.primitives.primitive import EPSILON
from autoprox.scoring.correlations import Floats, Indices

LABELS = (3, 5, 10, 20)


def variants(table: CurveTable, labels: Indices, seed: int) -> Iterator[tuple[str, Floats]]:
    """Yield what is compared, and its scores."""
    logs, own, size = table.terms.logs, table.terms.labelled, table.size
    rows = own.rows_of(labels)
    known = own.with_target_of(rows)
    centred = own.centred(logs, rows)
    spread = own.centred(logs, np.arange(len(own.truth))).std(axis=1)
    both = shrunken_fit(table.prior, table.correlation, logs, own, rows, size, seed=seed).scores
    scratch = committee(logs, known, rows, size, seed=seed, spread=spread) @ centred
    shrunken = 2 * both - scratch
    yield "shrunk towards the prior", shrunken
    yield "from scratch", scratch
    yield (
        "from scratch, standardised on the labels",
        (labelled := committee(logs, known, rows, size, seed=seed) @ centred),
    )
    yield "their mean", both
    yield "their mean, standardised on the labels", shrunken + labelled
    yield "their mean, from scratch at half the weight", shrunken + scratch / 2
    stronger = committee(logs, known, rows, size, seed=seed, spread=spread, ridge=40.0) @ centred
    yield "their mean, from scratch with twice the penalty", shrunken + stronger
    published = np.array([np.abs(zoo).ravel() for zoo in table.zoo.values()])
    usable = published[(published > EPSILON).all(axis=1)]  # NaN isn't
    more = np.concatenate([logs, np.log(usable)])
    spread = own.centred(more, np.arange(len(own.truth))).std(axis=1)
    exponents = committee(more, known, rows, size, seed=seed, spread=spread)
    yield (
        "their mean, from scratch with published proxies as terms too",
        (shrunken + exponents @ own.centred(more, rows)),
    )
    params = own.centred(own.params, rows)
    for share in (0.25, 0.5):
        size_part = share * params / params.std() * both.std()
        yield f"their mean, and {share} of the parameter count", both + size_part


def main() -> None:
    """Print the taus."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("--draws", type=int, default=20)
    draws = parser.parse_args().draws
    taus: dict[str, dict[int, list[float]]] = {}
    for table in TABLES:
        if (found := read_table(table)) is None:
            continue
        curves = curve_table(table, found)
        for draw in range(draws):
            order = np.random.default_rng([0, draw]).permutation(curves.networks)
            for count in LABELS:
                labels, rest = np.sort(order[:count]), np.sort(order[count:])
                for name, scores in variants(curves, labels, draw):
                    tau = curves.tau(scores.reshape(curves.truth.shape), rest)
                    taus.setdefault(name, {}).setdefault(count, []).append(tau)
    for name, own in taus.items():
        print(*(f"{np.mean(each):.3f}" for each in own.values()), name)


if __name__ == "__main__":
    main()
