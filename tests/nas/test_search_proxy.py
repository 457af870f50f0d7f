"""What a search measures of single networks, against the engine and against numpy."""

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from helpers.measuring import Conditions, own_weights, sliced_weights, streamed
from helpers.naive import naive_evaluate
from helpers.networks import SPACE, noise
from torch import nn

from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.errors import MeasurementError
from autoprox.language import EVERY_STATISTIC, parse_expression
from autoprox.language.grammar import Grammar
from autoprox.language.layer_domains import DOMAIN_PARTS, SINGLE_DOMAINS
from autoprox.nas.candidate_measurement import MeasurementOutcome, SearchProxy
from autoprox.searchspaces import Architecture, get_space
from autoprox.statistics.collector import collect_statistics
from autoprox.statistics.sliced_networks import InheritanceError
from autoprox.zoo.expression_proxies import EXPRESSION_PROXIES, parse_with_zoo_names
from autoprox.zoo.prior_file import LANGUAGE

SETTING = Conditions(SPACE, {"noise": noise(10)})
GRADIENTS = "sum(sum(abs(mul(all.weight, all.grad))))"


def sampled(count: int, seed: int = 0) -> list[Architecture]:
    rng = random.Random(seed)
    return [SPACE.sample(rng) for _ in range(count)]


def outcomes(scorer: Any, architectures: Sequence[Architecture]) -> list[MeasurementOutcome]:
    found: list[MeasurementOutcome] = []
    scorer.measure(architectures, found.append)
    return found


def random_proxies(count: int, **options: Any) -> list[str]:
    grammar, rng = Grammar(**options), random.Random(3)
    return [str(grammar.generate(rng)) for _ in range(count)]


@pytest.mark.parametrize("name", [*EXPRESSION_PROXIES, *random_proxies(12)])
def test_fresh_terms_combine_to_the_scores_of_the_engine(name: str) -> None:
    tree, architectures = parse_with_zoo_names(name), sampled(6)
    expected = TreeEvaluator(streamed(SETTING, architectures, 1)).evaluate([tree]).values[0, 0]
    proxy = SearchProxy(tree)
    terms = np.array([o.terms for o in outcomes(own_weights(proxy, SETTING), architectures)])
    assert proxy.scores(terms).tolist() == expected.tolist()


def test_the_terms_of_a_network_do_not_depend_on_workers_or_company() -> None:
    architectures = sampled(8)
    for scorer in (own_weights, sliced_weights):
        proxy = SearchProxy(parse_with_zoo_names("dss++"), by_block=True)
        together = outcomes(scorer(proxy, SETTING, workers=3), architectures)
        alone = [outcomes(scorer(proxy, SETTING), [a])[0] for a in architectures]
        assert together == alone


def world_of_slices(architecture: Architecture) -> dict[str, list[Any]]:
    """Every terminal of a candidate, cut by hand out of what the largest network has."""
    largest = SPACE.largest()
    seed = SETTING.network_seed(largest)
    network = SPACE.build(largest, classes=10, seed=seed)
    single = [s for s in EVERY_STATISTIC.values() if s.domain in SINGLE_DOMAINS]
    measured = collect_statistics(network, SETTING.batches["noise"], single, seed=seed)
    blocks = SPACE.blocks(architecture)
    world: dict[str, list[Any]] = {
        "width": [np.array([float(b.width) for b in blocks])],
        "tokens": [np.array([float(b.tokens) for b in blocks])],
        "heads": [np.array([float(b.heads) for b in blocks])],
        "one": [np.ones(len(blocks))],
    }
    for statistic, matrices in measured.items():
        own = []
        if statistic.domain in ("stem", "keep", "widen", "head", "other"):
            cut = {"stem": np.s_[: blocks[0].width], "head": np.s_[:, : blocks[-1].width]}
            place = cut.get(statistic.domain, np.s_[:])
            world[str(statistic)] = [[matrix.double().numpy()[place] for matrix in matrices]]
            continue
        if statistic.domain == "qkv":
            matrices = [m for matrix in matrices for m in (matrix, matrix)]
        for i, block in enumerate(blocks):
            first, second = (matrices[2 * i + layer].double().numpy() for layer in (0, 1))
            if statistic.quantity.startswith("act"):
                own += [first[:, : block.hidden], second[:, : block.width]]
            elif statistic.domain == "mlp":
                own += [first[: block.hidden, : block.width], second[: block.width, : block.hidden]]
            else:
                third = len(first) // 3
                rows = [r for r in range(len(first)) if r % third < block.inner]
                own += [first[rows, : block.width], second[: block.width, : block.inner]]
        world[str(statistic)] = [own[::2] if statistic.domain == "qkv" else own]
    for name, statistic in EVERY_STATISTIC.items():
        if statistic.domain in DOMAIN_PARTS:
            parts = [replace(statistic, domain=d) for d in DOMAIN_PARTS[statistic.domain]]
            layers = [matrix for part in parts for matrix in world[str(part)][0]]
            if statistic.domain == "all":
                msa, mlp = layers[: len(layers) // 2], layers[len(layers) // 2 :]
                starts = range(0, len(msa), 2)
                layers = [m for i in starts for m in (*msa[i : i + 2], *mlp[i : i + 2])]
            world[name] = [layers]
    return world


@pytest.mark.parametrize(
    "name",
    [
        # The oracle has no rule for activations of two batches of different sizes in one operation.
        *(own for own in EXPRESSION_PROXIES if own != LANGUAGE),
        "mean(nuclear_norm(sub(msa.weight, ntk.msa.grad)))",
        "logsumexp(std(mlp.act))",
        "std(effective_rank(all.grad))",
        "sum(mul(frobenius_norm(mlp.weight), l1_norm(mlp.act_grad)))",
        "mul(mean(l1_norm(ones.all.grad)), sum(heads))",
    ],
)
def test_inherited_terms_are_those_of_slices_of_the_largest_network(name: str) -> None:
    proxy = SearchProxy(parse_with_zoo_names(name))
    for architecture in sampled(2, seed=4):
        world = world_of_slices(architecture)
        [outcome] = outcomes(sliced_weights(proxy, SETTING), [architecture])
        expected = [naive_evaluate(term, world)[0] for term in proxy.terms]
        np.testing.assert_allclose(outcome.terms, expected, rtol=2e-4, atol=1e-7)


@pytest.mark.parametrize("name", ["dss++", "logsumexp(std(add(mlp.act, ones.mlp.act)))"])
def test_the_largest_network_inherits_itself(name: str) -> None:
    proxy = SearchProxy(parse_with_zoo_names(name))
    [own] = outcomes(own_weights(proxy, SETTING), [SPACE.largest()])
    [inherited] = outcomes(sliced_weights(proxy, SETTING), [SPACE.largest()])
    np.testing.assert_allclose(inherited.terms, own.terms, rtol=1e-6)


def test_inheritance_measures_one_network_once(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = forward_passes(monkeypatch)
    scorer = sliced_weights(SearchProxy(parse_expression(GRADIENTS)), SETTING)
    outcomes(scorer, sampled(40))
    outcomes(scorer, sampled(40, seed=1))
    assert len(passes) == 1


def test_a_largest_network_that_fails_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise RuntimeError("too large\nby far")

    monkeypatch.setattr(type(SPACE), "network", failing)
    message = (
        r"^the largest network of autoformer-nano must be measured, .* RuntimeError: too large$"
    )
    with pytest.raises(MeasurementError, match=message):
        outcomes(sliced_weights(SearchProxy(parse_expression(GRADIENTS)), SETTING), sampled(3))


def test_a_space_without_slices_cannot_inherit() -> None:
    setting = Conditions(get_space("flexibert"), {})
    with pytest.raises(InheritanceError, match=r"flexibert is not; choose from .*autoformer-ti"):
        sliced_weights(SearchProxy(parse_expression(GRADIENTS)), setting)


def forward_passes(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """A list that grows by one with each forward pass of a network."""
    passes: list[None] = []
    network = type(SPACE.network(SPACE.largest(), classes=1))
    forward = network.forward

    def counted(self: Any, images: torch.Tensor) -> torch.Tensor:
        passes.append(None)
        return forward(self, images)

    monkeypatch.setattr(network, "forward", counted)
    return passes


@pytest.mark.parametrize(
    ("expression", "count"),
    [("l2_norm", 0), ("sept", 0), ("synflow", 5), ("snip", 5), ("dss++", 5), ("ntsr", 5)],
)
def test_only_the_passes_that_a_proxy_needs_are_run(
    expression: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = forward_passes(monkeypatch)
    outcomes(own_weights(SearchProxy(parse_with_zoo_names(expression)), SETTING), sampled(5))
    assert len(passes) == count


def test_nothing_is_built_for_a_proxy_of_structure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(SPACE), "build", None)
    [outcome] = outcomes(
        own_weights(SearchProxy(parse_expression("sum(width)")), SETTING), [SPACE.largest()]
    )
    assert outcome.terms == (12 * 128.0,)


def test_a_network_that_fails_is_recorded_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build, broken = type(SPACE).build, sampled(5)[2]

    def failing(self: Any, arch: Architecture, classes: int = 1000, seed: int = 0) -> nn.Module:
        if arch == broken:
            raise RuntimeError("out of luck\nand more")
        return build(self, arch, classes, seed)

    monkeypatch.setattr(type(SPACE), "build", failing)
    found = outcomes(
        own_weights(SearchProxy(parse_expression(GRADIENTS)), SETTING, workers=2), sampled(5)
    )
    assert [o.failure for o in found] == [None, None, "RuntimeError: out of luck", None, None]
    assert all(len(o.terms) == 1 for o in found if o.failure is None)


def test_a_term_that_is_not_finite_is_a_failure() -> None:
    huge = "exp(exp(exp(mlp.weight)))"
    for _ in range(5):
        huge = f"square({huge})"
    huge = f"sum(sum({huge}))"
    [outcome] = outcomes(
        own_weights(SearchProxy(parse_expression(f"add(rank(sum(one)), {huge})")), SETTING),
        sampled(1),
    )
    assert outcome == MeasurementOutcome(failure="not finite")


def test_the_terms_of_blocks_add_up_where_the_last_reduction_is_a_sum() -> None:
    msa = "sum(mul(nuclear_norm(ones.msa.grad), nuclear_norm(ones.msa.weight)))"
    proxy = SearchProxy(
        parse_expression(f"add(rank({msa}), rank(sum(l1_norm(mlp.grad))))"), by_block=True
    )
    for outcome, architecture in zip(
        outcomes(own_weights(proxy, SETTING), sampled(5)), sampled(5), strict=True
    ):
        for term, blocks in zip(outcome.terms, outcome.blocks, strict=True):
            assert len(blocks) == architecture["depth"]
            assert sum(blocks) == pytest.approx(term, rel=1e-12)


def test_layers_outside_blocks_are_of_no_block() -> None:
    texts = "sum(l1_norm(salient.weight))", "sum(l1_norm(mlp.weight))", "sum(l1_norm(head.weight))"
    whole, mlp, head = (SearchProxy(parse_expression(text), by_block=True) for text in texts)
    for scorer in (own_weights, sliced_weights):
        [one], [two], [three] = (
            outcomes(scorer(p, SETTING), sampled(1)) for p in (whole, mlp, head)
        )
        assert one.blocks == two.blocks
        assert one.terms[0] == pytest.approx(two.terms[0] + three.terms[0])
        assert three.terms[0] > 0
        assert set(three.blocks[0]) == {0.0}


def test_the_terms_of_a_block_are_those_of_its_own_layers() -> None:
    """Of proxies whose last reduction isn't a sum, with layers of every domain."""
    architecture = SPACE.largest()
    world = world_of_slices(architecture)
    for expression, domain in (
        ("std(frobenius_norm(all.weight))", "all.weight"),
        ("logsumexp(log(width))", "width"),
        ("frobenius_norm(mean(mlp.act))", "mlp.act"),
    ):
        tree = parse_expression(expression)
        [outcome] = outcomes(
            sliced_weights(SearchProxy(tree, by_block=True), SETTING), [architecture]
        )
        whole = world[domain][0]
        per_block = len(whole) // architecture["depth"]
        for block, found in enumerate(outcome.blocks[0]):
            own = {domain: [whole[block * per_block : (block + 1) * per_block]]}
            assert found == pytest.approx(naive_evaluate(tree, own)[0], rel=1e-4)
