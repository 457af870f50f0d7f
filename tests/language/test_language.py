import copy
import hashlib
import pickle
from dataclasses import FrozenInstanceError
from random import Random

import numpy as np
import pytest
import torch
from helpers.naive import World, naive_evaluate, random_world

from autoprox.language import (
    MAX_LENGTH,
    NETWORK,
    STATISTICS,
    STRUCTURE,
    TERMINALS,
    LanguageError,
    Statistic,
    Tree,
    Type,
    canonical,
    digest,
    make,
    parse,
    require_network,
    statistics,
)
from autoprox.language.grammar import Grammar
from autoprox.parameters import MAX_DEPTH, MAX_SIZE
from autoprox.primitives import COMBINATORS, OPERATIONS, PRIMITIVES, apply

GRAMMAR = Grammar()
SEPT = (
    "add(logsumexp(log(width)), "
    "logsumexp(sub(mul(add(tokens, one), log(width)), log(sub(width, one)))))"
)


def test_the_vocabulary_is_the_published_one() -> None:
    linear = {f"{d}.{quantity}" for d in ("msa", "mlp", "all") for quantity in ("weight", "grad")}
    eight = linear | {"mlp.act", "mlp.act_grad"}
    expected = {prefix + name for prefix in ("", "ones.", "ntk.") for name in eight}
    assert set(STATISTICS) == expected
    assert len(PRIMITIVES) == 56
    assert set(COMBINATORS) == {"rank", "add", "sub", "mul", "div"}
    assert set(TERMINALS) == expected | set(STRUCTURE)


@pytest.mark.parametrize(
    ("text", "type_", "size", "depth"),
    [
        ("width", "Layers[block]", 1, 0),
        ("ones.mlp.act_grad", "Matrix[act]", 1, 0),
        ("std(ones.mlp.act_grad)", "Layers[mlp]", 2, 1),
        ("frobenius_norm(ntk.all.grad)", "Layers[all]", 2, 1),
        ("softmax(mul(msa.weight, msa.grad))", "Matrix[msa]", 4, 2),
        ("sum(sum(abs(mul(all.weight, all.grad))))", "Network", 6, 4),
        (SEPT, "Network", 16, 5),
    ],
)
def test_text_is_parsed_to_a_typed_tree_and_printed_back(
    text: str, type_: str, size: int, depth: int
) -> None:
    tree = parse(text)
    assert str(tree) == text
    assert (str(tree.type), tree.size, tree.depth) == (type_, size, depth)


def test_spaces_lines_and_the_default_probe_make_no_difference() -> None:
    assert parse("\n sum ( sum\t(data.msa.grad ))\n") == parse("sum(sum(msa.grad))")
    assert make("data.mlp.act") == make("mlp.act")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "column 1: expected an operation, a terminal or a proxy's name, found the end"),
        ("sum(width", r"column 10: expected `,` or `\)`, found the end of the text"),
        ("sum(width))", r"column 11: expected the end of the text, found `\)`"),
        ("sum(width) one", "column 12: expected the end of the text, found `one`"),
        ("sum()", r"column 5: expected an operation, .* found `\)`"),
        ("sum(width,)", r"column 11: expected an operation, .* found `\)`"),
        ("(width)", r"column 1: expected an operation, .* found `\(`"),
        ("add(width; one)", r"column 10: expected `,` or `\)`, found `;`"),
        ("log(2)", "column 5: expected an operation, .* found `2`"),
        ("log(wïdth)", "column 6: an expression is ASCII, found `ï`"),
        ("log(\x1b)", r"column 5: .* found `\\x1b`"),
        ("sum(log(widht))", "column 9: unknown name `widht`; nearest: `width`"),
        ("sum(lgo(width))", "column 5: unknown name `lgo`; nearest: `log`"),
        ("SUM(width)", "column 1: unknown name `SUM`; nearest: `sum`"),
        ("data.width", "column 1: unknown name `data.width`; nearest: `width`"),
        ("data.log(width)", "column 1: unknown name `data.log`; nearest: `log`"),
        ("log", "column 1: `log` needs its arguments in parentheses"),
        ("log(width, one)", "column 1: `log` takes 1 argument, got 2"),
        ("sum(add(width))", "column 5: `add` takes 2 arguments, got 1"),
        ("width(one)", "column 1: `width` takes 0 arguments, got 1"),
        (
            "sum(mul(msa.weight, mlp.weight))",
            r"column 5: `mul` needs two values of one type, got Matrix\[msa\] and Matrix\[mlp\]",
        ),
        ("mul(mlp.weight, mlp.act)", r"got Matrix\[mlp\] and Matrix\[act\]"),
        ("add(sum(width), width)", r"got Network and Layers\[block\]"),
        (
            "abs(sum(width))",
            "column 1: `abs` needs a Matrix or Layers, got Network; on Network: .*`rank`",
        ),
        ("sum(sum(width))", "column 1: `sum` needs a Matrix or Layers, got Network"),
        ("maximum(sum(width), sum(one))", "`maximum` needs a Matrix or Layers, got Network; on"),
        ("last(msa.grad)", r"`last` needs Layers, got Matrix\[msa\]: reduce it first"),
        ("stable_rank(width)", r"`stable_rank` needs a Matrix, got Layers\[block\]$"),
        ("dot(msa.grad, mlp.grad)", "`dot` needs two values of one type, got"),
        ("rank(width)", r"column 1: `rank` needs a Network, got Layers\[block\]: reduce it first"),
        ("__import__(width)", "column 1: unknown name `__import__`"),
        ("x" * 90, "unknown name `x{40}...`; nearest: "),
    ],
)
def test_a_wrong_text_is_refused_at_its_position(text: str, message: str) -> None:
    with pytest.raises(LanguageError, match=message) as caught:
        parse(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("abs(" * MAX_DEPTH + "abs(width" + ")" * (MAX_DEPTH + 1), f"at most {MAX_DEPTH} deep"),
        ("abs(" * (MAX_LENGTH // 5), f"column {4 * MAX_DEPTH + 5}: .* at most {MAX_DEPTH} deep"),
        ("(" * MAX_LENGTH, "column 1: expected an operation"),
        ("x" * (MAX_LENGTH + 1), f"at most {MAX_LENGTH} characters, got {MAX_LENGTH + 1}"),
    ],
)
def test_an_absurd_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(LanguageError, match=message):
        parse(text)


def test_the_limits_themselves_are_allowed() -> None:
    deepest = "abs(" * MAX_DEPTH + "width" + ")" * MAX_DEPTH
    assert parse(deepest).depth == MAX_DEPTH
    chain = make("width")
    while chain.size + 2 <= MAX_SIZE and chain.depth < MAX_DEPTH:
        chain = make("add", chain, make("one"))
    assert parse(str(chain)) == chain
    with pytest.raises(LanguageError, match=f"at most {MAX_SIZE} nodes and depth {MAX_DEPTH}"):
        make("abs", parse(deepest))


def test_sharing_can_not_exceed_the_size_limit() -> None:
    tree = make("width")
    while tree.size <= MAX_SIZE // 2:
        tree = make("add", tree, tree)
    with pytest.raises(LanguageError, match=f"at most {MAX_SIZE} nodes"):
        make("add", tree, make("add", tree, tree))


def test_names_stand_for_their_expressions() -> None:
    names = {"ntkt": "sum(square(frobenius_norm(ntk.all.grad)))", "sept++": parse(SEPT)}
    assert parse("add(rank(ntkt), rank(sept++))", names) == parse(
        f"add(rank({names['ntkt']}), rank({SEPT}))"
    )
    assert parse("sum(width)", {"width": "tokens", "sum": "tokens"}) == parse("sum(width)")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rank(mine)", "column 6: in `mine`, column 5: unknown name `wdth`; nearest: `width`"),
        ("rank(mien)", "column 6: unknown name `mien`; nearest: .*`mine`"),
        ("mine(width)", "column 1: `mine` takes no arguments"),
        ("first", "in `first`, .* in `second`, column 6: `first` is defined by itself"),
        ("alias0", "at most .* deep"),
    ],
)
def test_wrong_names_are_refused(text: str, message: str) -> None:
    names = {"mine": "sum(wdth)", "first": "rank(second)", "second": "rank(first)"}
    names |= {f"alias{n}": f"alias{n + 1}" for n in range(3000)}
    with pytest.raises(LanguageError, match=message):
        parse(text, names)


def test_a_proxy_is_a_network() -> None:
    proxy = parse(SEPT)
    assert require_network(proxy) is proxy
    with pytest.raises(LanguageError, match=r"a proxy is a Network, got Layers\[msa\]; .*`sum`"):
        require_network(parse("sum(msa.grad)"))


def test_trees_are_frozen_values() -> None:
    tree = parse(SEPT)
    assert tree == parse(SEPT)
    assert hash(tree) == hash(parse(SEPT))
    assert tree != parse("sum(width)")
    assert tree != SEPT
    assert len({tree, parse(SEPT), parse("sum(width)")}) == 2
    with pytest.raises(FrozenInstanceError, match="symbol"):
        tree.symbol = "sum"  # type: ignore[misc]
    hash(tree)
    for copied in (pickle.loads(pickle.dumps(tree)), copy.deepcopy(tree)):
        assert copied == tree
        assert copied.type == NETWORK


def test_a_tree_can_not_be_built_with_wrong_types() -> None:
    with pytest.raises(LanguageError, match="`rank` needs a Network"):
        Tree("rank", (make("width"),))
    with pytest.raises(LanguageError, match="unknown name `eval`"):
        make("eval", make("width"))


def test_the_walk_visits_each_distinct_subtree_once_after_its_arguments() -> None:
    visited: list[str] = []

    def visit(tree: Tree, args: list[str]) -> str:
        assert args == [str(arg) for arg in tree.args]
        visited.append(str(tree))
        return str(tree)

    assert parse("sum(mul(log(width), add(log(width), one)))").fold(visit)
    assert visited == [
        "width",
        "log(width)",
        "one",
        "add(log(width), one)",
        "mul(log(width), add(log(width), one))",
        "sum(mul(log(width), add(log(width), one)))",
    ]


def test_the_digest_is_the_hash_of_the_canonical_text() -> None:
    tree = parse("sum(sum(abs(mul(all.weight, neg(all.grad)))))")
    text = b"sum(sum(abs(mul(all.grad, all.weight))))"
    assert digest(tree) == hashlib.sha256(text).hexdigest()


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
def test_the_canonical_form(text: str, expected: str) -> None:
    assert str(canonical(parse(text))) == expected
    assert str(canonical(parse(expected))) == expected
    assert digest(parse(text)) == digest(parse(expected))


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
    assert digest(parse(first)) != digest(parse(second))


def torch_evaluate(tree: Tree, world: World) -> torch.Tensor:
    """The scores by the real operations, one matrix at a time."""

    def visit(node: Tree, args: list[list[torch.Tensor]]) -> list[torch.Tensor]:
        if not args:
            return [torch.as_tensor(value) for value in world[node.symbol]]
        operation, level = OPERATIONS[node.symbol], node.args[0].type.level
        if level == "Network":
            return list(apply(operation, [torch.stack(arg) for arg in args], "network"))
        name = "matrix" if level == "Matrix" else "layers"
        return [apply(operation, values, name) for values in zip(*args, strict=True)]

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
        if node.type == Type("Layers", "block"):
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
    assert digest(parse(text)) == hash_before
    world = one_shape_world()
    expected = torch_evaluate(parse(means), world)
    torch.testing.assert_close(torch_evaluate(parse(text), world), expected, rtol=1e-15, atol=0)


def test_statistics_are_those_of_the_canonical_form() -> None:
    tree = parse("add(sum(sum(mul(ones.msa.weight, ntk.msa.weight))), sum(std(ntk.mlp.act_grad)))")
    assert statistics(tree) == {
        Statistic("data", "msa", "weight"),
        Statistic("ntk", "mlp", "act_grad"),
    }
    assert statistics(parse(SEPT)) == frozenset()
