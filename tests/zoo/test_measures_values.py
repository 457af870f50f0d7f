"""Each measure against its paper's equation: sample by sample, `backward` and numpy, float64."""

import pytest
from helpers.networks import SPACE, noise
from helpers.plain_measures import ARCH, PLAIN, SEED, Plain

from autoprox.searchspaces import TransformerNetwork
from autoprox.zoo.functions import FUNCTION_PROXIES, measure_function_proxies

BATCH = noise(4, size=4)


@pytest.fixture(scope="module")
def network() -> TransformerNetwork:
    return SPACE.build(ARCH, classes=4, seed=1)


@pytest.mark.parametrize("name", FUNCTION_PROXIES)
def test_each_measure_is_its_equation(network: TransformerNetwork, name: str) -> None:
    found = measure_function_proxies(network, BATCH, [name], SEED)[name]
    assert found == pytest.approx(
        PLAIN[name](Plain(network, BATCH.inputs, BATCH.labels)), rel=1e-5, abs=0
    )
