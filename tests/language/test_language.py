import copy
import pickle
import re
from dataclasses import FrozenInstanceError

import pytest

from autoprox.evolution_parameters import MAX_DEPTH, MAX_SIZE
from autoprox.language import (
    MAX_LENGTH,
    NETWORK,
    STATISTICS,
    STRUCTURE,
    LanguageError,
    Tree,
    make_tree,
    parse_expression,
    require_complete_proxy,
)
from autoprox.language.grammar import Grammar
from autoprox.language.leaf_kinds import leaf_words
from autoprox.primitives import COMBINATORS, PRIMITIVES

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
    assert len(PRIMITIVES) == 57
    assert set(COMBINATORS) == {"rank", "add", "sub", "mul", "div", "pow"}
    assert set(leaf_words()) >= expected | set(STRUCTURE)


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
    tree = parse_expression(text)
    assert str(tree) == text
    assert (str(tree.type), tree.size, tree.depth) == (type_, size, depth)


def test_spaces_lines_and_the_default_probe_make_no_difference() -> None:
    assert parse_expression("\n sum ( sum\t(data.msa.grad ))\n") == parse_expression(
        "sum(sum(msa.grad))"
    )
    assert make_tree("data.mlp.act") == make_tree("mlp.act")


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
        ("log(2)", "column 1: `log` needs a Matrix or Layers, got Network"),
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
        parse_expression(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("abs(" * MAX_DEPTH + "abs(width" + ")" * (MAX_DEPTH + 1), f"at most {MAX_DEPTH} deep"),
        (f"add(abs(one), {'abs(' * MAX_DEPTH}one{')' * MAX_DEPTH})", f"at most {MAX_DEPTH} deep"),
        ("abs(" * (MAX_LENGTH // 5), f"column {4 * MAX_DEPTH + 5}: .* at most {MAX_DEPTH} deep"),
        ("(" * MAX_LENGTH, "column 1: expected an operation"),
        ("x" * (MAX_LENGTH + 1), f"at most {MAX_LENGTH} characters, got {MAX_LENGTH + 1}"),
    ],
)
def test_an_absurd_text_is_refused(text: str, message: str) -> None:
    with pytest.raises(LanguageError, match=message):
        parse_expression(text)


def test_the_limits_themselves_are_allowed() -> None:
    deepest = "abs(" * MAX_DEPTH + "width" + ")" * MAX_DEPTH
    assert parse_expression(deepest).depth == MAX_DEPTH
    chain = make_tree("width")
    while chain.size + 2 <= MAX_SIZE and chain.depth < MAX_DEPTH:
        chain = make_tree("add", chain, make_tree("one"))
    assert parse_expression(str(chain)) == chain
    with pytest.raises(LanguageError, match=f"at most {MAX_SIZE} nodes and depth {MAX_DEPTH}"):
        make_tree("abs", parse_expression(deepest))


def test_sharing_can_not_exceed_the_size_limit() -> None:
    tree = make_tree("width")
    while tree.size <= MAX_SIZE // 2:
        tree = make_tree("add", tree, tree)
    with pytest.raises(LanguageError, match=f"at most {MAX_SIZE} nodes"):
        make_tree("add", tree, make_tree("add", tree, tree))


def test_names_stand_for_their_expressions() -> None:
    names = {"ntkt": "sum(square(frobenius_norm(ntk.all.grad)))", "sept++": parse_expression(SEPT)}
    assert parse_expression("add(rank(ntkt), rank(sept++))", names) == parse_expression(
        f"add(rank({names['ntkt']}), rank({SEPT}))"
    )
    assert parse_expression("sum(width)", {"width": "tokens", "sum": "tokens"}) == parse_expression(
        "sum(width)"
    )


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
        parse_expression(text, names)


def test_a_proxy_is_a_network() -> None:
    proxy = parse_expression(SEPT)
    assert require_complete_proxy(proxy) is proxy
    with pytest.raises(LanguageError, match=r"a proxy is a Network, got Layers\[msa\]") as refused:
        require_complete_proxy(parse_expression("sum(msa.grad)"))
    told = set(re.findall("`(.+?)`", str(refused.value)))
    assert {"sum", "max", "last"} <= told
    assert not told & {"abs", "stable_rank", "spectral_norm", "rank"}


def test_trees_are_frozen_values() -> None:
    tree = parse_expression(SEPT)
    assert tree == parse_expression(SEPT)
    assert hash(tree) == hash(parse_expression(SEPT))
    assert tree != parse_expression("sum(width)")
    assert tree != SEPT
    assert len({tree, parse_expression(SEPT), parse_expression("sum(width)")}) == 2
    with pytest.raises(FrozenInstanceError, match="symbol"):
        tree.symbol = "sum"  # type: ignore[misc]
    hash(tree)
    for copied in (pickle.loads(pickle.dumps(tree)), copy.deepcopy(tree)):
        assert copied == tree
        assert copied.type == NETWORK


def test_a_tree_can_not_be_built_with_wrong_types() -> None:
    with pytest.raises(LanguageError, match="`rank` needs a Network"):
        Tree("rank", (make_tree("width"),))
    with pytest.raises(LanguageError, match="unknown name `eval`"):
        make_tree("eval", make_tree("width"))


def test_the_walk_visits_each_distinct_subtree_once_after_its_arguments() -> None:
    visited: list[str] = []

    def visit(tree: Tree, args: list[str]) -> str:
        assert args == [str(arg) for arg in tree.args]
        visited.append(str(tree))
        return str(tree)

    assert parse_expression("sum(mul(log(width), add(log(width), one)))").fold(visit)
    assert visited == [
        "width",
        "log(width)",
        "one",
        "add(log(width), one)",
        "mul(log(width), add(log(width), one))",
        "sum(mul(log(width), add(log(width), one)))",
    ]
