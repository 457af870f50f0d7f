"""Auto-Prox's trees: their form, and that their values are means over layers."""

import random

import numpy as np
import pytest
from helpers.naive import naive_evaluate

from autoprox.evolution.two_inputs import DEPTH, SIZE, TwoInputs
from autoprox.evolution_parameters import TreeLimits
from autoprox.language import NETWORK, STATISTICS, Tree, parse_expression
from autoprox.language.grammar import Grammar
from autoprox.language.leaf_kinds import LanguageError
from autoprox.primitives import OPERATIONS

READ = ("msa.weight", "msa.grad", "mlp.weight", "mlp.grad", "mlp.act", "mlp.act_grad")
FORM = TwoInputs(Grammar(READ))


def drawn(count: int) -> list[Tree]:
    rng = random.Random(0)
    return [FORM.generate(rng) for _ in range(count)]


def parts(tree: Tree) -> tuple[list[str], list[str], str]:
    """Both operands from the terminal to the root, and the operation of two values."""
    while len(tree.args) == 1:
        tree = tree.args[0]
    operands = []
    for operand in tree.args:
        names = [operand.symbol]
        while operand.args:
            operand = operand.args[0]
            names.append(operand.symbol)
        operands.append(names[::-1])
    return operands[0], operands[1], tree.symbol


def test_a_tree_has_two_statistics_two_operations_on_each_and_one_binary_operation() -> None:
    for tree in drawn(500):
        *operands, binary = parts(tree)
        assert OPERATIONS[binary].arity == 2
        assert tree.type == NETWORK
        assert tree.size <= SIZE
        assert tree.depth <= DEPTH
        for statistic, first, second, *others in operands:
            assert statistic in READ
            assert {OPERATIONS[n].kind for n in (first, second)} <= {"map", "normalise", "reduce"}
            assert set(others) <= {"mean"}


def test_every_statistic_and_operation_is_drawn() -> None:
    names = {name for tree in drawn(2000) for part in parts(tree)[:2] for name in part}
    kinds = ("map", "normalise", "reduce")
    wanted = {n for n, o in OPERATIONS.items() if o.kind in kinds and "matrix" in o.levels}
    assert names == {*READ, *wanted}
    assert {parts(tree)[2] for tree in drawn(500)} >= {"add", "sub", "mul", "div"}


@pytest.mark.parametrize(
    "text",
    [
        "mean(mean(mul(abs(neg(mlp.weight)), exp(tanh(mlp.grad)))))",
        "mean(div(log(sum(msa.grad)), mean(relu(softmax(msa.weight)))))",
        "mean(add(sum(abs(mlp.act)), sqrt(std(mlp.grad))))",
        "sub(mean(l1_norm(abs(msa.grad))), mean(mean(abs(sigmoid(mlp.grad)))))",
    ],
)
def test_levels_are_met_by_means(text: str) -> None:
    """Matrices of a kind, a number and a matrix, numbers of a domain, numbers of two domains."""
    tree, rng = parse_expression(text), random.Random(0)
    assert FORM.crossover(tree, tree, rng) == tree


def test_a_value_is_the_mean_over_layers_of_what_the_tree_gives_for_each() -> None:
    rng = np.random.default_rng(0)
    weights, grads = ([rng.normal(size=(3, 4)) for _ in range(6)] for _ in range(2))
    world = {"msa.weight": [weights], "msa.grad": [grads]}
    tree = parse_expression("mean(mul(log(l1_norm(msa.grad)), mean(abs(square(msa.weight)))))")
    assert FORM.crossover(tree, tree, random.Random(0)) == tree
    each = [np.log(abs(g).sum()) * (w**2).mean() for w, g in zip(weights, grads, strict=True)]
    assert naive_evaluate(tree, world)[0] == pytest.approx(np.mean(each))


def test_a_mutation_redraws_half_of_the_nodes() -> None:
    rng, kept = random.Random(1), []
    for tree in drawn(400):
        before, after = parts(tree), parts(FORM.mutate(tree, rng))
        kept.append(before[0][0] == after[0][0])
    # Half are kept, and of the others one in six is the same again.
    assert np.mean(kept) == pytest.approx(1 / 2 + 1 / 12, abs=0.06)


def test_a_child_has_its_nodes_from_either_parent() -> None:
    rng = random.Random(0)
    one = parse_expression("mean(mean(add(abs(exp(mlp.weight)), sqrt(exp(mlp.weight)))))")
    other = parse_expression("mean(mean(mul(neg(tanh(mlp.grad)), log(tanh(mlp.grad)))))")
    children = {str(FORM.crossover(one, other, rng)) for _ in range(400)}
    assert len(children) > 60
    for child in map(parse_expression, children):
        (a, b, c), (d, e, f), binary = (part[:3] for part in parts(child))
        assert {a, d} <= {"mlp.weight", "mlp.grad"}
        assert {b, e} <= {"exp", "tanh"}
        assert (c in ("abs", "neg"), f in ("sqrt", "log")) == (True, True)
        assert binary in ("add", "mul")


def test_limits_must_hold_the_largest_tree() -> None:
    limits = TreeLimits(max_size=SIZE - 1)
    with pytest.raises(LanguageError, match=r"^two-inputs needs max_size >= 11 and max_depth >= 5"):
        TwoInputs(Grammar(STATISTICS, limits=limits))
