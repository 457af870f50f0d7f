"""The first sentences of a report, from made-up metrics."""

import pytest

from autoprox.report.html.page_content import is_flattened
from autoprox.report.terminal.headlines import FEWEST, ranking_sentence, too_few
from autoprox.scoring.bootstrap import MetricDifferences, RankingMetrics, TauDifference, Verdict


def metrics(tau: float | None) -> RankingMetrics:
    numbers = dict.fromkeys(("tau_b", "spearman", "pearson", "partial_tau", "near_size_tau"))
    none = (None, None)
    return RankingMetrics.model_construct(
        kendall=tau, interval=(0.321, 0.539), partial_tau_interval=none,
        near_size_tau_interval=none, **numbers,
    )  # fmt: skip


def differences(verdict: Verdict | None) -> MetricDifferences:
    own = TauDifference.model_construct(difference=0.1, interval=(0, 0.2), verdict=verdict)
    return MetricDifferences.model_construct(kendall=own, partial_tau=own)


TAUS = {"proxy": 0.44, "params": 0.05, "ridge": 0.46, "gaussian-process": 0.41}


def test_a_proxy_is_compared_with_size_and_with_the_best_regression() -> None:
    means = {name: metrics(tau) for name, tau in TAUS.items()}
    comparison = {
        "params": differences("better"),
        "ridge": differences("not significantly different"),
        "gaussian-process": differences("better"),
    }
    assert ranking_sentence(means, comparison, trained=77) == (
        "Ranks unseen networks with Kendall tau 0.44 [0.32, 0.54]: better than parameter count "
        "(0.05), not significantly different from ridge regression on 77 trained networks (0.46)."
    )


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        ("worse", "Counting parameters ranks better. Ranks"),
        ("not significantly different", "ranks better, though not significantly. Ranks"),
    ],
)
def test_a_proxy_below_the_parameter_count_says_so_first(verdict: Verdict, said: str) -> None:
    means = {"proxy": metrics(0.2), "params": metrics(0.5)}
    sentence = ranking_sentence(means, {"params": differences(verdict)})
    assert sentence.startswith("Counting parameters")
    assert said in sentence


def test_scores_that_are_all_alike_have_no_tau() -> None:
    assert "no Kendall tau" in ranking_sentence({"proxy": metrics(None)}, {})


@pytest.mark.parametrize(("networks", "few"), [(FEWEST - 1, True), (FEWEST, False)])
def test_too_few_networks_are_told(networks: int, few: bool) -> None:
    assert too_few(networks).startswith("Too few to judge: 14 test networks") is few
    assert ("benchmark of more networks" in too_few(networks)) is few


def test_outliers_flatten_a_plot() -> None:
    assert is_flattened([*range(40), 1e6])
    assert not is_flattened([float(n) for n in range(40)])
    assert not is_flattened([0.0, 1e9])
