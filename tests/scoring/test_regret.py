"""The regret within parameter budgets, worked out by hand."""

import numpy as np
import pytest

from autoprox.scoring.evaluation_set import ParameterBudgets, regret_budgets, regrets

PARAMS = np.array([50.0, 10, 40, 20, 30])
TRUTH = np.array([7.0, 1, 9, 4, 6])


def test_each_budget_adds_a_fifth_of_the_networks() -> None:
    expected = ParameterBudgets(params=[10, 20, 30, 40, 50], networks=[1, 2, 3, 4, 5])
    assert regret_budgets(PARAMS) == expected
    assert regret_budgets(np.full(7, 3.0)) == ParameterBudgets(params=[3] * 5, networks=[7] * 5)


@pytest.mark.parametrize(
    ("scores", "lost"),
    [
        (PARAMS, [0, 0, 0, 0, 2]),  # the largest within the budget: 1, 4, 6, 9, then 7 instead of 9
        (-PARAMS, [0, 3, 5, 8, 8]),  # the smallest
        (TRUTH, [0, 0, 0, 0, 0]),
        (np.zeros(5), [0, 1.5, 6 - 11 / 3, 4, 9 - 27 / 5]),  # all tied: on average
    ],
)
def test_regret_of_the_pick(scores: np.ndarray, lost: list[float]) -> None:
    assert regrets(scores, TRUTH, PARAMS) == pytest.approx(lost)
