"""Programs of matrices: what they compute, keep and drop."""

import weakref
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from helpers.trees import distinct, random_trees
from torch import Tensor

from autoprox.engine.tree_compilation import MatrixProgram, matrix_reductions
from autoprox.language import STATISTICS, canonical, parse_expression, statistics
from autoprox.primitives import OPERATIONS, PRIMITIVES, Primitive, apply_primitive, operation
from autoprox.statistics.packed_matrices import MatrixChunk


def test_a_program_computes_each_subexpression_once(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["sum(exp(msa.weight))", "mean(exp(msa.weight))", "sum(mul(exp(msa.weight), msa.grad))"]
    applied: list[str] = []

    def counting(
        primitive: Primitive, args: Sequence[Tensor], level: str, out: Tensor | None = None
    ) -> Tensor:
        applied.append(primitive.name)
        return apply_primitive(primitive, args, level, out)

    monkeypatch.setattr("autoprox.engine.tree_compilation.apply_primitive", counting)
    rng = torch.Generator().manual_seed(0)
    names = ("msa.weight", "msa.grad")
    values = {STATISTICS[name]: torch.randn(5, 3, 4, generator=rng) for name in names}
    found = MatrixProgram([parse_expression(text) for text in texts])(MatrixChunk.of(values))
    weight, grad = (v.double().numpy() for v in values.values())
    expected = [np.exp(weight).sum((1, 2)), np.exp(weight).mean((1, 2))]
    expected.append((np.exp(weight) * grad).sum((1, 2)))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert sorted(applied) == ["exp", "mean", "mul", "sum", "sum"]


def test_a_program_drops_what_it_no_longer_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Tensor]] = []
    alive: list[int] = []

    def watched(
        primitive: Primitive, args: Sequence[Tensor], level: str, out: Tensor | None = None
    ) -> Tensor:
        alive.append(sum(ref() is not None for ref in made))
        value = apply_primitive(primitive, args, level, out)
        if value is not out:
            made.append(weakref.ref(value))
        return value

    monkeypatch.setattr("autoprox.engine.tree_compilation.apply_primitive", watched)
    tree = parse_expression("sum(add(exp(tanh(neg(msa.weight))), tanh(neg(sqrt(msa.weight)))))")
    MatrixProgram([tree])(MatrixChunk.of({STATISTICS["msa.weight"]: torch.randn(5, 3, 4)}))
    assert len(alive) == 8
    assert max(alive) == 2


def test_a_program_overwrites_neither_its_inputs_nor_what_it_still_needs() -> None:
    texts = ["sum(mul(exp(neg(msa.weight)), neg(neg(square(exp(neg(msa.weight)))))))"]
    texts += ["mean(tanh(exp(neg(msa.weight))))", "sum(abs(msa.weight))"]
    weight = torch.linspace(-1, 1, 60).reshape(5, 3, 4)
    kept, exact = weight.clone(), weight.double().numpy()
    chunk = MatrixChunk.of({STATISTICS["msa.weight"]: weight})
    found = MatrixProgram([parse_expression(text) for text in texts])(chunk)
    assert torch.equal(weight, kept)
    sums = np.exp(-3 * exact), np.tanh(np.exp(-exact)) / 12, np.abs(exact)
    np.testing.assert_allclose(found, [value.sum((1, 2)) for value in sums], rtol=1e-5)


def test_a_program_takes_fewer_steps_for_what_cannot_be_negative() -> None:
    program = MatrixProgram(
        [
            parse_expression("l1_norm(log(sqrt(msa.weight)))"),
            parse_expression("l1_norm(exp(msa.grad))"),
        ]
    )
    root, log, norm = (PRIMITIVES[name] for name in ("sqrt", "log", "l1_norm"))
    used = {(p.name, p.function) for p, _, _ in program.steps if p.of_magnitude}
    assert used == {
        ("sqrt", root.function),
        ("log", log.of_magnitude),
        ("l1_norm", norm.function),
        ("l1_norm", norm.of_magnitude),
    }


def test_a_program_on_several_shapes_is_the_same_as_on_each_alone() -> None:
    trees = [t for t in random_trees(200, seed=6) for t in map(canonical, distinct(t))]
    parts = [part for tree in trees for own in matrix_reductions(tree).values() for part in own]
    rng = torch.Generator().manual_seed(0)
    for group in {statistics(part) for part in parts}:
        program = MatrixProgram([part for part in parts if statistics(part) == group])
        shelves = {s: [(2, 3, 4), (1, 5, 2), (3, 70, 9)] for s in group}
        ones = [s for s in group if s.probe == "ones" and s.quantity.startswith("act")]
        shelves |= {s: [(2, 1, 4), (1, 1, 2), (3, 1, 9)] for s in ones}
        stacks = {
            s: [torch.randn(shape, generator=rng) for shape in found]
            for s, found in shelves.items()
        }
        flat = {s: torch.cat([stack.flatten() for stack in found]) for s, found in stacks.items()}
        together = program(MatrixChunk.aligned(flat, [tuple(shelves[s]) for s in flat]))
        alone = [program(MatrixChunk.of({s: stacks[s][i] for s in group})) for i in range(3)]
        np.testing.assert_array_equal(together, torch.cat(alone, dim=1))


def test_what_operations_share_is_computed_once_of_a_value() -> None:
    calls = []

    def ordered(x: Tensor, dims: tuple[int, ...]) -> Tensor:
        calls.append(x.shape)
        return x.double().flatten(-len(dims)).sort(-1).values

    @operation("reduce", shared=ordered, levels=("matrix",))
    def second(values: Tensor) -> Tensor:
        """The second smallest element."""
        return values.select(-1, 1)

    @operation("reduce", shared=ordered, levels=("matrix",))
    def third(values: Tensor) -> Tensor:
        """The third smallest element."""
        return values.select(-1, 2)

    texts = ["second(msa.weight)", "third(msa.weight)", "third(abs(msa.weight))"]
    weight = torch.randn(2, 3, 4)
    with OPERATIONS.trial("second", second), OPERATIONS.trial("third", third):
        program = MatrixProgram([parse_expression(text) for text in texts])
        calls.clear()
        found = program(MatrixChunk.of({STATISTICS["msa.weight"]: weight}))
    assert calls == [(2, 3, 4)] * 2
    flat = weight.double().flatten(1)
    expected = [flat.sort().values[:, 1], flat.sort().values[:, 2], flat.abs().sort().values[:, 2]]
    assert torch.equal(found, torch.stack(expected))
