"""Each measure against its paper's equation: sample by sample, `backward` and numpy, float64."""

import pytest
from helpers.networks import noise
from helpers.plain_measures import PLAIN, SEED, Plain

from autoprox.searchspaces import TransformerNetwork
from autoprox.zoo.functions import MEASURES, measure_all

BATCH = noise(4, size=4)


@pytest.mark.parametrize("name", MEASURES)
def test_each_measure_is_its_equation(network: TransformerNetwork, name: str) -> None:
    found = measure_all(network, BATCH, [name], SEED)[name]
    assert found == pytest.approx(
        PLAIN[name](Plain(network, BATCH.inputs, BATCH.labels)), rel=1e-5, abs=0
    )
