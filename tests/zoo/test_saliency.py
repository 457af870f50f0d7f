"""SynFlow and DSS on networks with and without pooling, in plain torch and double precision."""

import copy

import numpy as np
import pytest
import torch
from helpers.measuring import Conditions, streamed
from helpers.naive import Array
from helpers.networks import noise, tiny
from scipy.stats import rankdata
from torch import Tensor, nn

from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.inputs.batch import Batch
from autoprox.inputs.batch_loading import load_token_batch
from autoprox.searchspaces import Architecture, SearchSpace, TransformerNetwork, get_space
from autoprox.zoo.expression_proxies import parse_with_zoo_names

NANO = [tiny(8, (1, 2.0), (2, 2.0)), tiny(12, (2, 3.0)), tiny(16, (1, 2.0), (2, 3.0), (1, 4.0))]
PIT = [
    {"base_dim": 16, "mlp_ratio": 2, "depth": [1, 4, 2], "num_heads": heads}
    for heads in ([2, 2, 4], [2, 4, 4], [2, 4, 8])
]
GPT2 = [
    {"n_layer": 1, "d_embed": 32, "d_model": [model], "d_inner": [192], "n_head": [2]}
    for model in (32, 48, 64)
]


def nuclear(matrix: Tensor) -> Tensor:
    return torch.linalg.svdvals(matrix).sum()


def plainly(network: TransformerNetwork, inputs: Tensor) -> tuple[float, float, float]:
    """SynFlow and the two parts of DSS: layers are known by their shape, as in its code."""
    network = copy.deepcopy(network).double()
    for parameter in network.parameters():
        parameter.data.abs_()
    network(torch.ones_like(network.ones(inputs)).double()).sum().backward()
    flow = diversity = saliency = 0.0
    for name, layer in network.named_modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            weight, grad = (x.detach().flatten(1) for x in (layer.weight, layer.weight.grad))
            sum_ = float((weight * grad).abs().sum())
            flow += sum_
            is_linear, is_square = isinstance(layer, nn.Linear), len(weight) == weight.shape[1]
            if name.endswith("qkv") or name.endswith("proj") or (is_linear and is_square):
                diversity += float(nuclear(weight) * nuclear(grad))
            elif name.endswith(("fc1", "fc2", "conv", "fc", "head")):
                saliency += sum_
    return flow, diversity, saliency


def case(name: str) -> tuple[SearchSpace, list[Architecture], Batch]:
    if name == "autoformer-nano":
        return get_space(name), NANO, noise(4)
    space, choices = get_space(name), {"pit": PIT, "gpt2-nano": GPT2}[name]
    architectures = [space.architecture(own) for own in choices]
    images = Batch(torch.randn(2, 3, 224, 224), torch.tensor([0, 3]), 4, "")
    batch = images if name == "pit" else load_token_batch(space, batch_size=2, length=8, seed=0)
    return space, architectures, batch


@pytest.mark.parametrize("name", ["autoformer-nano", "pit", "gpt2-nano"])
def test_saliency_is_that_of_magnitudes(name: str) -> None:
    space, architectures, batch = case(name)
    given = Conditions(space, {"data": batch}, seed=1)
    networks = (space.build(a, batch.classes, given.network_seed(a)) for a in architectures)
    plain = np.array([plainly(network, batch.inputs) for network in networks])
    flow, diversity, saliency = plain.T
    trees = map(parse_with_zoo_names, ("synflow", "dss", "dss++"))
    found: Array = TreeEvaluator(streamed(given, architectures)).evaluate(trees).values[:, 0]
    np.testing.assert_allclose(found[0], flow, rtol=1e-4)
    np.testing.assert_allclose(found[1], diversity + saliency, rtol=1e-4)
    assert found[2].tolist() == (rankdata(diversity) + rankdata(saliency)).tolist()
