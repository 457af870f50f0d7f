"""Networks that fail, at every stage at which they can."""

from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.measuring import Conditions, cached, streamed
from helpers.networks import SPACE, noise, tiny
from helpers.trees import SNIP, assert_same_bits

from autoprox.engine.tree_evaluator import REASONS, ProxyScores, TreeEvaluator
from autoprox.errors import MeasurementError
from autoprox.evaluation.proxy_measurement import MeasuredProxies, NetworkValues
from autoprox.language import STATISTICS, parse_expression
from autoprox.parallel.worker_pool import WorkerPool
from autoprox.searchspaces import Architecture, SearchSpace, TransformerNetwork
from autoprox.statistics.collector import MeasurementSetting
from autoprox.statistics.untrained_networks import untrained_space_networks


class BrokenSpace(type(SPACE)):  # type: ignore[misc]
    """The nano space, where architectures of width 5 fail in one way."""

    def __init__(self, stage: str, error: Exception) -> None:
        super().__init__(SPACE.name, SPACE.description, SPACE.fields)
        self.stage, self.error = stage, error

    def build(self, arch: Architecture, classes: int = 1000, seed: int = 0) -> TransformerNetwork:
        described = torch.empty(0).is_meta
        network = super().build(arch, classes, seed)
        if arch["hidden_dim"] == 5:
            if self.stage == "structure" or (self.stage == "build" and not described):
                raise self.error
            if self.stage == "forward":
                network.norm.register_forward_hook(self.fail)
        return network

    def fail(self, *seen: object) -> None:
        raise self.error


BROKEN, SOUND = tiny(5, (1, 1.0), (1, 1.0)), [tiny(width, (1, 1.0)) for width in range(6, 16)]
FAILURES = [
    ("structure", ValueError("no such width")),
    ("build", RuntimeError("bad shape\nand more")),
    ("build", RuntimeError()),
    ("forward", ZeroDivisionError("division by zero")),
]
EXHAUSTED = [
    MemoryError(),
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory"),
    RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 5 bytes."),
]


@pytest.mark.parametrize(("stage", "error"), FAILURES, ids=lambda value: repr(value)[:20])
@pytest.mark.parametrize("kept", [True, False])
def test_a_network_that_fails_is_recorded_and_left_out(
    tmp_path: Path, stage: str, error: Exception, kept: bool
) -> None:
    needs = [STATISTICS[f"{d}.{q}"] for d in ("msa", "mlp") for q in ("weight", "grad")]

    def engine(space: SearchSpace, architectures: list[Architecture]) -> TreeEvaluator:
        setting = Conditions(space, {"few": noise(4), "many": noise(10)})
        if kept:
            # Of the network that fails some statistics are there, from when it did not.
            weights = [statistic for statistic in needs if statistic.quantity == "weight"]
            cached(Conditions(SPACE, setting.batches), [BROKEN], weights, folder=tmp_path)
            return TreeEvaluator(cached(setting, architectures, needs, folder=tmp_path, workers=2))
        return TreeEvaluator(streamed(setting, architectures, 2))

    texts = [SNIP, "rank(sum(width))", f"rank({SNIP})", "sum(min_max(std(all.grad)))"]
    trees = [parse_expression(text) for text in texts]
    broken = engine(BrokenSpace(stage, error), [*SOUND[:3], BROKEN, *SOUND[3:]])
    found = broken.evaluate(trees)
    expected = engine(SPACE, SOUND).evaluate(trees)
    others = [np.delete(array, 3, axis=2) for array in (found.values, found.reasons)]
    assert_same_bits(ProxyScores(*others), expected)
    assert np.isnan(found.values[:, :, 3]).all()
    assert {REASONS[r] for r in found.reasons[:, :, 3].flat} == {"network failed"}
    message = str(error).split("\n")[0] or "no message"
    assert broken.source.failures == {3: f"{type(error).__name__}: {message}"}
    assert broken.source.measurable == [0, 1, 2, *range(4, 11)]


@pytest.mark.parametrize(("stage", "error"), FAILURES, ids=lambda value: repr(value)[:20])
def test_more_than_a_tenth_of_failures_stops_with_the_reason(
    tmp_path: Path, stage: str, error: Exception
) -> None:
    setting = Conditions(BrokenSpace(stage, error), {"few": noise(4)})
    failing = [BROKEN, tiny(5, (2, 1.0))]
    message = str(error).split("\n")[0] or "no message"
    rule = rf"at most 10% of the networks may fail, but 2 of 12 did: \w+: {message}$"
    needs = [STATISTICS["msa.grad"]]
    with pytest.raises(MeasurementError, match=rule):
        cached(setting, [*SOUND, *failing], needs, folder=tmp_path)
    with pytest.raises(MeasurementError, match=rule):
        TreeEvaluator(streamed(setting, [*SOUND, *failing], 1)).evaluate(
            [parse_expression("sum(sum(msa.grad))")]
        )


@pytest.mark.parametrize("error", EXHAUSTED, ids=lambda error: str(error)[:30])
@pytest.mark.parametrize("stage", ["structure", "build", "forward"])
def test_too_little_memory_is_no_failure_of_a_network(
    tmp_path: Path, stage: str, error: Exception
) -> None:
    setting = Conditions(BrokenSpace(stage, error), {"few": noise(4)})
    architectures = [*SOUND, BROKEN]
    with pytest.raises(MemoryError):
        cached(setting, architectures, [STATISTICS["msa.grad"]], folder=tmp_path, workers=2)
    with pytest.raises(MemoryError):
        TreeEvaluator(streamed(setting, architectures, 2)).evaluate(
            [parse_expression("sum(sum(msa.grad))")]
        )


@pytest.mark.parametrize("workers", [1, 2, 4])
@pytest.mark.parametrize("stage", ["structure", "build", "forward"])
def test_networks_that_fail_together_are_left_out_by_any_number_of_workers(
    stage: str, workers: int
) -> None:
    space = BrokenSpace(stage, ValueError("no such width"))
    networks = untrained_space_networks(space, [BROKEN, tiny(5, (2, 1.0)), *SOUND[:3]])
    proxies = MeasuredProxies(["snip", "naswot", "sum(width)", "rank(sum(width))"])
    found: list[NetworkValues] = []
    setting = MeasurementSetting({"few": noise(4)})
    proxies.measured(networks, setting, 0, WorkerPool(workers), found.append)
    assert [record.failure for record in found[:2]] == ["ValueError: no such width"] * 2
    for name in proxies.names:
        scores = proxies.scores(name, [own.values.get("few", {}) for own in found])
        assert np.isfinite(scores).tolist() == [False, False, True, True, True]


def test_an_error_of_the_program_is_no_failure_of_a_network(tmp_path: Path) -> None:
    setting = Conditions(BrokenSpace("build", KeyError("typo")), {"few": noise(4)})
    with pytest.raises(KeyError, match="typo"):
        cached(setting, [*SOUND, BROKEN], [STATISTICS["msa.grad"]], folder=tmp_path)
