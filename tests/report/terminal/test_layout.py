"""Tables on a terminal of 80 columns."""

import pytest

from autoprox.report.terminal.layout import INTERVAL, WIDTH, named_table, room, show
from autoprox.report.terminal.metric_tables import (
    near_size_parts,
    regret_parts,
    verdict_parts,
)
from autoprox.scoring.bootstrap import MetricDifferences, RankingMetrics, TauDifference
from autoprox.scoring.evaluation_set import ParameterBudgets


def test_names_have_the_room_that_figures_leave(capsys: pytest.CaptureFixture[str]) -> None:
    table = named_table("proxy", "tau", "params")
    name = "runs/" + 50 * "x"
    table.add_row(name, "0.500", "0.250")
    show(table)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].split() == [name, "0.500", "0.250"]
    assert max(map(len, lines)) <= WIDTH


def test_names_have_their_least_room_beside_many_figures() -> None:
    assert room(["tau", f"\n{INTERVAL}"], 26) == 80 - 8 - 16
    assert room(12 * ["tau"], 26) == 26


def test_a_long_expression_is_cut_and_no_figure(capsys: pytest.CaptureFixture[str]) -> None:
    name = f"sum({20 * 'mul(width, '}one{21 * ')'}"
    bounds = (-0.25, -0.125)
    row = RankingMetrics(
        **dict.fromkeys(("kendall", "partial_tau", "near_size_tau"), -0.25),
        **dict.fromkeys(("interval", "partial_tau_interval", "near_size_tau_interval"), bounds),
    )
    figure = TauDifference(difference=0.1, interval=(0.05, 0.15), verdict="better")
    rival = MetricDifferences(kendall=figure, partial_tau=figure, near_size_tau=figure)
    names = ("params", "flops", "depth", "non-embedding", "ridge", "gaussian-process")
    rivals = dict.fromkeys(names, rival)
    sizes = ParameterBudgets(
        params=[5_734_567 + n for n in range(5)], networks=[20, 40, 61, 80, 100]
    )
    show(
        *near_size_parts({name: row}, 100, 1452),
        *verdict_parts({name: rivals}, list(rivals)),
        *regret_parts({"cifar100": sizes}, {name: {"cifar100": 5 * [10.25]}}),
    )
    lines = capsys.readouterr().out.splitlines()
    for metric in ("tau", "partial tau"):
        assert ["by", *metric.split(), *rivals] in [line.split() for line in lines]
    assert sum("…" in line for line in lines) == 4
    assert all(
        line.count("…") <= 1 and line.startswith("sum(mul(") for line in lines if "…" in line
    )
    assert max(map(len, lines)) <= WIDTH


def test_small_regrets_have_a_decimal_more(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ParameterBudgets(params=[10, 20], networks=[1, 2])
    regrets = {"snip": {"nats": [0.0125, None], "points": [0.0125, 1.5]}}
    show(*regret_parts({"nats": sizes, "points": sizes}, regrets))
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "snip" in line]
    assert rows == [["snip", "0.013", "-"], ["snip", "0.01", "1.50"]]
