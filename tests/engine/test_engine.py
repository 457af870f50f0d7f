"""The engine against the naive evaluator, and against itself under every way of running it."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers import naive
from helpers.measuring import Conditions, cached, streamed
from helpers.networks import SPACE
from helpers.trees import (
    GRAMMAR,
    NUMBERS,
    SNIP,
    aligns,
    assert_same_bits,
    distinct,
    random_trees,
    with_numbers,
)
from scipy.stats import rankdata

from autoprox.engine.tree_evaluator import ProxyScores, TreeEvaluator
from autoprox.language import STATISTICS, STRUCTURE, Tree, canonical, make_tree, parse_expression
from autoprox.primitives import OPERATIONS
from autoprox.searchspaces import Architecture
from autoprox.statistics import matrix_sources as store
from autoprox.statistics.matrix_sources import StatisticGroup, UncachedMatrices
from autoprox.statistics.packed_matrices import CHUNK

MakeSetting = Callable[..., Conditions]

SINGLE = [s for s in STATISTICS.values() if s.domain != "all"]
SAMPLES = 2  # in every batch
ALIASES = (  # of terminals that no random tree has, for others have the same value
    "sum(sum(mul(ntk.mlp.act, ntk.mlp.act_grad)))",
    "sum(sum(mul(ntk.all.weight, ntk.all.grad)))",
    "sum(nuclear_norm(add(ntk.msa.weight, msa.grad)))",
    "sum(sum(mul(ntk.mlp.weight, ones.mlp.weight)))",
)


def world_of(
    setting: Conditions, dataset: str, architectures: Sequence[Architecture]
) -> dict[str, list[Any]]:
    """What the collector measures, as the naive evaluator reads it."""
    world: dict[str, list[Any]] = {name: [] for name in (*STATISTICS, *STRUCTURE)}
    for arch in architectures:
        measured = dict(setting.measure(arch, {dataset: SINGLE}))[dataset]
        for statistic, matrices in measured.items():
            world[str(statistic)].append([matrix.double().numpy() for matrix in matrices])
        blocks = setting.space.blocks(arch)
        for name in ("width", "tokens", "heads"):
            world[name].append(np.array([getattr(block, name) for block in blocks], dtype=float))
        world["one"].append(np.ones(len(blocks)))
        for quantity in ("weight", "grad"):
            for probe in ("", "ones.", "ntk."):
                msa, mlp = (world[f"{probe}{domain}.{quantity}"][-1] for domain in ("msa", "mlp"))
                pairs = [msa[i : i + 2] + mlp[i : i + 2] for i in range(0, len(msa), 2)]
                world[f"{probe}all.{quantity}"].append([m for pair in pairs for m in pair])
    return world


def shaken(function: Callable[..., Any], rng: np.random.Generator) -> Callable[..., Any]:
    """The function with a random rounding error: of and from matrices float32's, else float64's."""

    def call(*args: Any) -> Any:
        value = np.asarray(function(*args), dtype=float)
        rounding = 2.0**-24 if any(np.ndim(arg) == 2 for arg in args) else 2.0**-52
        if value.ndim == 2:
            value = value.astype(np.float32).astype(float)  # which underflows where float32 does
        return value * (1 + rounding * rng.choice([-1, 1], size=value.shape))

    return call


def naively(trees: Sequence[Tree], worlds: Sequence[naive.World]) -> np.ndarray:
    """[trees, datasets, networks]"""
    return np.array([[naive.naive_evaluate(tree, world) for world in worlds] for tree in trees])


def conditioning(
    trees: Sequence[Tree],
    worlds: Sequence[naive.World],
    exact: np.ndarray,
    monkeypatch: pytest.MonkeyPatch,
) -> np.ndarray:
    """[trees, datasets, 1]: how far random rounding errors move a score (Monte Carlo arithmetic).

    A sum of gradients that cancel, for example, consists of rounding errors only.
    """
    moved = np.zeros(exact.shape)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        inexact = {name: shaken(function, rng) for name, function in naive.FUNCTIONS.items()}
        inputs = [_shaken_world(world, rng) for world in worlds]
        with monkeypatch.context() as patch:
            patch.setattr(naive, "FUNCTIONS", inexact)
            moved = np.fmax(moved, np.abs(naively(trees, inputs) - exact))
    return moved.max(axis=2, keepdims=True)


def _shaken_world(world: naive.World, rng: np.random.Generator) -> dict[str, list[Any]]:
    shake = shaken(lambda value: value, rng)
    return {
        name: [[shake(m) for m in v] if isinstance(v, list) else shake(v) for v in values]
        for name, values in world.items()
    }


def assert_close(
    found: np.ndarray, exact: np.ndarray, moved: np.ndarray, trees: Sequence[Tree]
) -> None:
    with np.errstate(invalid="ignore"):
        scale = np.abs(exact).max(axis=2, keepdims=True)
        allowed = 1e-14 + 1e-5 * scale + 30 * moved
        good = (found == exact) | (np.abs(found - exact) <= allowed)
    good |= np.isnan(found) & np.isnan(exact)
    assert not [str(trees[i]) for i in np.nonzero(~good.all(axis=(1, 2)))[0]]


def test_random_trees_against_the_naive_evaluator(
    setting: MakeSetting, architectures: list[Architecture], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen, trees = (
        setting(),
        random_trees(300, seed=0) + [parse_expression(text) for text in ALIASES],
    )
    rng = random.Random(0)
    trees += [with_numbers(tree, rng) for tree in trees[:150]]
    words = {*OPERATIONS, *STATISTICS, *STRUCTURE, *NUMBERS}
    assert {n.symbol for tree in trees for n in distinct(tree)} == words
    worlds = [world_of(chosen, dataset, architectures) for dataset in chosen.batches]
    found = TreeEvaluator(streamed(chosen, architectures, 1)).evaluate(trees)
    exact = naively(trees, worlds)
    moved = conditioning(trees, worlds, exact, monkeypatch)
    assert_close(found.values, exact, moved, trees)
    well_conditioned = moved <= 1e-5 * np.abs(exact).max(axis=2, keepdims=True)
    assert well_conditioned.all(axis=(1, 2)).mean() > 0.8


@pytest.mark.parametrize(
    "text",
    [
        "sum(sum(mul(mlp.act, ones.mlp.act)))",
        "sum(sum(unit(mul(ones.mlp.act, ntk.mlp.act_grad))))",
        "sum(l1_norm(sub(unit(ones.mlp.act_grad), mlp.act)))",
        "sum(std(mul(z_score(ones.mlp.act), mlp.act_grad)))",
    ],
)
@pytest.mark.parametrize("stride", [1, 3])
def test_the_all_ones_sample_meets_every_sample_of_a_batch(
    setting: MakeSetting, architectures: list[Architecture], text: str, stride: int
) -> None:
    chosen, tree = setting(stride=stride), parse_expression(text)
    assert aligns(tree)
    world = world_of(chosen, "other", architectures)
    for name in ("ones.mlp.act", "ones.mlp.act_grad"):
        world[name] = [[np.concatenate([m] * SAMPLES) for m in each] for each in world[name]]
    found = TreeEvaluator(streamed(chosen, architectures, 1)).evaluate([tree])
    np.testing.assert_allclose(found.values[0, 2], naive.naive_evaluate(tree, world), rtol=1e-4)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of statistics for all tests of this file."""
    return tmp_path_factory.mktemp("statistics")


@pytest.fixture(scope="module")
def reference(
    architectures: list[Architecture], batches: dict[str, Any]
) -> tuple[list[Tree], ProxyScores]:
    """Random trees, and their scores where every matrix is reduced alone."""
    rng = random.Random(1)
    trees = [GRAMMAR.generate(rng) for _ in range(120)]
    return trees, TreeEvaluator(streamed(Conditions(SPACE, batches), architectures, 1)).evaluate(
        trees
    )


@pytest.mark.parametrize(
    ("chunk", "memory", "workers"),
    [
        (2**16, 2**30, 1),
        (1, 2**30, 1),
        (700, 2**30, 1),
        (2**24, 2**30, 1),
        (2**16, 0, 1),
        (1000, 40_000, 2),
    ],
)
def test_scores_are_the_same_bit_for_bit(
    setting: MakeSetting,
    architectures: list[Architecture],
    folder: Path,
    reference: tuple[list[Tree], ProxyScores],
    monkeypatch: pytest.MonkeyPatch,
    chunk: int,
    memory: int,
    workers: int,
) -> None:
    """Whatever the chunks, the memory, the threads, and whether matrices are kept at all."""
    monkeypatch.setitem(CHUNK, "cpu", chunk)
    trees, expected = reference
    source = cached(setting(), architectures, SINGLE, folder=folder, memory=memory, workers=workers)
    assert_same_bits(TreeEvaluator(source).evaluate(trees), expected)


def test_trees_are_evaluated_together_as_one_by_one(
    setting: MakeSetting,
    architectures: list[Architecture],
    folder: Path,
    reference: tuple[list[Tree], ProxyScores],
) -> None:
    trees, expected = reference
    source = cached(setting(), architectures, SINGLE, folder=folder)
    alone = [TreeEvaluator(source).evaluate([tree]) for tree in trees[:40]]
    together = TreeEvaluator(source)
    together.evaluate(trees[20:])
    backwards = together.evaluate(trees[39::-1])
    for index, scores in enumerate(alone):
        for found, place in ((expected, index), (backwards, 39 - index)):
            np.testing.assert_array_equal(found.values[place], scores.values[0])
            np.testing.assert_array_equal(found.reasons[place], scores.reasons[0])


def test_no_trees_have_no_scores(setting: MakeSetting, architectures: list[Architecture]) -> None:
    found = TreeEvaluator(streamed(setting(), architectures, 1)).evaluate([])
    assert found.values.shape == found.reasons.shape == (0, 3, len(architectures))


class Counted(UncachedMatrices):
    """Remembers the groups of statistics that were read, and how many expressions of each."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.visits: list[list[StatisticGroup]] = []

    def visit(self, programs: store.Programs, take: store.Take) -> None:
        self.visits.append(list(programs))
        super().visit(programs, take)


@pytest.fixture
def counted(setting: MakeSetting, architectures: list[Architecture]) -> Counted:
    return streamed(setting(), architectures[:3], 1, Counted)


def test_no_matrix_is_read_twice_for_the_same_expression(counted: Counted) -> None:
    engine, trees = TreeEvaluator(counted), random_trees(60, seed=2)
    first = engine.evaluate(trees)
    assert len(counted.visits) == 1
    assert_same_bits(engine.evaluate(trees), first)
    engine.evaluate([make_tree("rank", tree) for tree in trees])
    assert len(counted.visits) == 1


@pytest.mark.parametrize(
    "text",
    [
        "rank(sum(l1_norm(mul(mlp.grad, mlp.weight))))",  # commutative
        "mean(l1_norm(abs(mul(mlp.weight, neg(mlp.grad)))))",  # the sign is lost
        "std(log(l1_norm(mul(data.mlp.weight, data.mlp.grad))))",  # layer code is another matter
        "sum(width)",
    ],
)
def test_equal_expressions_of_matrices_are_read_once(counted: Counted, text: str) -> None:
    engine = TreeEvaluator(counted)
    engine.evaluate([parse_expression("sum(l1_norm(mul(mlp.weight, mlp.grad)))")])
    engine.evaluate([parse_expression(text)])
    assert len(counted.visits) == 1


@pytest.mark.parametrize("memory", [0, 100_000])
def test_values_of_layers_stay_within_their_memory(counted: Counted, memory: int) -> None:
    """What was dropped is computed again, to the same bits."""
    trees = random_trees(60, seed=2)
    expected = TreeEvaluator(counted).evaluate(trees)
    counted.memo = memory
    bounded, most = TreeEvaluator(counted), [0, 0]
    for tree, values in zip(trees, expected.values, strict=True):
        np.testing.assert_array_equal(bounded.evaluate([tree]).values[0], values)
        vectors = [(own.size, sum(v.nbytes for v in bounded.memo[own])) for own in [*bounded.memo]]
        reduced = [(own.size, bounded._reduced[own].nbytes) for own in [*bounded._reduced]]
        held = [sum(1000 * size + values for size, values in own) for own in (vectors, reduced)]
        most = [max(pair) for pair in zip(most, held, strict=True)]
    assert 0.6 * memory / 4 <= most[0] <= memory / 4
    assert 0.6 * memory * 3 / 4 <= most[1] <= memory * 3 / 4


def test_a_domain_of_all_layers_shares_its_parts(counted: Counted) -> None:
    engine = TreeEvaluator(counted)
    engine.evaluate([parse_expression("sum(sum(add(log(all.grad), all.weight)))")])
    assert {len(group) for group in counted.visits[0]} == {2}
    for domain in ("msa", "mlp"):
        engine.evaluate([parse_expression(f"sum(sum(add(log({domain}.grad), {domain}.weight)))")])
    assert len(counted.visits) == 1


def test_only_what_is_new_is_read(counted: Counted) -> None:
    engine = TreeEvaluator(counted)
    engine.evaluate(
        [parse_expression("sum(sum(msa.weight))"), parse_expression("sum(sum(abs(msa.weight)))")]
    )
    engine.evaluate(
        [
            parse_expression("sum(sum(msa.weight))"),
            parse_expression("sum(mul(sum(mlp.grad), sum(mlp.act)))"),
        ]
    )
    read = [{str(s) for group in visit for s in group} for visit in counted.visits]
    assert read == [{"msa.weight"}, {"mlp.grad", "mlp.act"}]


def test_layer_vectors_are_ordered_by_depth(
    setting: MakeSetting, architectures: list[Architecture]
) -> None:
    chosen = setting()
    engine = TreeEvaluator(streamed(chosen, architectures, 1))
    norms = canonical(parse_expression("l1_norm(all.weight)"))
    engine.evaluate([make_tree("sum", norms)])
    expected = world_of(chosen, "few", architectures)["all.weight"]
    found = dict(zip(map(tuple, engine.layers.sets), engine.vectors([norms]), strict=True))
    for networks, vectors in found.items():
        for place, network in enumerate(networks):
            sums = [np.abs(matrix).sum() for matrix in expected[network]]
            np.testing.assert_allclose(vectors[0, place], sums, rtol=1e-5)


def test_the_layer_vectors_that_were_used_last_stay(
    setting: MakeSetting, architectures: list[Architecture]
) -> None:
    engine = TreeEvaluator(streamed(setting(), architectures, 1))
    engine.evaluate([parse_expression("sum(neg(width))")])
    engine.source.memo = 4 * 2 * engine.memo.bytes
    engine = TreeEvaluator(engine.source)
    for name in ("width", "heads", "width", "tokens"):
        engine.evaluate([parse_expression(f"sum(neg({name}))")])
    assert set(map(str, engine.memo)) == {"neg(width)", "neg(tokens)"}


def test_ranks_are_among_the_networks_that_are_compared(counted: Counted) -> None:
    engine = TreeEvaluator(counted)
    plain, ranked = parse_expression(SNIP), parse_expression(f"rank({SNIP})")
    everything = engine.evaluate([plain, ranked])
    np.testing.assert_array_equal(everything.values[1], rankdata(everything.values[0], axis=-1))
    some = engine.evaluate([plain, ranked], [2, 0])
    np.testing.assert_array_equal(some.values[0], everything.values[0][:, [2, 0]])
    np.testing.assert_array_equal(some.values[1], rankdata(some.values[0], axis=-1))
    assert some.values.shape == (2, 3, 2)
