"""Measures of language models: a sample is a sequence, and its input are its embeddings."""

import numpy as np
import pytest
from helpers.plain_measures import PLAIN, SEED, Plain
from torch import Tensor
from torch.nn import functional

from autoprox.inputs.batch import IGNORED_LABEL, Batch
from autoprox.inputs.batch_loading import load_token_batch
from autoprox.searchspaces import Architecture, TransformerNetwork, get_space
from autoprox.searchspaces.gpt2 import GPT2Space
from autoprox.searchspaces.language_model_bases import TokenSpace
from autoprox.zoo.functions import FUNCTION_PROXIES, measure_function_proxies


class Small(GPT2Space):
    """GPT-2 with few tokens."""

    vocabulary = 40
    context = 10


SPACE = Small("small", "GPT-2 with few tokens", {})
CHOICES = {"n_layer": 2, "d_embed": 24, "d_model": (16, 24), "d_inner": (40, 56), "n_head": (2, 4)}


def causal_batch() -> Batch:
    """Sequences with different numbers of tokens to predict."""
    batch = load_token_batch(SPACE, batch_size=3, length=9, seed=1)
    batch.labels[0, 4:] = batch.labels[2, ::2] = IGNORED_LABEL
    return batch


@pytest.fixture(scope="module")
def network() -> TransformerNetwork:
    return SPACE.build(Architecture(SPACE.name, CHOICES), seed=1)


@pytest.mark.parametrize("name", FUNCTION_PROXIES)
def test_each_measure_is_its_equation(network: TransformerNetwork, name: str) -> None:
    batch = causal_batch()
    found = measure_function_proxies(network, batch, [name], SEED)[name]
    embedded = functional.embedding(batch.inputs, network.embedding.weight.detach())
    expected = PLAIN[name](Plain(network, embedded, batch.labels))
    assert found == pytest.approx(expected, rel=1e-5, abs=0)


def test_a_sequence_that_predicts_nothing_has_no_gradient(network: TransformerNetwork) -> None:
    batch = causal_batch()
    batch.labels[1] = IGNORED_LABEL
    values = measure_function_proxies(network, batch, ["zico", "prenas"])
    assert np.isnan(values["zico"])
    assert np.isfinite(values["prenas"])


def flexibert(*operations: str) -> tuple[TokenSpace, TransformerNetwork]:
    space = get_space("flexibert")
    depth = len(operations)
    choices = {
        "hidden_size": 128,
        "depth": depth,
        "operation": operations,
        "num_operation_heads": (2,) * depth,
        "feed_forward_dimension": (512,) * depth,
        "num_feed_forward": (3, 1),
    }
    return space, space.build(Architecture(space.name, choices), seed=0)


def test_every_hidden_layer_has_units() -> None:
    """Three feed-forward layers in the first block, one in the second."""
    space, network = flexibert("dsc5", "dct")
    batch = load_token_batch(space, batch_size=2, length=8, seed=0)
    outputs: list[Tensor] = []
    for layer in (*network.blocks[0].hidden, *network.blocks[1].hidden):
        layer.register_forward_hook(lambda *seen: outputs.append(seen[2].detach()))
    values = measure_function_proxies(network, batch, list(FUNCTION_PROXIES))
    assert np.isfinite(list(values.values())).all()
    outputs.clear()
    assert measure_function_proxies(network, batch, ["naswot"])["naswot"] == values["naswot"]
    signs = [(output > 0).flatten(1) for output in outputs]
    kernel = [[sum(float((s[i] == s[j]).sum()) for s in signs) for j in (0, 1)] for i in (0, 1)]
    assert kernel[0][0] == 8 * 4 * 512
    assert values["naswot"] == pytest.approx(np.log(np.linalg.det(kernel)), rel=1e-6)


def test_confidence_of_heads_that_do_not_attend() -> None:
    """The published code takes queries, keys and values, or the input of a transform."""
    space, network = flexibert("dft", "dsc5")
    batch = load_token_batch(space, batch_size=2, length=8, seed=0)
    outputs: list[Tensor] = []
    for layer in (network.blocks[0].mixer.input, network.blocks[1].mixer.qkv):
        layer.register_forward_hook(lambda *seen: outputs.append(seen[2].detach()))
    found = measure_function_proxies(network, batch, ["head_confidence"])["head_confidence"]
    expected = sum(part.amax(1).mean() for part in (outputs[0], *outputs[1].chunk(3, -1)))
    assert found == pytest.approx(float(expected), rel=1e-5)
