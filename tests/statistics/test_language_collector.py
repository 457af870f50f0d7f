"""The statistics of language models against plain PyTorch, and a discovery on such a space."""

import random

import pytest
import torch
from helpers.measuring import Conditions
from helpers.plain import SINGLE, assert_same, plainly
from torch import Tensor

from autoprox.inputs.batch import Batch
from autoprox.inputs.batch_loading import load_token_batch
from autoprox.language import STATISTICS, Statistic
from autoprox.searchspaces import Architecture, SearchSpace, TransformerNetwork, get_space
from autoprox.statistics.collector import collect_statistics

GPT2 = get_space("gpt2")
SMALL: dict[str, Architecture] = {
    "gpt2": Architecture(
        "gpt2",
        {"n_layer": 2, "d_embed": 8, "d_model": [8, 8], "d_inner": [20, 12], "n_head": [2, 1]},
    ),
}


@pytest.fixture(params=SMALL)
def space(request: pytest.FixtureRequest) -> SearchSpace:
    return get_space(request.param)


def small(space: SearchSpace) -> tuple[TransformerNetwork, Batch]:
    network = space.build(SMALL[space.name], seed=3)
    return network, load_token_batch(space, 3, 6, seed=1)


def test_the_loss_is_the_cross_entropy_of_what_should_be_predicted(space: SearchSpace) -> None:
    network, batch = small(space)

    def loss(logits: Tensor, last: Tensor) -> Tensor:
        total, count = torch.zeros(()), 0
        for sequence, labels in zip(logits, batch.labels, strict=True):
            for scores, label in zip(sequence, labels.tolist(), strict=True):
                if label != -100:
                    total = total + scores.exp().sum().log() - scores[label]
                    count += 1
        return total / count

    found = collect_statistics(network, batch, SINGLE)
    assert_same(found, "", plainly(network, loss, batch.inputs))


def test_all_embeddings_are_ones_under_their_probe(space: SearchSpace) -> None:
    network, batch = small(space)
    found = collect_statistics(network, batch, SINGLE)
    ones = torch.ones(1, 6, network.embedding.embedding_dim)
    plain = plainly(network, lambda logits, last: logits.sum(), ones, absolute=True)
    assert_same(found, "ones.", plain)


def test_ntk_probe(space: SearchSpace) -> None:
    network, batch = small(space)
    outputs: list[Tensor] = []
    handle = network.final_block.register_forward_hook(lambda *seen: outputs.append(seen[2]))
    network(batch.inputs)
    handle.remove()
    generator = torch.Generator().manual_seed(5)
    signs = torch.randint(0, 2, outputs[0].shape, generator=generator) * 2.0 - 1.0
    found = collect_statistics(network, batch, SINGLE, seed=5)
    plain = plainly(network, lambda logits, last: (last * signs).sum(), batch.inputs)
    assert_same(found, "ntk.", plain)


def test_the_datasets_of_a_language_model_share_its_statistics() -> None:
    batch = load_token_batch(GPT2, 2, 4, seed=0)
    setting = Conditions(GPT2, {"cola": batch, "sst": batch})
    arch = GPT2.sample(random.Random(0))
    for statistic in STATISTICS.values():
        assert setting.key(arch, "cola", statistic) == setting.key(arch, "sst", statistic)
    other = Conditions(GPT2, {"cola": load_token_batch(GPT2, 2, 4, seed=1)})
    grad: Statistic = STATISTICS["msa.grad"]
    assert other.key(arch, "cola", grad) != setting.key(arch, "cola", grad)
