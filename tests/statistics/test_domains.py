"""The statistics of layers outside blocks, and of all that makes queries, keys and values."""

from pathlib import Path

import pytest
import torch
from helpers.measuring import Conditions, cached, streamed
from helpers.networks import SPACE, noise, tiny
from torch import nn

from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.errors import MeasurementError
from autoprox.inputs.batch import Batch
from autoprox.language import EVERY_STATISTIC, STATISTICS, LanguageError, parse_expression
from autoprox.language.layer_domains import DOMAIN_PARTS, DOMAINS, SINGLE_DOMAINS
from autoprox.searchspaces import get_space
from autoprox.statistics.collector import collect_statistics
from autoprox.statistics.untrained_networks import LayerTable, ModuleNetwork
from autoprox.zoo import parse_with_zoo_names

PIT = get_space("pit")
CHOICES = {"base_dim": 16, "mlp_ratio": 2, "depth": [1, 4, 2], "num_heads": [2, 2, 4]}
ARCH = PIT.architecture(CHOICES)
BATCH = Batch(torch.ones(2, 3, 224, 224), torch.tensor([0, 2]), 3, "")


def singles(quantity: str) -> list[str]:
    return [f"{domain}.{quantity}" for domain in SINGLE_DOMAINS]


def test_weights_and_gradients_are_matrices_of_the_layers() -> None:
    network = PIT.build(ARCH, classes=3, seed=4)
    torch.nn.functional.cross_entropy(network(BATCH.inputs), BATCH.labels).backward()
    one, two = network.blocks[1], network.blocks[6]
    layers = {
        "stem": [network.patches],
        "qkv": [block.qkv for block in network.transformer_blocks],
        "keep": [one.fc],
        "widen": [one.conv, two.conv, two.fc],
        "head": [network.head],
    }
    names = [f"{domain}.{quantity}" for domain in layers for quantity in ("weight", "grad")]
    found = collect_statistics(network, BATCH, [EVERY_STATISTIC[name] for name in names])
    for domain, own in layers.items():
        for quantity, values in (("weight", [m.weight for m in own]), ("grad", [])):
            values = values or [layer.weight.grad for layer in own]
            matrices = found[EVERY_STATISTIC[f"{domain}.{quantity}"]]
            assert [m.shape for m in matrices] == [v.flatten(1).shape for v in values]
            for matrix, value in zip(matrices, values, strict=True):
                assert value.norm() > 0
                torch.testing.assert_close(matrix, value.flatten(1), rtol=1e-4, atol=1e-7)


def test_where_layers_stand() -> None:
    structure = Conditions(PIT, {}).network(ARCH).structure()
    assert [kind for kind, _ in structure.layers("pool")] == ["widen", "keep", "widen", "widen"]
    assert structure.layers("qkv") == [("qkv", block) for block in range(7)]
    kinds = [kind for kind, _ in structure.layers("net")]
    block = ["msa", "msa", "mlp", "mlp"]
    pools = ["widen", "keep"], ["widen", "widen"]
    assert kinds == ["stem", *block, *pools[0], *block * 4, *pools[1], *block * 2, "head"]
    table = LayerTable((structure, structure))
    assert {d: table.count(1, d) for d in DOMAINS} == {d: len(structure.layers(d)) for d in DOMAINS}


@pytest.mark.parametrize("domain", DOMAIN_PARTS)
def test_a_domain_of_several_is_its_parts(domain: str, tmp_path: Path) -> None:
    given = Conditions(PIT, {"few": BATCH})
    texts = [f"sum(l1_norm({d}.grad))" for d in (domain, *DOMAIN_PARTS[domain])]
    needs = [part for s in (f"{domain}.grad",) for part in EVERY_STATISTIC[s].parts]
    trees = list(map(parse_expression, texts))
    kept = (
        TreeEvaluator(cached(given, [ARCH], needs, folder=tmp_path)).evaluate(trees).values[:, 0, 0]
    )
    again = TreeEvaluator(streamed(given, [ARCH])).evaluate(trees).values[:, 0, 0]
    assert kept.tolist() == again.tolist()
    assert kept[0] == pytest.approx(kept[1:].sum())


def test_a_reduction_over_no_layers_is_zero(tmp_path: Path) -> None:
    given, architectures = Conditions(SPACE, {"few": noise(4)}), [tiny(8, (1, 2.0))]
    texts = ["sum", "mean", "logsumexp", "effective_rank"]
    trees = [parse_expression(f"{name}(min_max(l1_norm(pool.grad)))") for name in texts]
    needs = EVERY_STATISTIC["pool.grad"].parts
    for source in (
        streamed(given, architectures),
        cached(given, architectures, needs, folder=tmp_path),
    ):
        assert TreeEvaluator(source).evaluate(trees).values.flatten().tolist() == [0.0] * len(trees)


def test_datasets_of_other_classes_have_other_heads() -> None:
    given = Conditions(SPACE, {"four": noise(4), "ten": noise(10)})
    arch = tiny(8, (1, 2.0))
    for name in ("head.weight", "ntk.head.grad"):
        keys = {given.key(arch, dataset, EVERY_STATISTIC[name]) for dataset in ("four", "ten")}
        assert len(keys) == 2
    source = streamed(given, [arch])
    [[four], [ten]] = (
        TreeEvaluator(source)
        .evaluate([parse_expression("sum(sum(square(head.weight)))")])
        .values[0]
    )
    assert four < ten


def test_a_module_has_them_by_name() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 2), nn.Flatten(), nn.Linear(16, 4), nn.Linear(4, 2))
    layers = {"stem": ["0"], "mlp": ["2"], "head": ["3"]}
    batch = Batch(torch.ones(1, 3, 3, 3), torch.tensor([1]), 2, "")
    source = streamed(Conditions(SPACE, {"few": batch}), [])
    source.networks = (ModuleNetwork(module, layers),)
    tree = parse_expression("sum(l1_norm(ones.net.weight))")
    expected = sum(float(module[i].weight.detach().abs().sum()) for i in (0, 2, 3))
    assert TreeEvaluator(source).evaluate([tree]).values[0, 0, 0] == pytest.approx(expected)
    rule = "must be a linear layer or a convolution of the module, but got '1'; choose from 0, 2, 3"
    with pytest.raises(MeasurementError, match=rule):
        ModuleNetwork(module, {"stem": ["1"]})


def test_formulas_read_them_only_where_they_are_named() -> None:
    assert set(STATISTICS) < set(EVERY_STATISTIC)
    assert {s.domain for s in STATISTICS.values()} == {"msa", "mlp", "all"}
    assert str(parse_with_zoo_names("sum(mean(ones.head.grad))")) == "sum(mean(ones.head.grad))"
    with pytest.raises(LanguageError, match=r"unknown name `head\.act`; nearest: `head\.grad`"):
        parse_expression("sum(sum(head.act))")
    with pytest.raises(LanguageError, match=r"two values of one type, got Layers\[qkv\]"):
        parse_expression("sum(add(mean(qkv.grad), mean(msa.grad)))")
