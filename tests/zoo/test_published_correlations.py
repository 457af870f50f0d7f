"""What papers report, looked up as rankings do; figures copied by hand from the papers."""

import pytest

from autoprox.evaluation.proxy_measurement import all_proxy_names
from autoprox.searchspaces import SPACES
from autoprox.zoo.published_correlations import (
    PUBLISHED_TABLES,
    MeasuredAndPublished,
    PublishedCorrelations,
    compare_with_published,
    find_published_tables,
    published_correlations,
)

VIT = "vit-bench-101"


@pytest.mark.parametrize(
    ("place", "proxy", "figures"),
    [
        ((VIT, "autoformer-ti", "kd", "cifar100"), "synflow", (0.3766, 0.5289, 0.5201)),
        ((VIT, "pit", "kd", "chaoyang"), "dss", (0.3799, 0.5292, 0.4268)),
        ((VIT, "pit", "base", "flowers"), "naswot", (None, 0.0198, None)),
        ((VIT, "autoformer-ti", "supernet", "imagenet"), "snip", (0.1461, 0.3062, 0.4945)),
        (("nas-bench-bert", "flexibert", "score", "glue"), "params", (0.454, None, None)),
        ((VIT, "pit", "kd", "cifar100"), "params", (None, None, None)),
        (("mine", "autoformer-supernet-ti", "score", "imagenet"), "dss++", (None, None, None)),
    ],
)
def test_figures_of_these_networks(
    place: tuple[str, str, str, str], proxy: str, figures: tuple[float | None, ...]
) -> None:
    assert published_correlations(*place, proxy) == PublishedCorrelations(*figures)


@pytest.mark.parametrize(
    ("space", "dataset", "source", "proxy", "figures"),
    [
        (
            "autoformer-supernet-ti",
            "imagenet",
            "T-Razor, table X, 5 to 7 M",
            "dss++",
            (0.716, None),
        ),
        ("autoformer-supernet-s", "imagenet", "T-Razor, table X, 23 to 25 M", "mgm", (0.245, None)),
        ("autoformer-supernet-ti", "imagenet", "T-Razor, table XII", "grasp", (0.117, None)),
        ("autoformer-supernet-b", "imagenet", "ETAS, table 1", "ntsr", (0.75, 0.92)),
        ("gpt2", "lm1b", "ETAS, table 3", "flops", (0.51, 0.72)),
    ],
)
def test_figures_of_other_networks_of_a_space(
    space: str, dataset: str, source: str, proxy: str, figures: tuple[float, float | None]
) -> None:
    found = find_published_tables("mine", space, "score", dataset)
    [report] = [r for r in found if r.source.startswith(source)]
    assert report.correlations[proxy][:2] == figures
    assert report.benchmark is None


def test_reports_are_of_what_there_is_and_possible() -> None:
    for report in PUBLISHED_TABLES:
        assert report.space in SPACES
        assert set(report.correlations) <= set(all_proxy_names())
        for figures in report.correlations.values():
            assert any(value is not None for value in figures)
            assert all(-1 <= value <= 1 for value in figures if value is not None)
    own = [r for r in PUBLISHED_TABLES if r.source.startswith("Auto-Prox")]
    assert not any("supernet" in r.space for r in own)
    others = [r for r in PUBLISHED_TABLES if r.source.startswith(("T-Razor", "ETAS, table 1"))]
    assert {r.space for r in others} == {f"autoformer-supernet-{size}" for size in ("ti", "s", "b")}


ROWS = [("dss", "cifar100", 0.46, 0.6, None), ("params", "cifar100", 0.5, 0.7, 0.6)]


def test_ours_stand_beside_the_published() -> None:
    found = compare_with_published(ROWS, VIT, "autoformer-ti", "kd")
    [row] = found.rows
    assert row.kendall == MeasuredAndPublished(ours=0.46, published=0.3589)
    assert row.pearson == MeasuredAndPublished(ours=None, published=0.5051)
    assert (row.source, row.same_networks) == ("Auto-Prox, table 2", True)
    assert found.without == ("params",)


def test_figures_of_other_networks_are_said_to_be() -> None:
    rows = [(proxy, "imagenet", *taus) for proxy, _, *taus in ROWS]
    found = compare_with_published(rows, "mine", "autoformer-supernet-ti", "score")
    assert {row.same_networks for row in found.rows} == {False}
    assert [row.source[:7] for row in found.rows] == [
        "T-Razor",
        "T-Razor",
        "ETAS, t",
        "ETAS, t",
    ]


def test_where_nothing_is_published_that_is_said() -> None:
    found = compare_with_published(ROWS, "mine", "gpt2", "score")
    assert (found.rows, found.without) == ((), ("dss", "params"))
