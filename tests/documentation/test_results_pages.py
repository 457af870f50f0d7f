"""The pages of results are what their scripts make of the files that are there."""

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, ttest_1samp

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def leaderboard(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return script("leaderboard", monkeypatch)


@pytest.fixture
def reproductions(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return script("reproductions", monkeypatch)


@pytest.fixture
def suggestions(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return script("suggestions", monkeypatch)


def script(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "runs" / "scripts"))
    return importlib.import_module(name)


def test_the_leaderboard_is_as_it_was_measured(leaderboard: ModuleType) -> None:
    files = leaderboard.page_files()
    assert len(files) > 1
    for path, content in files.items():
        assert path.read_text() == content, f"{path.name}: run runs/scripts/leaderboard.py page"
    assert {*leaderboard.PAGE.parent.glob("leaderboard*")} == set(files)


def test_the_reproductions_are_as_they_were_measured(reproductions: ModuleType) -> None:
    found = reproductions.PAGE.read_text()
    assert found == reproductions.page(), "run runs/scripts/reproductions.py page"


def test_pages_are_as_the_runs_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for path, content in script("results_pages", monkeypatch).page_files().items():
        assert path.read_text() == content, f"{path.name}: run runs/scripts/results_pages.py"


def test_the_picks_are_as_they_were_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    picks = script("trained_picks", monkeypatch)
    assert picks.PAGE.read_text() == picks.page(), "run runs/scripts/trained_picks.py page"


def test_intervals_of_the_pages_are_those_of_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = script("results_pages", monkeypatch)
    mean, ends = pages.over([0.1, 0.4, 0.3])
    expected = ttest_1samp([0.1, 0.4, 0.3], 0.0).confidence_interval(0.95)
    assert (mean, *ends) == pytest.approx((0.8 / 3, expected.low, expected.high))
    expected = binomtest(38, 40).proportion_ci(0.95, method="wilson")
    assert pages.wilson(38, 40) == pytest.approx((expected.low, expected.high))
    assert pages.difference([0.1, 0.11, 0.12]).endswith("better")
    assert pages.difference([-0.1, -0.11, -0.12]).endswith("worse")
    assert pages.difference([-0.1, 0.11]).endswith("not significantly different")


def test_every_file_is_of_a_table_that_is_shown(
    leaderboard: ModuleType, reproductions: ModuleType
) -> None:
    shown = {
        leaderboard: {f"{t.name}-{w}" for t in leaderboard.TABLES for w in ("fresh", "shared")},
        reproductions: {
            f"{name}-{variant}"
            for name in reproductions.tables()
            for variant in reproductions.VARIANTS
        }
        | {reproductions.PRENAS.stem},
    }
    for module, names in shown.items():
        files = [*module.RESULTS.glob("*.json")]
        assert files
        assert {file.stem for file in files} <= names


def test_the_leaderboard_is_sorted_by_the_mean_rank(leaderboard: ModuleType) -> None:
    """The ranks are counted again: 1, the better rows, and half of the others of the same tau."""
    files = [*leaderboard.RESULTS.glob("*-fresh.json")]
    ranks: dict[str, list[float]] = {}
    for file in files:
        rows = json.loads(file.read_text())["rows"]
        taus = {name: own["kendall"] for name, own in rows.items() if own["kendall"] is not None}
        for name, tau in taus.items():
            better = sum(other > tau for other in taus.values())
            same = sum(other == tau for other in taus.values()) - 1
            ranks.setdefault(name, []).append(1 + better + same / 2)
    text = leaderboard.PAGE.read_text().partition("## Fresh weights")[2].partition("\n## ")[0]
    lines = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    shown = {line[0].strip("| `"): float(line[2]) for line in lines if len(line) > 4}
    shown = {name: rank for name, rank in shown.items() if name in ranks}
    assert len(shown) == len(ranks) > 25
    keys = [(len(ranks[name]) < len(files), rank) for name, rank in shown.items()]
    assert keys == sorted(keys)  # rows that lack a table come last
    for name, rank in shown.items():
        assert rank == pytest.approx(np.mean(ranks[name]), abs=0.051)


def test_a_row_without_a_tau_and_one_of_some_tables_have_ranks(leaderboard: ModuleType) -> None:
    def table(**taus: float | None) -> dict[str, Any]:
        return {"rows": {name: {"kendall": tau} for name, tau in taus.items()}}

    tables = [table(a=0.5, b=0.5, c=None), table(a=0.1, c=0.9, d=-0.2)]
    assert leaderboard.mean_ranks(tables) == {"c": 1.0, "b": 1.5, "a": 1.75, "d": 3.0}


@pytest.mark.parametrize(
    ("ours", "expected"),
    [
        ([(0.3, (0.2, 0.4)), (0.6, (0.5, 0.8))], "in"),  # published: .35 and .65
        ([(0.3, (0.28, 0.32)), (0.6, (0.5, 0.8))], "near"),
        ([(0.5, (0.4, 0.6)), (0.6, (0.5, 0.8))], "above"),
        ([(0.3, (0.2, 0.4)), (0.1, (0.0, 0.2))], "below"),
        ([(0.5, (0.4, 0.6)), (0.1, (0.0, 0.2))], "other"),
        ([(0.5, (0.4, 0.6)), (None, (None, None))], "none"),
    ],
)
def test_what_counts_as_reproduced(
    reproductions: ModuleType,
    ours: list[tuple[float | None, tuple[float | None, float | None]]],
    expected: str,
) -> None:
    class Claim:
        published = {"snip": {"one": 0.35, "two": 0.65}}  # noqa: RUF012
        correlation = "kendall"

    rows = {
        "snip": {
            dataset: {"kendall": tau, "kendall_interval": interval}
            for dataset, (tau, interval) in zip(("one", "two"), ours, strict=True)
        }
    }
    assert reproductions.difference(Claim, "snip", rows) == expected


def test_every_claim_has_published_figures(reproductions: ModuleType) -> None:
    """As the papers print them, in a few cells; T-Razor's XII has six proxies."""
    published = {
        (claim.source, claim.table.name): claim.published for claim in reproductions.CLAIMS
    }
    assert all(published.values())
    figures = {
        ("T-Razor, table X, 23 to 25 M", "dss++"): 0.431,
        ("T-Razor, table XII, 4 seeds", "snip"): 0.501,
        ("ETAS, table 3", "ntsr"): 0.81,
        ("Auto-Prox, table 5", "autoprox-a"): 0.2544,
    }
    for (source, proxy), figure in figures.items():
        own = next(rows for (name, _), rows in published.items() if name == source)
        assert next(iter(own[proxy].values())) == pytest.approx(figure)
    assert len(next(own for (name, _), own in published.items() if "XII" in name)) == 6


def test_the_suggestions_are_as_they_were_simulated(suggestions: ModuleType) -> None:
    assert suggestions.PAGE.read_text() == suggestions.page(), (
        "run runs/scripts/suggestions.py page"
    )


def test_regret_and_the_trainings_that_are_needed(suggestions: ModuleType) -> None:
    truth = np.array([0.0, 99.0, 40.0, 100.0])
    found = suggestions.regrets([0, 2, 1, 3], truth)
    assert found == pytest.approx([1.0, 0.6, 0.01, 0.0])
    assert suggestions.trainings_needed(found) == 3
    assert suggestions.trainings_needed(found[:2]) == 3


def test_every_method_chooses_different_networks_of_the_draw(suggestions: ModuleType) -> None:
    pytest.importorskip("optuna")
    [table] = [own for own in suggestions.TABLES if own.name == "pit-nano"]
    pool = next(pool for _, pool in suggestions.pools(table, 1))
    few = pool._replace(
        **{
            name: getattr(pool, name)[:12]
            for name in ("architectures", "features", "params", "truth")
        },
        proxies={name: own[:12] for name, own in pool.proxies.items()},
    )
    for name, method in suggestions.METHODS.items():
        assert sorted(method(few)) == list(range(12)), name


def test_tpe_is_asked_for_choices_that_the_space_has(suggestions: ModuleType) -> None:
    """The distance of a network to itself is 0, and a trial with its options asks for it."""
    from autoprox.searchspaces import get_space

    space = get_space("autoformer-nano")

    class Trial:
        def suggest_int(self, name: str, low: int, high: int) -> int:
            return high

    asked = suggestions.ask_choices(space, Trial())
    largest = suggestions.choice_indices(space, space.largest())
    smallest = suggestions.choice_indices(space, space.smallest())
    assert asked == largest
    assert suggestions.distance(asked, largest) == 0 < suggestions.distance(asked, smallest)
