"""The choice of the final formula, and of others that join it."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy.stats import kendalltau, rankdata

from autoprox.evolution import (
    EvolutionParameters,
    Individual,
    assemble,
    most_parsimonious,
)
from autoprox.language import Tree, parse
from autoprox.parameters import TreeLimits


def sized(size: int, jcm: float) -> Individual:
    return Individual(parse("sum(" + "abs(" * (size - 2) + "width" + ")" * (size - 1)), (jcm,), jcm)


@pytest.mark.parametrize(
    ("front", "parsimony", "chosen"),
    [
        ([(3, 0.50), (5, 0.52)], 0.02, 3),  # two nodes for two hundredths: not worth it
        ([(3, 0.50), (5, 0.55)], 0.02, 5),
        ([(3, 0.50), (5, 0.75)], 0.125, 3),  # just worth it: the shorter
        ([(3, 0.50), (5, 0.51)], 0.0, 5),
        ([(2, 0.1), (4, 0.3), (9, 0.35), (14, 0.36)], 0.02, 4),
        ([(7, 0.25)], 0.5, 7),
    ],
)
def test_a_node_has_to_be_worth_its_place(
    front: list[tuple[int, float]], parsimony: float, chosen: int
) -> None:
    individuals = [sized(*point) for point in front]
    for order in (individuals, individuals[::-1]):
        leader, *_ = most_parsimonious(order, EvolutionParameters(parsimony=parsimony))
        assert leader.tree.size == chosen


TRUTH = [1, 2, 3, 4, 5, 6]


VALUES = {  # each has another pair of the six networks the wrong way round
    "sum(width)": [2, 1, 3, 4, 5, 6],
    "sum(heads)": [10, 20, 40, 30, 50, 60],
    "sum(tokens)": [-6, -5, -4, -3, -1, -2],
    "sum(one)": [1, 2, 3, 4, 5, 6],
}


PAIR = "add(rank(sum(width)), rank(sum(heads)))"


class RankSums:
    """Evaluates sums of the ranks of `VALUES`, with numpy and scipy."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, trees: Sequence[Tree]) -> list[Individual]:
        self.asked += map(str, trees)
        return [self.individual(tree) for tree in trees]

    def individual(self, tree: Tree) -> Individual:
        if "one" in str(tree):
            return Individual(tree, reason="not finite")
        tau = kendalltau(self.scores(tree), TRUTH).statistic
        return Individual(tree, (tau,), tau)

    def scores(self, tree: Tree) -> np.ndarray:
        if str(tree) in VALUES:
            return np.array(VALUES[str(tree)])
        parts = [self.scores(arg) for arg in tree.args]
        return rankdata(parts[0]) if tree.symbol == "rank" else parts[0] + parts[1]


@pytest.mark.parametrize(
    ("leaders", "joining", "limits", "chosen"),
    [
        ("width heads", 0.005, (40, 10), PAIR),
        ("heads width heads", 0.005, (40, 10), "add(rank(sum(heads)), rank(sum(width)))"),
        ("width one heads", 0.005, (40, 10), PAIR),  # the second is invalid
        ("width heads tokens", 0.005, (40, 10), f"add({PAIR}, rank(sum(tokens)))"),
        ("width heads tokens", 0.0, (40, 10), f"add({PAIR}, rank(sum(tokens)))"),
        ("width heads tokens", 0.005, (7, 10), PAIR),
        ("width heads tokens", 0.005, (40, 3), PAIR),
        ("width heads", 0.1, (40, 10), "sum(width)"),  # worth less
        ("width heads", 0.005, (6, 10), "sum(width)"),
        ("width heads", 0.005, (40, 2), "sum(width)"),
        ("width", 0.0, (40, 10), "sum(width)"),
        ("width one", 0.0, (40, 10), "sum(width)"),
    ],
)
def test_further_formulas_have_to_be_worth_their_place(
    leaders: str, joining: float, limits: tuple[int, int], chosen: str
) -> None:
    evaluate = RankSums()
    individuals = [evaluate.individual(parse(f"sum({name})")) for name in leaders.split()]
    within = TreeLimits(max_size=limits[0], max_depth=limits[1])
    found = assemble(individuals, evaluate, EvolutionParameters(joining=joining), within)
    assert str(found.tree) == chosen
    assert found.jcm == pytest.approx(kendalltau(evaluate.scores(found.tree), TRUTH).statistic)
    assert all(parse(text).size <= limits[0] for text in evaluate.asked)
