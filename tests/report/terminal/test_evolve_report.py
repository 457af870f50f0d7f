"""What is printed of a result, from results made by hand."""

from typing import Any

import pytest

from autoprox.commands.evolve import EvolveSummary
from autoprox.language import parse_expression
from autoprox.report.terminal.evolve_report import evolve_report
from autoprox.report.terminal.layout import show
from autoprox.report.terminal.proxy_report import passes, terminals

SAME = "not significantly different"


def mean(kendall: float | None, partial_tau: float | None = 0.25) -> dict[str, Any]:
    bounds = [None, None] if kendall is None else [kendall - 0.1, kendall + 0.1]
    return {
        **{"kendall": kendall, "partial_tau": partial_tau, "near_size_tau": partial_tau},
        **{"interval": bounds, "partial_tau_interval": [0.1, 0.4]},
        "near_size_tau_interval": [0.0, 0.5],
    }


def row(kendall: float | None) -> dict[str, Any]:
    others = dict.fromkeys(("spearman", "pearson", "tau_b"), kendall)
    return {**mean(kendall), **others, "regret": [0.0, 1.25, None, 0.5, 3.0]}


def table(kendall: float | None) -> dict[str, Any]:
    return {"one": row(kendall), "two": row(kendall)}


def figure(verdict: str | None) -> dict[str, Any]:
    known = verdict is not None
    bounds = [-0.2, 0.1] if known else [None, None]
    return {"difference": -0.125 if known else None, "interval": bounds, "verdict": verdict}


def check(params: float, networks: int, pairs: int) -> dict[str, Any]:
    return {"networks": networks, "pairs": pairs, "params": params, "flops": 0.7, "depth": -0.1}


def quality(
    verdicts: dict[str, tuple[str | None, str | None]],
    params: float = 0.5,
    pairs: int = 31,
    share: float = 0.3,
) -> dict[str, Any]:
    """A proxy with a Kendall tau of 0.5 on the test networks, and baselines without any."""
    parts = ("train", "test")
    budgets = {"params": [10, 2000, 30_000, 40_000, 500_000], "networks": [1, 2, 3, 4, 5]}
    means = {
        "proxy": {"train": mean(0.75), "test": mean(0.5)},
        **{name: dict.fromkeys(parts, mean(None, None)) for name in verdicts},
    }
    return {
        "expression": "sum(width)",
        "formula": "∑ₖ width",
        "train": table(0.75),
        "test": table(0.5),
        "baselines": {name: dict.fromkeys(parts, table(None)) for name in verdicts},
        "means": means,
        "comparison": {
            name: {
                "kendall": figure(by_tau),
                "partial_tau": figure(by_partial_tau),
                "near_size_tau": figure(None),
            }
            for name, (by_tau, by_partial_tau) in verdicts.items()
        },
        "zoo": {
            "compared": ["snip"],
            "best": {"kendall": "snip", "partial_tau": "naswot"},
            "refused": {"zico": "a batch of one"},
            "missing": {"meco": 2},
        },
        "budgets": {part: dict.fromkeys(("one", "two"), budgets) for part in parts},
        "size": {"train": check(0.9, 60, 300), "test": check(params, 40, pairs)},
        "networks": {},
        "seed_share": share,
        "failed_networks": {"4": "RuntimeError: no"},
    }


def fold(spaces: dict[str, Any], held_out: str | None = None) -> dict[str, Any]:
    front = [
        {"expression": "sum(width)", "size": 2, "jcm": 0.6, "partial_tau": 0.2, "chosen": True},
        {"expression": "s" * 90, "size": 40, "jcm": 0.7, "partial_tau": 0.3, "chosen": False},
    ]
    counts = {"asked": None, "done": 3}
    return {
        "held_out": held_out,
        "trained": ["here"],
        "expression": "sum(width)",
        "formula": "∑ₖ width",
        "front": front,
        "evaluations": 1234,
        "counts": dict.fromkeys(("iterations", "evaluations", "population"), counts),
        "ended": None,
        "islands": [{"iterations": 3, "evaluations": 1234}],
        "stopped": 0,
        "invalid": {"constant": 20, "not finite": 3},
        "spaces": spaces,
    }


def summary(folds: list[dict[str, Any]], spaces: tuple[str, ...] = ("here",)) -> EvolveSummary:
    found = {
        "run": "runs/mine",
        "expression": "sum(width)",
        "formula": "∑ₖ width",
        "folds": folds,
        "hold_out": None,
        "objective": "jcm",
        "ties": "unordered",
        "spaces": {name: {"benchmark": name, "inputs": {}, "lacking": ["svhn"]} for name in spaces},
        "seconds": 12.3,
    }
    return EvolveSummary.model_validate(found, strict=False)


def evolution(verdicts: dict[str, tuple[str | None, str | None]], **changed: Any) -> EvolveSummary:
    """An evolution on one space."""
    return summary([fold({"here": quality(verdicts, **changed)})])


BEATEN: dict[str, tuple[str | None, str | None]] = {
    "params": ("better", "worse"),
    "flops": ("worse", SAME),
    "activation_distance": (None, None),
}


def printed(capsys: pytest.CaptureFixture[str], found: EvolveSummary) -> str:
    show(*evolve_report(found))
    return capsys.readouterr().out


def words(text: str) -> str:
    return " ".join(text.split())


def test_which_baselines_are_better_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    told = words(printed(capsys, evolution(BEATEN)))
    assert "Significantly better than the proxy on the test networks by tau: flops." in told
    assert (
        "Significantly better than the proxy on the test networks by partial tau: params." in told
    )
    assert "Not compared with zico: a batch of one." in told
    assert "meco has no value on 2 networks." in told
    assert "here has no scores on svhn." in told
    told = words(printed(capsys, evolution({"params": ("better", SAME)})))
    none = "by partial tau: none of those it was compared with."
    assert f"{none} Best of the zoo on the training networks: snip by" in told


@pytest.mark.parametrize(("tau", "mostly"), [(0.8, True), (-0.85, True), (0.79, False)])
def test_a_proxy_that_is_mostly_size_is_called_so(
    tau: float, mostly: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    told = words(printed(capsys, evolution(BEATEN, params=tau)))
    sentence = f"This proxy is mostly size: its tau is {tau:.3f} with params, 0.700 with FLOPs"
    assert (sentence in told) == mostly


@pytest.mark.parametrize(("share", "alone"), [(0.0, True), (0.0099, True), (0.01, False)])
def test_a_function_of_the_choices_is_called_so(
    share: float, alone: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    told = words(printed(capsys, evolution(BEATEN, share=share)))
    assert ("a function of the architecture's choices alone" in told) == alone
    assert ("Another seed changes its scores by 1 % of their spread." in told) != alone


@pytest.mark.parametrize(("pairs", "few"), [(29, True), (30, False)])
def test_too_few_pairs_near_in_size_are_told(
    pairs: int, few: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    told = printed(capsys, evolution(BEATEN, pairs=pairs))
    assert ("too few" in told) == few
    assert f"over the {pairs} pairs" in words(told)


def test_a_narrow_terminal_loses_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = printed(capsys, evolution(BEATEN))
    monkeypatch.setenv("COLUMNS", "40")
    assert printed(capsys, evolution(BEATEN)) == whole


def test_report(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, evolution(BEATEN)).splitlines()
    assert lines[0].startswith("Ranks unseen networks with Kendall tau 0.50 [0.40, 0.60]")
    first = lines.index("∑ₖ width")
    assert lines[lines.index("Next:") + 1].startswith("autoprox search --space")
    assert lines.index("Next:") < first
    assert lines[first : first + 3] == ["∑ₖ width", "", "sum(width)"]
    rows = [" ".join(line.split()) for line in lines]
    assert "> sum(width) 2 0.600 0.200" in rows
    assert "test n = 40 train n = 60" in rows
    assert "proxy 0.500 [0.40, 0.60] 0.750 [0.65, 0.85]" in rows
    assert "activation_distance - - - -" in rows
    assert "proxy 0.250 [0.10, 0.40] 0.250 [0.00, 0.50]" in rows
    assert rows[rows.index("tau") + 2] == "flops -0.125 [-0.20, 0.10] worse"
    assert rows[rows.index("partial tau") + 2] == "flops -0.125 [-0.20, 0.10] n.s."
    assert "one 10 2K 30K 40K 500K" in rows
    assert "params (the largest) 0.00 1.25 - 0.50 3.00" in rows
    assert "test 40 0.500 0.700 -0.100" in rows
    counts = (
        "Formulas evaluated: 1234, 23 invalid (20 constant, 3 not finite); fresh weights; "
        "networks failed: 1; 12 s"
    )
    assert counts in " ".join(lines)
    assert lines[-1] == "Run: runs/mine"
    assert max(map(len, lines)) <= 80


def test_the_factors_of_a_power_law_are_shown_with_their_shares(
    capsys: pytest.CaptureFixture[str],
) -> None:
    factors = [
        {"expression": "sum(width)", "exponent": -1.5, "spread": 0.4},
        {"expression": "s" * 90, "exponent": 0.25, "spread": 1.2},
        {"expression": "max(heads)", "exponent": 0.1, "spread": None},
    ]
    whole = {**fold({"here": quality(BEATEN)}), "factors": factors}
    lines = printed(capsys, summary([whole])).splitlines()
    rows = [" ".join(line.split()) for line in lines]
    assert "term exponent spread share" in rows
    assert f"sum(width) -1.5 0.400 -0.600 {12 * '█'}" in rows
    assert any(row.endswith(f" 0.25 1.200 0.300 {6 * '█'}") for row in rows)
    assert "max(heads) 0.1 - -" in rows
    wrapped = [word for line in lines for word in line.split() if set(word[1:]) == {"s"}]
    assert len("".join(wrapped)) == 90  # no character is lost
    assert max(map(len, lines)) <= 80
    assert "term" not in printed(capsys, evolution(BEATEN)).split()


def test_held_out_spaces_are_shown_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    folds = [fold({own: quality(BEATEN)}, held_out=own) for own in ("here", "there")]
    text = printed(capsys, summary(folds, ("here", "there")))
    assert max(map(len, text.splitlines())) <= 80
    assert "  activation_d…" in text  # names are cut, and no heading or number
    assert (text.count("…"), text.count("n = 40")) == (2 + 2, 2)
    rows = [" ".join(line.split()) for line in text.splitlines()]
    proxy = "proxy 0.500 [0.40, 0.60] 0.250 [0.10, 0.40]"
    assert rows.count(proxy) == 2
    assert "flops - - worse - [0.10, 0.40] n.s." in rows
    assert "there 0.500 -0.125 [-0.20, 0.10] 0.250 [0.10, 0.40]" in rows
    assert "mean 0.500 -0.125 - 0.250 -" in rows
    assert "Evolved on here; held out: there, all of whose networks are test networks" in text
    assert "Formulas evaluated: 1234, 0 stopped early, 23 invalid" in text
    assert text.endswith("\n12 s\nRun: runs/mine\n")


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
    assert terminals(parse_expression(expression)) == reads
    assert passes(parse_expression(expression)) == needed
