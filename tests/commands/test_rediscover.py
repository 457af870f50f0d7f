"""Whole rediscoveries on tiny networks: found, judged, interrupted, and told."""

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.commands import Command
from helpers.naive import naive_evaluate, random_world
from scipy import stats

from autoprox import runner
from autoprox.commands import rediscover as rediscovery
from autoprox.commands.rediscover import (
    SMALL_PIT,
    NetworkSample,
    RediscoverSummary,
    RediscoverTask,
    TargetComparison,
)
from autoprox.configurations.commands import RediscoverConfig
from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.errors import AutoproxError
from autoprox.evolution import Individual
from autoprox.language import Tree, canonical, parse_expression
from autoprox.rediscovery import formula_growth, formula_search
from autoprox.rediscovery.formula_equality import equality_by_networks
from autoprox.runner import begin, finish
from autoprox.runs.folder import Run
from autoprox.runs.summary import Summary
from autoprox.searchspaces import get_space
from autoprox.statistics.matrix_sources import UncachedMatrices
from autoprox.statistics.untrained_networks import untrained_space_networks
from autoprox.zoo.proxy_loading import resolve_proxy

NANO = get_space("autoformer-nano")


def task(
    cache: Path, proxy: str, fresh: NetworkSample | None = None, **changed: Any
) -> RediscoverTask:
    """A rediscovery of seconds."""
    options = {"seconds": 60.0, "workers": 1, "device": "cpu", "cache": str(cache), **changed}
    return RediscoverTask(
        RediscoverConfig(proxy=proxy, **options),
        evolved=NetworkSample(NANO, 12, stride=4),
        fresh=fresh or NetworkSample(SMALL_PIT, 5, stride=4),
    )


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Statistics that the rediscoveries share."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        ("rank(sum(log(width)))", "tree"),
        ("mul(sum(width), sum(std(msa.weight)))", "tree"),
        ("sum(square(frobenius_norm(ones.mlp.grad)))", "sympy"),
        ("add(rank(l2_norm), rank(ntkt))", "networks"),
    ],
)
def test_rediscoveries(cache: Path, tmp_path: Path, target: str, kind: str) -> None:
    summary = begin(task(cache, target, runs=tmp_path))
    assert summary.success
    assert summary.evidence.kind == kind
    found, wanted = parse_expression(summary.expression), resolve_proxy(target).tree
    assert (canonical(found) == canonical(wanted)) is (kind == "tree")
    if kind == "networks":
        fresh = task(cache, target).fresh
        archs = fresh.architectures(random.Random("fresh 0"))
        source = UncachedMatrices(
            fresh.setting(0, torch.device("cpu")), untrained_space_networks(fresh.space, archs)
        )
        one, other = TreeEvaluator(source).evaluate([found, wanted]).values[:, 0]
        assert stats.kendalltau(one, other).statistic == pytest.approx(1)
    else:
        world = random_world(5, networks=4)
        one, other = (naive_evaluate(tree, world) for tree in (found, wanted))
        np.testing.assert_allclose(one / one[0], other / other[0], rtol=1e-9)
    run = Run.open(Path(summary.run))
    assert {"run": summary.run, **(run.read_summary() or {})} == summary.to_json()
    assert resolve_proxy(summary.run).tree == found
    log = run.read_log()
    assert [line["round"] for line in log] == list(range(1, summary.rounds + 1))
    assert log[-1]["evaluations"] == summary.evaluations
    assert run.read_config()["proxy"] == target


def test_a_rediscovery_does_not_depend_on_the_workers(cache: Path, tmp_path: Path) -> None:
    def result(**changed: Any) -> dict[str, Any]:
        return comparable(
            begin(task(cache, "rank(sum(sum(msa.weight)))", runs=tmp_path, **changed))
        )

    assert result() == result(workers=2)


def test_what_is_not_found_in_time(cache: Path, tmp_path: Path) -> None:
    summary = begin(task(cache, "sum(width)", seconds=1e-6, runs=tmp_path))
    assert not summary.success
    assert summary.evidence is None
    assert summary.rounds == 0
    assert summary.correlation < 1
    assert not (Path(summary.run) / "hall_of_fame").exists()


def test_a_formula_that_only_fits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = []

    def measure(trees: list[Tree], *rest: Any) -> Any:
        measured.append(len(trees))
        return equality_by_networks(trees, *rest)

    monkeypatch.setattr(rediscovery, "equality_by_networks", measure)
    comparison = TargetComparison(task(Path(), "rank(sum(width))", fresh=NetworkSample(NANO, 9)))
    by_depth, by_width = (
        parse_expression("rank(sum(one))"),
        parse_expression("rank(add(sum(width), sum(width)))"),
    )
    assert comparison.first_equivalent([by_depth]) is None
    assert comparison.first_equivalent([by_depth]) is None
    assert measured == [1]
    found, evidence = comparison.first_equivalent([by_depth, by_width]) or pytest.fail(
        "the second one is right"
    )
    assert found == by_width
    assert evidence.tau == 1
    assert measured == [1, 1, 1]
    assert "9 fresh networks of autoformer-nano" in evidence.statement


@pytest.mark.parametrize(
    ("source", "changed", "message"),
    [
        ("snop", {}, "unknown name `snop`; nearest: .*`snip`"),
        ("sum(msa.grad)", {}, "a proxy is a Network, got Layers"),
        ("mean(one)", {}, "must tell the 12 networks apart, but the scores .* are constant"),
        ("nowhere.json", {}, "nowhere.json"),
        ("snip", {"seconds": 0.0}, "seconds must be a number > 0"),
        ("snip", {"seed": -1}, "seed must be a whole number >= 0"),
        ("snip", {"workers": 0}, "workers must be a whole number >= 1"),
    ],
)
def test_wrong_use(
    cache: Path, tmp_path: Path, source: str, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises((AutoproxError, OSError), match=message):
        begin(task(cache, source, runs=tmp_path, **changed))
    assert not list(tmp_path.glob("*/summary.json"))


class Stopped(Exception):  # noqa: N818
    """What ends a run in the middle."""


def cut_and_resumed(whole: Callable[[Path], Any], runs: Path, rounds: int) -> Summary:
    """The summary of a rediscovery that was stopped after some rounds and goes on."""

    def stopped(run: Run, record: dict[str, Any]) -> None:
        log(run, record)
        if record["round"] == rounds:
            raise Stopped

    log = Run.log
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "log", stopped)
        with pytest.raises(Stopped):
            begin(whole(runs))
    [path] = runs.iterdir()
    with Run.resume(path, "rediscover") as run:
        return finish(whole(runs), run)


def comparable(summary: Summary) -> dict[str, Any]:
    return {name: v for name, v in summary.to_json().items() if name not in ("run", "seconds")}


def test_an_interrupted_rediscovery_goes_on_to_the_same_result(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(formula_growth, "LAYERS_AT_ONCE", 2)
    monkeypatch.setattr(formula_search, "POOL_ROOM", 20)

    def rediscover(runs: Path) -> RediscoverTask:
        return task(cache, "sum(sum(log(abs(msa.weight))))", runs=runs)

    whole = begin(rediscover(tmp_path / "whole"))
    rounds = whole.rounds
    assert rounds > 1
    again = cut_and_resumed(rediscover, tmp_path / "cut", rounds - 1)
    assert comparable(again) == comparable(whole)
    numbers = [line["round"] for line in Run.open(Path(again.run)).read_log()]
    assert numbers == list(range(1, rounds + 1))


REDUCTIONS = ("sum", "mean", "std", "l1_norm", "frobenius_norm", "nuclear_norm", "logsumexp")
WRONG = [
    parse_expression(f"rank({reduce}({map_}(one)))")
    for reduce, map_ in itertools.product(REDUCTIONS, ("neg", "abs", "exp", "log", "relu", "tanh"))
]
RIGHT = parse_expression("rank(add(sum(width), sum(width)))")


class Scripted:
    """A search that finds wrong formulas, others and an old one, none, and the right one."""

    def __init__(self, *_: Any) -> None:
        self.population = [Individual(WRONG[0], (0.5,), 0.5)]
        self.evaluations = 0
        self._rounds = iter([WRONG[:36], [*WRONG[38:], WRONG[0]], [], [RIGHT]])

    def begin(self) -> None:
        """There is nothing to begin with."""

    def round(self) -> list[Tree]:
        self.evaluations += 1
        return next(self._rounds)


@pytest.mark.parametrize(
    ("rounds", "measured"),
    [(1, [32, 8, 1, 1]), (2, [8, 1, 1]), (4, [1, 1])],
)
def test_what_rounds_on_record_found_is_not_judged_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rounds: int, measured: list[int]
) -> None:
    """All rounds but the last on record; 32 formulas are measured at a time, the rest later."""
    seen: list[int] = []

    def measure(trees: list[Tree], *rest: Any) -> Any:
        seen.append(len(trees))
        return equality_by_networks(trees, *rest)

    def rediscover(runs: Path) -> RediscoverTask:
        seen.clear()
        return task(tmp_path, "rank(sum(width))", fresh=NetworkSample(NANO, 9), runs=runs)

    monkeypatch.setattr(rediscovery, "FormulaSearch", Scripted)
    monkeypatch.setattr(rediscovery, "equality_by_networks", measure)
    whole = begin(rediscover(tmp_path / "whole"))
    assert (whole.expression, whole.rounds) == (str(RIGHT), 4)
    assert seen == [32, 8, 1, 1]
    again = cut_and_resumed(rediscover, tmp_path / "cut", rounds)
    assert comparable(again) == comparable(whole)
    assert seen == measured


def test_small_networks_vary_in_what_structure_reads() -> None:
    architectures = NetworkSample(SMALL_PIT, 48).architectures(random.Random(0))
    assert len(set(architectures)) == 48
    blocks = [block for arch in architectures for block in SMALL_PIT.blocks(arch)]
    assert len({block.tokens for block in blocks}) == 3
    assert max(block.width for block in blocks) <= 80


SUMMARY = {
    "run": "runs/mine",
    "target": {"source": "snip", "expression": "snip"},
    "seed": 7,
    "success": True,
    "evidence": {"kind": "tree", "statement": "it has the target's canonical form"},
    "expression": "sum(one)",
    "formula": "∑ₖ 1",
    "correlation": None,
    "rounds": 3,
    "evaluations": 12,
    "seconds": 1.5,
}


@pytest.fixture
def pretended(monkeypatch: pytest.MonkeyPatch, run: Command) -> Callable[..., Any]:
    """The command, whose rediscovery ends with this summary, or in this error."""

    def call(*arguments: str, error: BaseException | None = None, **changed: Any) -> Any:
        def start(config: RediscoverConfig, progress: Any, **_: Any) -> RediscoverSummary:
            if error is not None:
                raise error
            found = {**SUMMARY, "seed": config.seed, **changed}
            return RediscoverSummary.model_validate(found, strict=False)

        monkeypatch.setattr(runner, "start", start)
        return run("rediscover", *arguments)

    return call


def test_the_command_prints_what_was_found(pretended: Callable[..., Any]) -> None:
    result = pretended("snip", "--seed", "7")
    assert result.code == 0
    assert "Rediscovered snip: it has the target's canonical form." in result.out
    assert "Run: runs/mine" in result.out
    assert pretended("snip", "--seed", "8", "--json").json["seed"] == 8


def test_the_command_fails_where_nothing_was_found(pretended: Callable[..., Any]) -> None:
    result = pretended("snip", success=False, evidence=None, correlation=0.5)
    assert result.code == 1
    assert "snip was not rediscovered" in result.out
    assert "0.500000" in result.out


def test_the_command_can_be_interrupted(pretended: Callable[..., Any]) -> None:
    result = pretended("snip", error=KeyboardInterrupt())
    assert (result.code, result.err) == (130, "interrupted\n")
