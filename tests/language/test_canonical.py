"""The canonical form: what is one formula, and what stays two."""

import hashlib
from random import Random

import numpy as np
import pytest
import torch
from helpers.naive import World, naive_evaluate, random_world

from autoprox.language import (
    NETWORK,
    STATISTICS,
    STRUCTURE,
    Statistic,
    Tree,
    ValueType,
    canonical,
    parse_expression,
    statistics,
    tree_digest,
)
from autoprox.language.grammar import Grammar
from autoprox.primitives import OPERATIONS, apply_primitive

GRAMMAR = Grammar()
SEPT = (
    "add(logsumexp(log(width)), "
    "logsumexp(sub(mul(add(tokens, one), log(width)), log(sub(width, one)))))"
)


def test_the_digest_is_the_hash_of_the_canonical_text() -> None:
    tree = parse_expression("sum(sum(abs(mul(all.weight, neg(all.grad)))))")
    text = b"sum(sum(abs(mul(all.grad, all.weight))))"
    assert tree_digest(tree) == hashlib.sha256(text).hexdigest()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mul(msa.weight, msa.grad)", "mul(msa.grad, msa.weight)"),
        ("add(sum(width), sum(heads))", "add(sum(heads), sum(width))"),
        ("neg(neg(msa.grad))", "msa.grad"),
        ("abs(exp(msa.grad))", "exp(msa.grad)"),
        ("relu(sqrt(msa.grad))", "sqrt(msa.grad)"),
        ("abs(width)", "width"),
        ("square(abs(msa.grad))", "square(msa.grad)"),
        ("l1_norm(abs(msa.grad))", "l1_norm(msa.grad)"),
        ("nuclear_norm(neg(msa.grad))", "nuclear_norm(msa.grad)"),
        ("log(sub(width, one))", "log(sub(one, width))"),
        ("std(sub(neg(width), one))", "std(add(one, width))"),
        ("neg(sub(width, one))", "sub(one, width)"),
        ("sign(sign(msa.grad))", "sign(msa.grad)"),
        ("rank(rank(sum(width)))", "rank(sum(width))"),
        ("add(width, neg(one))", "sub(width, one)"),
        ("add(neg(width), one)", "sub(one, width)"),
        ("sub(width, neg(one))", "add(one, width)"),
        ("sub(neg(width), one)", "neg(add(one, width))"),
        ("add(neg(width), neg(one))", "neg(add(one, width))"),
        ("mul(neg(msa.grad), neg(msa.weight))", "mul(msa.grad, msa.weight)"),
        ("mul(msa.weight, neg(msa.grad))", "neg(mul(msa.grad, msa.weight))"),
        ("div(neg(width), neg(heads))", "div(width, heads)"),
        ("div(width, neg(heads))", "neg(div(width, heads))"),
        ("div(mul(one, width), one)", "width"),
        ("ones.mlp.weight", "abs(mlp.weight)"),
        ("abs(ones.all.weight)", "abs(all.weight)"),
        ("ntk.msa.weight", "msa.weight"),
        ("ntk.mlp.act", "mlp.act"),
    ],
)
def test_the_canonical(text: str, expected: str) -> None:
    assert str(canonical(parse_expression(text))) == expected
    assert str(canonical(parse_expression(expected))) == expected
    assert tree_digest(parse_expression(text)) == tree_digest(parse_expression(expected))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("sub(width, one)", "sub(one, width)"),
        ("div(width, heads)", "div(heads, width)"),
        ("div(one, width)", "inverse(width)"),
        ("nuclear_norm(abs(msa.grad))", "nuclear_norm(msa.grad)"),
        ("effective_rank(abs(msa.grad))", "effective_rank(msa.grad)"),
        ("std(abs(msa.grad))", "std(msa.grad)"),
        ("tanh(neg(msa.grad))", "tanh(msa.grad)"),
        ("abs(msa.grad)", "msa.grad"),
        ("square(square(width))", "square(width)"),
        ("softmax(softmax(width))", "softmax(width)"),
        ("ones.msa.grad", "msa.grad"),
        ("ones.mlp.act", "mlp.act"),
        ("ntk.mlp.act_grad", "mlp.act_grad"),
        ("add(width, add(one, heads))", "add(add(width, one), heads)"),
    ],
)
def test_what_differs_in_value_stays_apart(first: str, second: str) -> None:
    assert tree_digest(parse_expression(first)) != tree_digest(parse_expression(second))


def torch_evaluate(tree: Tree, world: World) -> torch.Tensor:
    """The scores by the real operations, one matrix at a time."""

    def visit(node: Tree, args: list[list[torch.Tensor]]) -> list[torch.Tensor]:
        if not args:
            return [torch.as_tensor(value) for value in world[node.symbol]]
        operation, level = OPERATIONS[node.symbol], node.args[0].type.level
        if level == "Network":
            return list(apply_primitive(operation, [torch.stack(arg) for arg in args], "network"))
        name = "matrix" if level == "Matrix" else "layers"
        return [apply_primitive(operation, values, name) for values in zip(*args, strict=True)]

    return torch.stack(tree.fold(visit))


def one_shape_world() -> World:
    """A world whose layers are of one shape, so that a network's matrices are one tensor."""
    rng = np.random.default_rng(5)
    grads = {name: rng.normal(size=(3, 4, 5, 6)).astype("float32") for name in STATISTICS}
    world = grads | {name: rng.normal(size=(3, 2)) for name in STRUCTURE} | {"one": np.ones((3, 2))}
    for name in ("msa.weight", "mlp.weight", "all.weight", "mlp.act"):
        world[f"ntk.{name}"] = world[name]
        if name != "mlp.act":
            world[f"ones.{name}"] = abs(world[name])
    return {name: abs(value) if name in STRUCTURE else value for name, value in world.items()}


def disguised(tree: Tree, rng: Random) -> Tree:
    """A tree of another form that is equal by the rules of the canonical form."""

    def negated(x: Tree) -> Tree:
        return Tree("neg", (x,))

    def visit(node: Tree, args: list[Tree]) -> Tree:
        if not args:
            return node
        operation = OPERATIONS[node.symbol]
        same = [Tree(node.symbol, tuple(args))]
        if operation.commutative:
            same.append(Tree(node.symbol, (args[1], args[0])))
        if operation.idempotent:
            same.append(Tree(node.symbol, (same[0],)))
        if operation.even:
            same.append(Tree(node.symbol, (Tree("abs", (args[0],)),)))
        if operation.even or operation.mirrored:
            same.append(Tree(node.symbol, (negated(args[0]),)))
        if operation.nonnegative and node.type != NETWORK:
            same += [Tree(name, (same[0],)) for name in ("abs", "relu")]
        if node.type != NETWORK:
            same.append(negated(negated(same[0])))
        # A difference takes `neg` in by swapping its arguments, so that no `neg` is left to move.
        if node.type != NETWORK and all(canonical(arg).symbol != "sub" for arg in args):
            if node.symbol in ("add", "sub"):
                other = "sub" if node.symbol == "add" else "add"
                same.append(Tree(other, (args[0], negated(args[1]))))
            if node.symbol in ("mul", "div"):
                same.append(Tree(node.symbol, (negated(args[0]), negated(args[1]))))
        if node.type == ValueType("Layers", "block"):
            same += [Tree(name, (same[0], Tree("one"))) for name in ("mul", "div")]
        return rng.choice(same)

    return tree.fold(visit)


@pytest.mark.parametrize("seed", range(150))
def test_a_disguise_changes_neither_digest_nor_value(seed: int) -> None:
    rng = Random(seed)
    tree = GRAMMAR.generate(rng, min_depth=2, max_depth=7)
    other = disguised(tree, rng)
    assert canonical(other) == canonical(tree)
    assert canonical(canonical(tree)) == canonical(tree)
    world = random_world(seed)
    expected = naive_evaluate(tree, world)
    np.testing.assert_array_equal(naive_evaluate(canonical(tree), world), expected)
    np.testing.assert_array_equal(naive_evaluate(other, world), expected)


@pytest.mark.parametrize("seed", range(100))
def test_the_canonical_form_has_the_same_value_bit_for_bit(seed: int) -> None:
    rng = Random(seed)
    tree = disguised(GRAMMAR.generate(rng, min_depth=2, max_depth=6), rng)
    world = one_shape_world()
    expected = torch_evaluate(tree, world)
    assert torch.equal(torch_evaluate(canonical(tree), world).nan_to_num(), expected.nan_to_num())


@pytest.mark.parametrize(
    ("text", "hash_before", "means"),
    [
        (
            "nuclear_norm(l1_norm(msa.grad))",
            "f2b86be799195a0d7fe331da10a00d77a9f840a1178fad8e38f22e7ae328c2d4",
            "frobenius_norm(l1_norm(msa.grad))",
        ),
        (
            "effective_rank(mul(width, tokens))",
            "283b6e59089cc7dca3033d933ef087ed7491ed6d9d449b04260329e5fff2f86d",
            "mean(one)",
        ),
    ],
)
def test_words_that_layers_had_before_keep_hash_and_value(
    text: str, hash_before: str, means: str
) -> None:
    assert tree_digest(parse_expression(text)) == hash_before
    world = one_shape_world()
    expected = torch_evaluate(parse_expression(means), world)
    torch.testing.assert_close(
        torch_evaluate(parse_expression(text), world), expected, rtol=1e-15, atol=0
    )


def test_statistics_are_those_of_the_canonical() -> None:
    tree = parse_expression(
        "add(sum(sum(mul(ones.msa.weight, ntk.msa.weight))), sum(std(ntk.mlp.act_grad)))"
    )
    assert statistics(tree) == {
        Statistic("data", "msa", "weight"),
        Statistic("ntk", "mlp", "act_grad"),
    }
    assert statistics(parse_expression(SEPT)) == frozenset()
