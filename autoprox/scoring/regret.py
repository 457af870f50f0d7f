"""What a pick within a budget loses: the best true score there less that of the pick."""

from typing import Any

import numpy as np

from autoprox.scoring.correlations import Floats

SHARES = (0.2, 0.4, 0.6, 0.8, 1.0)  # of the networks, from the smallest on, within each budget


def budgets(params: Floats) -> list[int]:
    """Five sizes, the first that a fifth of the networks keep, the last that all of them do."""
    order = np.sort(params)
    return [int(order[max(round(share * len(order)), 1) - 1]) for share in SHARES]


def regrets(scores: Floats, truth: Floats, params: Floats) -> list[float]:
    """At each of the budgets, what the network of the highest score loses; of ties, on average."""
    return [_regret(*(x[params <= b] for x in (scores, truth))) for b in budgets(params)]


def budget_table(params: Floats) -> dict[str, Any]:
    """The budgets, and how many networks are within each."""
    found = budgets(params)
    return {"params": found, "networks": [int((params <= budget).sum()) for budget in found]}


def _regret(scores: Floats, truth: Floats) -> float:
    return float(truth.max() - truth[scores == scores.max()].mean())
