"""The first sentences of a report, from made-up metrics."""

import numpy as np
import pytest

from autoprox.evolution.prior_fit import ENOUGH_LABELS
from autoprox.report.html.page_content import is_flattened
from autoprox.report.terminal.headlines import (
    FEWEST,
    few_labels,
    prior_tables,
    ranking_sentence,
    too_few,
)
from autoprox.scoring.bootstrap import (
    MetricDifferences,
    RankingMetrics,
    TauDifference,
    Verdict,
    bootstrap_interval,
)
from autoprox.scoring.correlations import kendall


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


@pytest.mark.parametrize(
    ("interval", "said"),
    [
        ((-0.1, 0.5), "0.60 wide, includes 0, so this test doesn't show that the proxy ranks"),
        ((0.1, 0.4), "0.30 wide, is above 0, so the proxy ranks better than chance"),
        ((-0.4, -0.1), "0.30 wide, is below 0, so the proxy ranks worse than chance"),
    ],
)
def test_few_labels_say_what_their_interval_allows(
    interval: tuple[float, float], said: str
) -> None:
    sentence = few_labels(interval, 24, FEWEST + 1)
    assert said in sentence
    assert sentence.endswith(
        "Half the width takes four times as many test networks: 64 instead of 16. With the same "
        "--train, that means training 120 more networks."
    )
    assert "fewer than 15 test networks" in few_labels(interval, 24, FEWEST - 1)


def test_nothing_is_said_of_an_interval_with_labels_enough() -> None:
    assert few_labels((0.1, 0.4), ENOUGH_LABELS, 20) == ""
    assert few_labels((0.1, 0.4), None, 20) == few_labels((None, None), 12, 8) == ""


def test_four_times_as_many_networks_halve_an_interval() -> None:
    """Intervals of the bootstrap, means over draws of correlated scores."""
    rng = np.random.default_rng(0)

    def width(networks: int) -> float:
        found = []
        for seed in range(5):
            truth = rng.standard_normal(networks)
            scores = truth + rng.standard_normal(networks)
            low, high = bootstrap_interval(kendall, scores, truth, seed, 200)
            found.append(high - low)
        return float(np.mean(found))

    assert width(100) / width(400) == pytest.approx(2, rel=0.15)


def test_a_prior_of_other_spaces_says_so() -> None:
    tables = ("nano-bench: pit-nano", "vit-bench-101: pit")
    assert prior_tables(tables, "pit") == "nano-bench: pit-nano, vit-bench-101: pit"
    assert prior_tables(tables, "swin").endswith("pit; none of them is of swin")


@pytest.mark.parametrize(("networks", "few"), [(FEWEST - 1, True), (FEWEST, False)])
def test_too_few_networks_are_told(networks: int, few: bool) -> None:
    assert too_few(networks).startswith("Too few to judge: 14 test networks") is few
    assert ("benchmark with more networks" in too_few(networks)) is few


def test_outliers_flatten_a_plot() -> None:
    assert is_flattened([*range(40), 1e6])
    assert not is_flattened([float(n) for n in range(40)])
    assert not is_flattened([0.0, 1e9])
