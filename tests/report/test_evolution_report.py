"""What is printed of a result, from results made by hand."""

from typing import Any

import pytest

from autoprox.language import parse
from autoprox.report.evolution import evolution_report
from autoprox.report.layout import show
from autoprox.report.proxy import passes, terminals


def row(kendall: float | None) -> dict[str, Any]:
    bounds = [None, None] if kendall is None else [kendall - 0.1, kendall + 0.1]
    names = ("kendall", "spearman", "pearson", "ties_broken")
    return {**dict.fromkeys(names, kendall), "interval": bounds}


def part(one: float | None, two: float | None) -> dict[str, Any]:
    return {"one": row(one), "two": row(two)}


def summary(**baselines: dict[str, Any]) -> dict[str, Any]:
    """A proxy with Kendall's tau 0.5 and 0.3 on the test networks."""
    return {
        "run": "runs/mine",
        "expression": "sum(width)",
        "formula": "∑ₖ width",
        "train": part(0.7, 0.6),
        "test": part(0.5, 0.3),
        "baselines": {
            name: {"train": part(0, 0), "test": test} for name, test in baselines.items()
        },
        "evaluations": 1234,
        "invalid": {"constant": 20, "not finite": 3},
        "failed_networks": {"4": "RuntimeError: no"},
        "seconds": 12.3,
    }


def printed(capsys: pytest.CaptureFixture[str], **baselines: dict[str, Any]) -> str:
    show(*evolution_report(summary(**baselines)))
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("one", "two", "verdict"),
    [
        (0.4, 0.2, "On the test networks no baseline is better than the proxy."),
        (0.5, 0.3 + 1e-12, "On the test networks no baseline is better than the proxy."),
        (None, 0.2, "On the test networks no baseline is better than the proxy."),
        (0.51, 0.2, "Better than the proxy on the test networks: params (one)."),
        (None, 0.4, "Better than the proxy on the test networks: params (two)."),
        (0.9, 0.2, "Better than the proxy on the test networks: params (one, mean)."),
        (0.9, 0.9, "Better than the proxy on the test networks: params (one, two, mean)."),
    ],
)
def test_verdict(
    one: float | None, two: float | None, verdict: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verdict in printed(capsys, params=part(one, two), flops=part(-1, -1)).splitlines()


def test_ties_that_tau_b_forgives_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    tied = summary()
    tied["test"]["two"]["ties_broken"] = 0.1
    show(*evolution_report(tied))
    told = " ".join(capsys.readouterr().out.split())
    assert "With the proxy's ties in random order its mean Kendall is 0.300." in told
    assert "ties" not in printed(capsys)
    del tied["test"]["two"]["ties_broken"]  # a run of an older version
    show(*evolution_report(tied))
    assert "ties" not in capsys.readouterr().out


def test_a_narrow_terminal_loses_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = printed(capsys, params=part(None, 0.25))
    monkeypatch.setenv("COLUMNS", "40")
    assert printed(capsys, params=part(None, 0.25)) == whole


def test_report(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, params=part(None, 0.25)).splitlines()
    assert lines[:3] == ["∑ₖ width", "", "sum(width)"]
    rows = [line.split() for line in lines]
    assert ["proxy", "0.500", "[0.40,", "0.60]", "0.500", "0.500", "0.700"] in [r[:7] for r in rows]
    assert ["params", "-", "-", "-", "-", "0.000"] in [r[:6] for r in rows]
    assert ["proxy", "0.400", "0.650"] in rows
    assert ["params", "-", "0.000"] in rows
    counts = (
        "Formulas evaluated: 1234, 23 invalid (20 constant, 3 not finite); networks failed: 1; 12 s"
    )
    assert counts in " ".join(lines)
    assert lines[-2:] == ["Run: runs/mine", "Next: autoprox show runs/mine"]
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("expression", "reads", "needed"),
    [
        ("sum(sum(mlp.weight))", ["mlp.weight"], {}),
        ("sum(sum(ntk.mlp.act))", ["mlp.act"], {"data": "forward"}),
        ("sum(mul(width, one))", ["width"], {}),
        ("log(add(heads, tokens))", ["heads", "tokens"], {}),
        (
            "add(sum(sum(ones.mlp.act)), add(sum(sum(ones.mlp.act_grad)), sum(sum(mlp.act))))",
            ["mlp.act", "ones.mlp.act", "ones.mlp.act_grad"],
            {"data": "forward", "ones": "forward and backward"},
        ),
        (
            "sub(sum(sum(ntk.msa.grad)), sum(std(mlp.act)))",
            ["mlp.act", "ntk.msa.grad"],
            {"data": "forward", "ntk": "forward and backward"},
        ),
    ],
)
def test_what_is_read(expression: str, reads: list[str], needed: dict[str, str]) -> None:
    assert terminals(parse(expression)) == reads
    assert passes(parse(expression)) == needed
