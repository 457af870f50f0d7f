"""The typed expression tree: immutable data, well-typed or not constructible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from autoprox.evolution_parameters import MAX_DEPTH, MAX_SIZE
from autoprox.language.leaves import Leaf, find_leaf
from autoprox.language.types import NETWORK, Type
from autoprox.language.vocabulary import LanguageError, listed, plain, result_type
from autoprox.primitives import PRIMITIVES

T = TypeVar("T")


@dataclass(frozen=True, eq=False, repr=False)
class Tree:
    """An expression, well-typed or not constructible; equal to every tree of the same text.

    `size` counts its nodes, `depth` its operations from the root to the deepest terminal.
    """

    symbol: str
    args: tuple[Tree, ...] = ()
    type: Type = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", result_type(self.symbol, [a.type for a in self.args]))

    def fold(self, visit: Callable[[Tree, list[T]], T]) -> T:
        """Visit every distinct subtree once, arguments first, with the results of its arguments."""
        results: dict[Tree, T] = {}
        stack = [self]
        while stack:
            tree = stack[-1]
            if missing := [arg for arg in tree.args if arg not in results]:
                stack.extend(reversed(missing))
                continue
            stack.pop()
            if tree not in results:
                results[tree] = visit(tree, [results[arg] for arg in tree.args])
        return results[self]

    @cached_property
    def leaf(self) -> Leaf | None:
        """The kind and the payload of a leaf, None of an operation."""
        return None if self.args else find_leaf(self.symbol)

    @cached_property
    def size(self) -> int:
        return 1 + sum(arg.size for arg in self.args)

    @cached_property
    def depth(self) -> int:
        return 1 + max(arg.depth for arg in self.args) if self.args else 0

    @cached_property
    def _text(self) -> str:
        return f"{self.symbol}({', '.join(map(str, self.args))})" if self.args else self.symbol

    @cached_property
    def _hash(self) -> int:
        return hash((self.symbol, self.args))

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"<Tree {self}>"

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        return self is other or (
            self._hash == other._hash and self.symbol == other.symbol and self.args == other.args
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # The cached hash of a string differs between processes, so the caches stay behind.
        return Tree, (self.symbol, self.args)


def make(symbol: str, *args: Tree) -> Tree:
    """The tree of a symbol applied to arguments, within the limits of size and depth."""
    tree = Tree(plain(symbol), args)
    if tree.size > MAX_SIZE or tree.depth > MAX_DEPTH:
        raise LanguageError(
            f"an expression has at most {MAX_SIZE} nodes and depth {MAX_DEPTH}, "
            f"got {tree.size} and {tree.depth}"
        )
    return tree


def require_network(tree: Tree) -> Tree:
    """The tree itself where it is a complete proxy, one number for each network."""
    if tree.type != NETWORK:
        reductions = listed(
            name for name, p in PRIMITIVES.items() if p.kind == "reduce" and "layers" in p.levels
        )
        raise LanguageError(f"a proxy is a Network, got {tree.type}; reduce it by {reductions}")
    return tree
