"""What size explains of a search, and candidates of one size."""

from pathlib import Path
from typing import Any

import pytest
from helpers.reports import lines_without_commands
from scipy.stats import spearmanr

import autoprox
from autoprox.commands.search import SearchSummary
from autoprox.errors import AutoproxError
from autoprox.files.human_readable_sizes import parse_size
from autoprox.report.terminal.layout import show
from autoprox.report.terminal.search_reports import search_report
from autoprox.searchspaces.size_limits import matching_size_range

SPACE = "autoformer-nano"
PARAMS = "sum(mul(width, width))"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def search(**options: Any) -> dict[str, Any]:
    given = {"space": SPACE, "proxy": PARAMS, "samples": 60, **options}
    return autoprox.search(progress=False, **given).to_dict()


def words(summary: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> str:
    show(*search_report(SearchSummary.model_validate(summary, strict=False)))
    out = capsys.readouterr().out
    assert max(map(len, lines_without_commands(out))) <= 80
    return " ".join(out.split())


def test_a_pick_that_is_the_largest_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    summary = search(top=60)
    rows = summary["top"]
    expected = spearmanr([r["score"] for r in rows], [r["params"] for r in rows]).statistic
    assert summary["size"]["spearman"] == pytest.approx(expected)
    largest = max(rows, key=lambda row: row["params"])
    assert summary["size"]["largest"]["params"] == largest["params"]
    assert summary["size"]["pick_is_largest"] == (rows[0]["params"] == largest["params"])
    told = words({**summary, "size": {**summary["size"], "pick_is_largest": True}}, capsys)
    assert "The pick is simply the largest." in told
    assert "--match-size" in told
    assert f"parameters: {expected:.3f} (60 candidates)" in told


def test_equal_size_undoes_what_size_explains() -> None:
    plain, beyond = (search(objective=o, top=60)["size"] for o in ("score", "size-adjusted"))
    assert abs(beyond["spearman"]) < 0.2 < 0.8 < plain["spearman"]


def test_candidates_of_one_size(capsys: pytest.CaptureFixture[str]) -> None:
    summary = search(match_size="60K", top=60)
    assert all(58_800 <= row["params"] <= 61_200 for row in summary["top"])
    assert "are within 2 % of the largest" in words(summary, capsys)
    assert matching_size_range(1_000) == (980, 1020)


def test_the_largest_is_evaluated_beside_the_pick(capsys: pytest.CaptureFixture[str]) -> None:
    """The evaluator is the benchmark's own count: what its value is can be worked out."""
    Path("counts.py").write_text("value = lambda a: -sum(a['choices']['num_heads'])")
    summary = search(top=12, evaluator="counts:value")
    check, top = summary["evaluator_check"], summary["top"]
    assert check["networks"] == 12
    pick = next(row for row in top if row["candidate"] == check["pick"]["candidate"])
    assert pick["score"] == max(row["score"] for row in top)
    assert check["pick"]["value"] == -sum(pick["arch"]["num_heads"])
    best = max([*(row["value"] for row in top), check["largest"]["value"]])
    assert check["pick"]["regret"] == best - check["pick"]["value"]
    assert check["largest"]["regret"] == best - check["largest"]["value"]
    assert set(check["comparison"]) == {"params", "flops"}
    told = words(summary, capsys)
    assert "The proxy's pick (candidate" in told
    assert "partial tau" in told


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"match_size": "big"}, r"match_size must be a size >= 1, for example 6M, but got 'big'"),
        ({"match_size": "0"}, r"match_size must be a size >= 1, for example 6M, but got '0'"),
        ({"match_size": "1G"}, r"none is within params 980M:1.02G"),
        ({"match_size": "60K", "params": "1K:"}, r"either params or match_size must be given"),
        ({"objective": "jcm"}, r"unknown objective 'jcm'; choose from score, size-adjusted"),
    ],
)
def test_bad_input(options: dict[str, Any], message: str) -> None:
    with pytest.raises(AutoproxError, match=message):
        search(**options)
    assert not Path("runs").exists()


def test_sizes_are_texts_or_numbers() -> None:
    assert [parse_size("n", given) for given in ("6M", "1.5K", 7, None)] == [
        6_000_000,
        1500,
        7,
        None,
    ]
