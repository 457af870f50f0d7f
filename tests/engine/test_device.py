"""The engine on a CUDA device that is not there: fake tensors have a device but no values."""

import random
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from helpers.measuring import Conditions, streamed
from helpers.trees import GRAMMAR, distinct, random_trees
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from autoprox.engine.tree_compilation import MatrixProgram, group_by_statistics, matrix_reductions
from autoprox.engine.tree_evaluator import reduce_matrices
from autoprox.language import NETWORK, STATISTICS, Tree, canonical, parse_expression, statistics
from autoprox.primitives import OPERATIONS, PRIMITIVES, Primitive, apply_primitive
from autoprox.searchspaces import Architecture
from autoprox.statistics.matrix_sources import Programs, StatisticGroup, Take, UncachedMatrices
from autoprox.statistics.packed_matrices import MatrixChunk


def layer_trees(count: int) -> Iterator[Tree]:
    """Random reductions of matrices, over one domain each."""
    rng, found = random.Random(3), 0
    while found < count:
        for parts in matrix_reductions(canonical(GRAMMAR.generate(rng))).values():
            found += len(parts)
            yield from parts


def fake_matrices(group: StatisticGroup, n: int) -> MatrixChunk:
    """Layers of 6 x 4; activations of one all-ones sample of 5 tokens, and of two of a batch."""
    shapes = {"weight": (6, 4), "grad": (6, 4), "act": (10, 4), "act_grad": (10, 4)}
    values = {}
    for statistic in group:
        rows, columns = shapes[statistic.quantity]
        one = statistic.probe == "ones" and statistic.quantity.startswith("act")
        values[statistic] = torch.empty(n, rows // 2 if one else rows, columns, device="cuda")
    return MatrixChunk.of(values)


def test_programs_of_matrices_are_clean_on_cuda() -> None:
    """Every operation stays on the device and none waits for it."""
    parts = list(layer_trees(400))
    assert {n.symbol for part in parts for n in distinct(part)} >= {
        p.name for p in PRIMITIVES.values() if "matrix" in p.levels
    }
    with FakeTensorMode():
        for part in parts:
            reduced = MatrixProgram([part])(fake_matrices(statistics(part), 7))
            assert (reduced.device.type, reduced.dtype) == ("cuda", torch.float64)
            assert reduced.shape == (1, 7)


class OnCuda(UncachedMatrices):
    """Matrices of two layers a piece, of no value."""

    def visit(self, programs: Programs, take: Take) -> None:
        for group, program in programs.items():
            layers = self.layers.starts[next(iter(group)).domain][-1]
            for datasets in self.variants(group):
                for start in range(0, layers, 2):
                    chunk = fake_matrices(group, 2)
                    take(group, datasets, np.arange(start, start + 2), program(chunk))


def test_a_pass_over_the_matrices_is_clean_on_cuda(
    setting: Callable[..., Conditions], architectures: list[Architecture]
) -> None:
    source = streamed(setting(device=torch.device("cuda")), architectures, 1, OnCuda)
    forms = [canonical(tree) for tree in random_trees(30, seed=5)]
    parts = {
        part: None for form in forms for own in matrix_reductions(form).values() for part in own
    }
    groups = group_by_statistics(parts)
    # Networks on the meta device, and the batches, can't be fake too.
    assert source.layers.structures
    assert all(map(source.variants, groups))
    with FakeTensorMode():
        found = reduce_matrices(source, groups)
    reduced = [tensor for variants in found.values() for tensor in variants.values()]
    assert len(reduced) > 20
    assert {tensor.device.type for tensor in reduced} == {"cuda"}


def test_code_of_layers_and_networks_is_clean_on_cuda() -> None:
    def visit(tree: Tree, args: list[Tensor | None]) -> Tensor | None:
        if tree.type.level == "Matrix":
            return None
        if not args or args[0] is None:
            return torch.empty(3, 7, 4, dtype=torch.float64, device="cuda")
        level = "network" if tree.args[0].type == NETWORK else "layers"
        value = apply_primitive(OPERATIONS[tree.symbol], args, level)
        assert (value.device.type, value.dtype) == ("cuda", torch.float64)
        return value

    with FakeTensorMode():
        for tree in random_trees(300, seed=4):
            assert tree.fold(visit).shape == (3, 7)


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (lambda x: x * x.sum().item(), DataDependentOutputException),
        (lambda x: x + torch.ones(3, 4), RuntimeError),
        (lambda x: x if x.max() > 0 else -x, DataDependentOutputException),
    ],
)
def test_a_fake_device_finds_what_is_not_clean(
    function: Callable[[Tensor], Tensor], error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = Primitive("neg", "map", function, None, "")
    monkeypatch.setattr("autoprox.engine.tree_compilation.PRIMITIVES", {**PRIMITIVES, "neg": bad})
    part = parse_expression("sum(neg(msa.weight))")
    with FakeTensorMode(), pytest.raises(error):
        MatrixProgram([part])(
            MatrixChunk.of({STATISTICS["msa.weight"]: torch.empty(2, 3, 4, device="cuda")})
        )
