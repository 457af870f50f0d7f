"""The canonical form of a tree, its hash, and the statistics that it reads."""

import hashlib

from autoprox.language.tree import Tree
from autoprox.language.vocabulary import Statistic
from autoprox.primitives import OPERATIONS

ONES = ("one", "1")


def canonical(tree: Tree) -> Tree:
    """The one tree that stands for all that these rules show to be equal.

    Every rule keeps the value bit for bit, signs of zero apart: the flags of the primitives drop
    what changes nothing, `neg` moves outward, and commutative arguments are sorted by text.
    """
    return tree.fold(lambda node, args: _simplest(node.symbol, *args) if args else _leaf(node))


def digest(tree: Tree) -> str:
    """The sha256 of the canonical text, in hexadecimal."""
    return hashlib.sha256(str(canonical(tree)).encode()).hexdigest()


def statistics(tree: Tree) -> frozenset[Statistic]:
    """The statistics that the canonical form of a tree reads."""

    def visit(node: Tree, args: list[frozenset[Statistic]]) -> frozenset[Statistic]:
        if node.leaf is None:
            return frozenset().union(*args)
        payload = node.leaf.payload
        return frozenset([payload] if isinstance(payload, Statistic) else [])

    return canonical(tree).fold(visit)


def nonnegative(tree: Tree) -> bool:
    """Whether no value of the tree can be negative, as far as its root tells."""
    if tree.leaf is not None:
        return tree.leaf.nonnegative
    return OPERATIONS[tree.symbol].nonnegative


def _simplest(symbol: str, *args: Tree) -> Tree:
    """The canonical form of a symbol applied to canonical arguments."""
    if OPERATIONS[symbol].commutative:
        args = tuple(sorted(args, key=str))
    rule = _unary_rule if len(args) == 1 else _binary_rule
    return rule(symbol, *args) or Tree(symbol, args)


def _leaf(tree: Tree) -> Tree:
    word, *operations = tree.leaf.canonical if tree.leaf else [tree.symbol]
    found = tree if word == tree.symbol else Tree(word)
    for operation in operations:
        found = Tree(operation, (found,))
    return found


def _unary_rule(symbol: str, x: Tree) -> Tree | None:
    operation = OPERATIONS[symbol]
    if symbol == x.symbol == "neg":
        return x.args[0]
    if symbol == "neg" and x.symbol == "sub":
        return _simplest("sub", *reversed(x.args))
    if symbol in ("abs", "relu") and nonnegative(x):
        return x
    if operation.idempotent and x.symbol == symbol:
        return x
    if operation.even and x.symbol == "abs":
        return _simplest(symbol, *x.args)
    if operation.even or operation.mirrored:
        if x.symbol == "neg":
            return _simplest(symbol, *x.args)
        if x.symbol == "sub" and str(x.args[1]) < str(x.args[0]):
            return _simplest(symbol, _simplest("sub", *reversed(x.args)))
    return None


def _binary_rule(symbol: str, x: Tree, y: Tree) -> Tree | None:
    if symbol == "mul" and x.symbol in ONES:
        return y
    if symbol in ("mul", "div"):
        if y.symbol in ONES:
            return x
        if x.symbol == "neg":
            return _simplest("neg", _simplest(symbol, *x.args, y))
        if y.symbol == "neg":
            return _simplest("neg", _simplest(symbol, x, *y.args))
    if symbol == "add" and "neg" in (x.symbol, y.symbol):
        return _simplest("sub", y, *x.args) if x.symbol == "neg" else _simplest("sub", x, *y.args)
    if symbol == "sub" and y.symbol == "neg":
        return _simplest("add", x, *y.args)
    if symbol == "sub" and x.symbol == "neg":
        return _simplest("neg", _simplest("add", *x.args, y))
    if symbol == "pow" and y.symbol in ONES and nonnegative(x):
        return x
    return None
