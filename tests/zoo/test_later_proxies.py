"""AZ-NAS, L-SWAG, SWAP, W-PCA and CRoZe where there is little to measure; ranks combined."""

from collections.abc import Callable
from random import Random

import numpy as np
import pytest
import torch
from helpers.networks import SPACE, noise, tiny
from numpy.typing import NDArray
from scipy.stats import rankdata

from autoprox.evaluation.proxy_measurement import MeasuredProxies, NetworkValues
from autoprox.inputs.batch_loading import load_image_batch
from autoprox.parallel.worker_pool import WorkerPool
from autoprox.searchspaces import TransformerNetwork, get_space
from autoprox.statistics.collector import MeasurementSetting
from autoprox.statistics.untrained_networks import untrained_space_networks
from autoprox.zoo import ProxyError
from autoprox.zoo.expression_proxies import PROXIES
from autoprox.zoo.functions import (
    FUNCTION_PROXIES,
    RANK_COMBINATIONS,
    RankCombination,
    SharedNetworkPasses,
    measure_function_proxies,
)
from autoprox.zoo.proxy_loading import resolve_proxy

PARTS = ("az-nas-expressivity", "az-nas-trainability", "az-nas-complexity")
LATER = ("swap", "w-pca", "l-swag", "lpzero-released", "croze", "az-nas-progressivity", *PARTS)


def measured(name: str, change: Callable[[TransformerNetwork], None], *blocks: int) -> float:
    """A proxy of a network with this many heads in each block, changed."""
    network = SPACE.build(tiny(12, *((heads, 1.0) for heads in blocks)), classes=4, seed=1)
    with torch.no_grad():
        change(network)
    return measure_function_proxies(network, noise(4, size=3), [name])[name]


def silence_blocks(network: TransformerNetwork) -> None:
    """Leave the blocks nothing but their residual connections."""
    for block in network.transformer_blocks:
        for branch in block.branches():
            for parameter in branch.parameters():
                parameter.zero_()


def silence_everything(network: TransformerNetwork) -> None:
    for parameter in network.parameters():
        parameter.zero_()


def test_features_that_do_not_vary_fill_no_dimension() -> None:
    assert measured("az-nas-expressivity", silence_everything, 1, 2) == 0
    assert measured("az-nas-progressivity", silence_everything, 1, 2) == 0


def test_blocks_that_pass_their_input_on_have_its_entropy() -> None:
    assert measured("az-nas-progressivity", silence_blocks, 1, 2, 1) == pytest.approx(0, abs=1e-9)
    one = measured("az-nas-expressivity", silence_blocks, 1)
    assert measured("az-nas-expressivity", silence_blocks, 1, 2, 1) == pytest.approx(3 * one)


def test_one_block_has_no_progressivity_but_the_other_terms() -> None:
    assert np.isnan(measured("az-nas-progressivity", lambda network: None, 2))
    for part in PARTS:
        assert np.isfinite(measured(part, lambda network: None, 2))


def test_an_identity_has_a_spectral_norm_near_one() -> None:
    """Of many tokens the estimate of its Jacobian is the identity, whose score is 0."""
    network = SPACE.build(tiny(4, (1, 1.0)), classes=4)
    with torch.no_grad():
        silence_blocks(network)
    batch = noise(4, size=2000)
    score = measure_function_proxies(network, batch, ["az-nas-trainability"])
    assert -0.001 < score["az-nas-trainability"] <= 0.001


def test_units_that_are_never_active_have_one_pattern() -> None:
    assert measured("swap", silence_everything, 1, 2) == 1
    assert measured("w-pca", silence_everything, 1, 2) > 0


def test_without_gradients_nothing_is_consistent_or_steady() -> None:
    def silence_head(network: TransformerNetwork) -> None:
        for parameter in network.head.parameters():
            parameter.zero_()

    assert measured("croze", silence_head, 1, 2) == 0
    assert measured("l-swag", silence_head, 1, 2) == 0


def test_patterns_of_more_samples_than_a_word_has_bits() -> None:
    network = SPACE.build(tiny(4, (1, 1.0)), classes=4, seed=3)
    batch = load_image_batch("noise", SPACE.input_shape, 70, 0, classes=4)
    outputs: list[torch.Tensor] = []
    network.blocks[0].fc1.register_forward_hook(lambda *seen: outputs.append(seen[2].detach()))
    found = measure_function_proxies(network, batch, ["swap"])["swap"]
    columns = np.unique(outputs[0].flatten(1).numpy() > 0, axis=1).shape[1]
    assert found == columns
    few = measure_function_proxies(network, noise(4, size=2), ["swap"])["swap"]
    assert few <= 4


@pytest.mark.parametrize("name", ["pit-nano", "swin-nano", "bignas-nano"])
def test_networks_of_stages_have_all_of_them(name: str) -> None:
    """Their widths and numbers of tokens change on the way."""
    space = get_space(name)
    network = space.build(space.sample(Random(0)), classes=4, seed=1)
    batch = load_image_batch("noise", space.input_shape, 2, 0, classes=4)
    found = measure_function_proxies(network, batch, LATER)
    assert np.isfinite(list(found.values())).all(), found


ARCHITECTURES = [
    tiny(8, (1, 2.0), (2, 1.0)),
    tiny(12, (2, 2.0)),
    tiny(8, (1, 1.0)),
    tiny(4, (2, 1)),
]


def test_az_nas_adds_the_logarithms_of_ranks() -> None:
    names = ["az-nas", "snip", "az-nas-complexity"]
    proxies = MeasuredProxies(names)
    found: list[dict[str, float | None]] = []
    networks = untrained_space_networks(SPACE, ARCHITECTURES)
    proxies.measured(
        networks,
        MeasurementSetting({"noise": noise(4)}),
        5,
        WorkerPool(1),
        lambda values: found.append(dict(values.values["noise"])),
    )
    expected: NDArray[np.float64] = np.zeros(4)
    alone = []
    for network in networks:
        built = network.build(torch.device("cpu"))(4)
        passes = SharedNetworkPasses(built, noise(4), 5)
        alone.append([FUNCTION_PROXIES[part].function(passes) for part in PARTS])
    for column in zip(*alone, strict=True):
        expected += np.log(rankdata(column) / 4)
    np.testing.assert_allclose(proxies.scores("az-nas", found), expected)
    np.testing.assert_array_equal(proxies.scores("az-nas-complexity", found), [a[2] for a in alone])


def test_networks_without_a_term_are_not_compared() -> None:
    proxies = MeasuredProxies(["az-nas"])
    values: list[dict[str, float | None]] = [
        dict(zip(PARTS, terms, strict=True))
        for terms in [(1.0, 2.0, 7.0), (3.0, None, 9.0), (2.0, 2.0, 8.0)]
    ]
    expected = [np.log(1 / 2) + np.log(1.5 / 2) + np.log(1 / 2), np.nan, np.log(1.5 / 2)]
    np.testing.assert_allclose(proxies.scores("az-nas", values), expected)
    assert np.isnan(proxies.scores("az-nas", [{}, {}])).all()


def test_a_combination_is_no_expression_and_needs_functions() -> None:
    rule = "an expression is needed, but az-nas compares networks by their ranks: `rank` and"
    with pytest.raises(ProxyError, match=rule):
        _ = resolve_proxy("az-nas").tree
    for parts, others in (((), "none"), (("snip", "swap"), "snip"), (("novel",), "novel")):
        with PROXIES.trial("own", RankCombination("ours", "own", "1", parts, "")):
            rule = f"own must combine functions of the zoo, but got {others}"
            with pytest.raises(ProxyError, match=rule):
                MeasuredProxies(["own"])


def test_a_combination_is_refused_with_its_parts() -> None:
    pair = RankCombination("ours", "own", "1", ("swap", "mgm"), "")
    with PROXIES.trial("own", pair):
        proxies = MeasuredProxies(["own", "mgm"])
        [network] = untrained_space_networks(SPACE, ARCHITECTURES[:1])
        found = proxies.refused(network, MeasurementSetting({"noise": noise(4, size=1)}), 0)
    assert found == {"own": "swap compares samples: the batch must have at least 2, but has 1"}


@pytest.mark.parametrize("name", RANK_COMBINATIONS)
def test_each_combination_is_described(name: str) -> None:
    own = RANK_COMBINATIONS[name]
    for text in (own.citation, own.equation, own.rule):
        assert text.strip()
    assert own.function_names() == own.parts


def test_workers_do_not_disturb_each_other() -> None:
    """Each worker counts the operations of its own thread, while others run backward passes."""
    names = ["az-nas", "croze", "l-swag", "grasp"]
    networks = untrained_space_networks(SPACE, ARCHITECTURES * 4)
    runs: list[list[NetworkValues]] = [[], []]
    for workers, found in zip((1, 4), runs, strict=True):
        pool = WorkerPool(workers)
        setting = MeasurementSetting({"noise": noise(4)})
        MeasuredProxies(names).measured(networks, setting, 5, pool, found.append)
    alone, together = ([own.model_copy(update={"seconds": 0}) for own in run] for run in runs)
    assert together == alone
    assert not any(own.failure for own in alone)
