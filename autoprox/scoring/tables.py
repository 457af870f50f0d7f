"""What a proxy is worth: its correlations on networks it wasn't chosen by, beside the baselines."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autoprox.benchmarks import Benchmark
from autoprox.scoring.correlations import (
    CORRELATIONS,
    Floats,
    bootstrap_interval,
    kendall,
    ridge_scores,
    ties_broken,
)
from autoprox.searchspaces import get_space

Row = dict[str, Any]  # kendall, spearman, pearson, interval, ties_broken
Table = dict[str, Row]  # by dataset


def correlations(scores: Mapping[str, Floats], truth: Mapping[str, Floats], seed: int) -> Table:
    """The three correlations on each dataset, with Kendall's bootstrap 95 % interval."""
    table: Table = {}
    for dataset, values in scores.items():
        row: Row = {
            name: _number(correlation(values, truth[dataset]))
            for name, correlation in CORRELATIONS.items()
        }
        interval = bootstrap_interval(kendall, values, truth[dataset], seed)
        row["interval"] = [_number(bound) for bound in interval]
        row["ties_broken"] = _number(ties_broken(values, truth[dataset]))
        table[dataset] = row
    return table


def _number(value: Any) -> float | None:
    """JSON has no word for a correlation that doesn't exist."""
    return float(value) if np.isfinite(value) else None


def baselines(
    benchmark: Benchmark, parts: Mapping[str, Sequence[int]], seed: int
) -> dict[str, dict[str, Table]]:
    """What needs no proxy: counts of parameters and FLOPs, and a regression on the choices.

    The ridge regression is fitted to the accuracies of `parts["train"]`, dataset by dataset.
    """
    space = get_space(benchmark.space)
    features = [space.features(arch) for arch in benchmark.architectures]
    counts = {"params": space.params, "flops": space.flops}
    scores: dict[str, dict[str, Floats]] = {
        name: {
            dataset: np.array([count(a, classes) for a in benchmark.architectures], dtype=float)
            for dataset, classes in benchmark.classes.items()
        }
        for name, count in counts.items()
    }
    scores["ridge"] = {
        dataset: ridge_scores(features, truth, parts["train"])
        for dataset, truth in benchmark.scores.items()
    }

    def on_part(values: Mapping[str, Floats], chosen: Sequence[int]) -> Table:
        own, truth = (
            {dataset: column[chosen] for dataset, column in columns.items()}
            for columns in (values, benchmark.scores)
        )
        return correlations(own, truth, seed)

    return {
        name: {part: on_part(values, chosen) for part, chosen in parts.items()}
        for name, values in scores.items()
    }


def mean_kendall(table: Table, name: str = "kendall") -> float | None:
    """Over the datasets; none where one has no correlation (or an older run no such figure)."""
    taus = [row.get(name) for row in table.values()]
    known = [tau for tau in taus if tau is not None]
    return float(np.mean(known)) if len(known) == len(taus) else None
