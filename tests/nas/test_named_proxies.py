"""Searches by functions of the zoo and by counts, and proxies given as Python values."""

from pathlib import Path
from typing import Any

import pytest
from helpers.commands import Command

import autoprox
from autoprox.inputs.batch_loading import load_batches
from autoprox.searchspaces import architecture_from_json, get_space
from autoprox.statistics.untrained_networks import SpaceNetwork
from autoprox.zoo.functions import FUNCTION_PROXIES, SharedNetworkPasses

SPACE = get_space("autoformer-nano")
SMALL: dict[str, Any] = {"space": SPACE.name, "batch_size": 2, "set": {"samples": 4}}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_search_by_size_finds_the_largest() -> None:
    found = autoprox.search(proxy="params", progress=False, **SMALL)
    archs = [architecture_from_json(row["arch"], SPACE) for row in found.candidates]
    sizes = [SPACE.params(arch, 10) for arch in archs]
    assert [row["score"] for row in found.candidates] == sizes
    assert found.best["params"] == max(sizes)


def test_a_search_by_a_function_has_its_values() -> None:
    """Each score is that of the function on the architecture's network, built here."""
    found = autoprox.search(proxy="naswot", progress=False, **SMALL)
    batch = load_batches(SPACE, {"images": 10}, batch_size=2, seed=0)["images"]
    for row in found.candidates:
        arch = architecture_from_json(row["arch"], SPACE)
        network = SPACE.build(arch, 10, SpaceNetwork(SPACE, arch, 0).seed)
        value = FUNCTION_PROXIES["naswot"].function(SharedNetworkPasses(network, batch, 0))
        assert row["score"] == pytest.approx(value)
    assert autoprox.resume(found.path, progress=False).to_dict() == found.to_dict()


def test_functions_say_where_they_work(run: Command) -> None:
    wrong = run("search", "--space", SPACE.name, "--proxy", "naswot", "--strategy", "blockwise")
    assert "a strategy that scores blocks must have an expression" in wrong.err
    wrong = run("export", "proxy", "naswot")
    assert "`rank`, `search`, `compare` and `evolve --zoo` take it" in wrong.err
    assert wrong.err.count("\n") == 1


def test_runs_and_formulas_are_proxies() -> None:
    """A formula found on one space is used on another, and the search says so."""
    found = autoprox.evolve(
        benchmark="nano-bench", space="pit-nano", datasets=["cifar10"], population=4, iterations=1,
        children=2, batch_size=1, statistics=["mlp.weight"], zoo=["none"], progress=False,
    )  # fmt: skip
    searched = autoprox.search(proxy=found, progress=False, **SMALL)
    assert searched.config["proxy"] == found.expression
    assert searched.summary.found_on == "pit-nano"
    page = (searched.path / "report.html").read_text()
    assert "The proxy was found on another space, pit-nano." in page
    same = autoprox.search(proxy=found.proxy, progress=False, **SMALL)
    assert [row["score"] for row in same.candidates] == [r["score"] for r in searched.candidates]
    assert "score of the largest" in repr(searched)
    assert "<th>best architecture</th>" in searched._repr_html_()
    assert "ridge: Kendall tau" in repr(found)
    plot = found.plot()
    assert plot._repr_svg_().startswith("<svg")
    plot.save("plot.svg")
    assert Path("plot.svg").read_text() == plot.svg
    network = autoprox.build(searched)
    assert sum(p.numel() for p in network.parameters()) == searched.best["params"]
