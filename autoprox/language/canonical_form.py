"""The canonical form of a tree, and its hash."""

import hashlib
from functools import reduce

from autoprox.language.tree import Tree
from autoprox.primitives import OPERATIONS


def canonical(tree: Tree) -> Tree:
    """The one tree that stands for all that these rules show to be equal.

    Every rule keeps the value bit for bit, signs of zero apart: the flags of the primitives drop
    what changes nothing, `neg` moves outward, and commutative arguments are sorted by text.
    """
    return tree.fold(lambda node, args: _simplest(node.symbol, *args) if args else _leaf(node))


def tree_digest(tree: Tree) -> str:
    """The sha256 of the canonical text, in hexadecimal."""
    return hashlib.sha256(str(canonical(tree)).encode()).hexdigest()


def is_nonnegative(tree: Tree) -> bool:
    """Whether the root of a tree shows that no value can be negative."""
    if (leaf := tree.leaf) is not None:
        return leaf.kind.nonnegative(leaf.payload)
    return OPERATIONS[tree.symbol].nonnegative


def _simplest(symbol: str, *args: Tree) -> Tree:
    """The canonical form of a symbol applied to canonical arguments."""
    if OPERATIONS[symbol].commutative:
        args = tuple(sorted(args, key=str))
    rule = _unary_rule if len(args) == 1 else _binary_rule
    return rule(symbol, *args) or Tree(symbol, args)


def _leaf(tree: Tree) -> Tree:
    if tree.leaf is None or tree.leaf.kind.canonical is None:
        return tree
    word, *operations = tree.leaf.kind.canonical(tree.leaf.payload)
    return reduce(lambda below, symbol: Tree(symbol, (below,)), operations, Tree(word))


def _is_one(tree: Tree) -> bool:
    return tree.leaf is not None and tree.leaf.kind.is_one(tree.leaf.payload)


def _unary_rule(symbol: str, x: Tree) -> Tree | None:
    operation = OPERATIONS[symbol]
    if symbol == x.symbol == "neg":
        return x.args[0]
    if symbol == "neg" and x.symbol == "sub":
        return _simplest("sub", *reversed(x.args))
    if operation.keeps_nonnegative and is_nonnegative(x):
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
    operation = OPERATIONS[symbol]
    if operation.right_identity and operation.commutative and _is_one(x):
        return y
    identity = operation.right_identity or (operation.keeps_nonnegative and is_nonnegative(x))
    if identity and _is_one(y):
        return x
    if symbol in ("mul", "div"):
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
    return None
