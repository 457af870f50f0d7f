"""The engine on a CUDA device that is not there: fake tensors have a device but no values."""

import random
from collections.abc import Callable, Iterator

import pytest
import torch
from test_engine import GRAMMAR, distinct, random_trees
from torch import Tensor
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from autoprox.engine import Program, _aligned, _parts
from autoprox.language import (
    NETWORK,
    OPERATIONS,
    STATISTICS,
    Statistic,
    Tree,
    canonical,
    parse,
    statistics,
)
from autoprox.primitives import PRIMITIVES, Primitive, apply


def layer_trees(count: int) -> Iterator[Tree]:
    """Random reductions of matrices, over one domain each."""
    rng, found = random.Random(3), 0
    while found < count:
        for node in distinct(canonical(GRAMMAR.generate(rng))):
            for part in _parts(node):
                found += 1
                yield part


def fake_matrices(part: Tree) -> dict[Statistic, Tensor]:
    """One all-ones sample of 5 tokens, and two samples of a batch."""
    shapes = {"weight": (7, 6, 4), "grad": (7, 6, 4), "act": (7, 10, 4), "act_grad": (7, 10, 4)}
    values = {}
    for statistic in statistics(part):
        n, rows, columns = shapes[statistic.quantity]
        one = statistic.probe == "ones" and statistic.quantity.startswith("act")
        values[statistic] = torch.empty(n, rows // 2 if one else rows, columns, device="cuda")
    return values


def test_programs_of_matrices_are_clean_on_cuda() -> None:
    """Every operation stays on the device and none waits for it."""
    parts = list(layer_trees(400))
    assert {n.symbol for part in parts for n in distinct(part)} >= {*PRIMITIVES}
    with FakeTensorMode():
        for part in parts:
            reduced = Program([part])(_aligned(fake_matrices(part)))
            assert (reduced.device.type, reduced.dtype) == ("cuda", torch.float64)
            assert reduced.shape == (1, 7)


def test_code_of_layers_and_networks_is_clean_on_cuda() -> None:
    def visit(tree: Tree, args: list[Tensor | None]) -> Tensor | None:
        if tree.type.level == "Matrix":
            return None
        if not args or args[0] is None:
            return torch.empty(3, 7, 4, dtype=torch.float64, device="cuda")
        level = "network" if tree.args[0].type == NETWORK else "layers"
        value = apply(OPERATIONS[tree.symbol], args, level)
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
    monkeypatch.setattr("autoprox.engine.PRIMITIVES", {**PRIMITIVES, "neg": bad})
    part = parse("sum(neg(msa.weight))")
    with FakeTensorMode(), pytest.raises(error):
        Program([part])({STATISTICS["msa.weight"]: torch.empty(2, 3, 4, device="cuda")})
