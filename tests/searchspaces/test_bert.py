"""The BERT space against the implementation of BERT that the ecosystem uses."""

import random

import pytest
import torch
from helpers.bert import NAMES, randomised, tokens, translated
from torch.utils.flop_counter import FlopCounterMode
from transformers import BertConfig, BertForMaskedLM

from autoprox.searchspaces import Architecture, ArchitectureError, BlockSpec
from autoprox.searchspaces.t_razor_bert import BERT, Bert

BASE = BERT.architecture({"depth": 12, "mlp_size": [3072] * 12, "num_heads": [12] * 12})
SMALLEST = BERT.architecture({"depth": 6, "mlp_size": [512] * 6, "num_heads": [4] * 6})


def test_bert_base_has_its_published_size() -> None:
    with torch.device("meta"):
        theirs = BertForMaskedLM(BertConfig())
        ours = BERT.build(BASE)
    assert sum(p.numel() for p in theirs.parameters()) == 109_514_298
    assert BERT.params(BASE) == sum(p.numel() for p in ours.parameters()) == 109_514_298


def test_logits_are_those_of_transformers() -> None:
    config = BertConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40
    )
    theirs = randomised(BertForMaskedLM(config))
    ours = Bert([BlockSpec(24, 512, 4, 24, 40)] * 2, 24)
    ours.load_state_dict(translated(theirs, NAMES))
    ids = tokens(2, 7)
    logits = ours(ids)
    torch.testing.assert_close(logits, theirs(ids).logits, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(ours(ours.embedding(ids)), logits)


@pytest.mark.parametrize("arch", [BASE, SMALLEST, BERT.sample(random.Random(0))])
def test_counts_are_those_of_the_built_network(arch: Architecture) -> None:
    with torch.device("meta"):
        network = BERT.build(arch)
    assert BERT.params(arch) == sum(p.numel() for p in network.parameters())
    with FlopCounterMode(display=False) as counter:
        network.blocks(torch.zeros(1, 128, 768, device="meta"))
    assert BERT.flops(arch) == counter.get_total_flops()


def test_bert_base_has_its_published_flops() -> None:
    """T-Razor's table IV has 22.5 G, which others count as 22.3 for the encoder at 128 tokens."""
    assert BERT.flops(BASE) / 1e9 == pytest.approx(22.35, abs=0.01)


def test_the_space_is_that_of_t_razor() -> None:
    assert BERT.size() == sum(16**depth for depth in (6, 8, 10, 12))
    assert BERT.largest()["mlp_size"] == (3072,) * 12
    assert BERT.origins(SMALLEST) == (0, 1, 2, 3, 4, 5)
    assert round(BERT.params(SMALLEST) / 1e6) == 43
    with pytest.raises(ArchitectureError, match=r"num_heads\[1\] must be one of 4, 8, 12, 16, but"):
        BERT.architecture(dict(SMALLEST.choices) | {"num_heads": [4, 6, 4, 4, 4, 4]})


def test_initialisation() -> None:
    """Normal with standard deviation 0.02; biases zero, and so the same score for every token."""
    network = Bert([BlockSpec(24, 512, 4, 24, 40)], 24)
    network.initialise(seed=1)
    drawn = ("embedding.weight", "position", "blocks.0.qkv.weight", "prediction.transform.weight")
    parameters = dict(network.named_parameters())
    for name in drawn:
        assert parameters[name].std().item() == pytest.approx(0.02, rel=0.1), name
    for name, parameter in parameters.items():
        if name.endswith("bias"):
            assert not parameter.any(), name
    assert not torch.equal(parameters["token_type"][0], parameters["token_type"][1])
