"""The typed expression tree: immutable data, well-typed or not constructible."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Any, TypeVar

from autoprox.evolution_parameters import MAX_DEPTH, MAX_SIZE
from autoprox.language.leaf_kinds import (
    LanguageError,
    Leaf,
    find_leaf,
    leaf_words,
    quote_foreign_text,
)
from autoprox.language.value_types import NETWORK, REDUCED_TYPES, ValueType
from autoprox.primitives import COMBINATORS, OPERATIONS, PRIMITIVES, Primitive

Visited = TypeVar("Visited")


@dataclass(frozen=True, eq=False, repr=False)
class Tree:
    """An expression, well-typed or not constructible; equal to every tree of the same text.

    `size` counts its nodes, `depth` its operations from the root to the deepest terminal.
    """

    symbol: str
    args: tuple[Tree, ...] = ()
    type: ValueType = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "type", result_type(self.symbol, [a.type for a in self.args]))

    def fold(self, visit: Callable[[Tree, list[Visited]], Visited]) -> Visited:
        """Visit every distinct subtree once, arguments first, with the results of its arguments."""
        results: dict[Tree, Visited] = {}
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

    @property
    def leaves(self) -> Mapping[Tree, Leaf]:
        """The leaves of the tree, in the order in which they are visited."""
        found: dict[Tree, Leaf] = {}

        def visit(node: Tree, _: list[None]) -> None:
            if node.leaf is not None:
                found[node] = node.leaf

        self.fold(visit)
        return found

    @cached_property
    def size(self) -> int:
        return 1 + sum(arg.size for arg in self.args)

    @cached_property
    def depth(self) -> int:
        return 1 + max(arg.depth for arg in self.args) if self.args else 0

    @cached_property
    def compares_networks(self) -> bool:
        """Whether a network's value depends on the other networks, as it does with `rank`."""
        return bool(self.args) and (
            OPERATIONS[self.symbol].compares_networks
            or any(arg.compares_networks for arg in self.args)
        )

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


def make_tree(symbol: str, *args: Tree) -> Tree:
    """The tree of a symbol applied to arguments, within the limits of size and depth.

    The symbol may be any word of a leaf: `data.msa.grad` stands for `msa.grad`, `2.0` for `2`.
    """
    leaf = None if symbol in OPERATIONS else find_leaf(symbol)
    tree = Tree(leaf.word if leaf else symbol, args)
    if tree.size > MAX_SIZE or tree.depth > MAX_DEPTH:
        raise LanguageError(
            f"an expression has at most {MAX_SIZE} nodes and depth {MAX_DEPTH}, "
            f"got {tree.size} and {tree.depth}"
        )
    return tree


def require_complete_proxy(tree: Tree) -> Tree:
    """The tree itself if it is a complete proxy, one number for each network."""
    if tree.type != NETWORK:
        reductions = _listed(
            name for name, p in PRIMITIVES.items() if p.kind == "reduce" and "layers" in p.levels
        )
        raise LanguageError(f"a proxy is a Network, got {tree.type}; reduce it by {reductions}")
    return tree


def result_type(symbol: str, args: Sequence[ValueType]) -> ValueType:
    """The type of a symbol's value from the types of its arguments: the whole typing rule."""
    if (operation := OPERATIONS.get(symbol)) is None:
        leaf = find_leaf(symbol)
        if leaf is None or leaf.word != symbol:
            raise unknown_name_error(symbol, [*leaf_words(), *OPERATIONS])
        if args:
            raise LanguageError(f"`{symbol}` takes 0 arguments, got {len(args)}")
        return leaf.type
    if len(args) != operation.arity:
        noun = "argument" if operation.arity == 1 else "arguments"
        raise LanguageError(f"`{symbol}` takes {operation.arity} {noun}, got {len(args)}")
    value = args[0]
    if args[-1] != value:
        raise LanguageError(f"`{symbol}` needs two values of one type, got {value} and {args[1]}")
    if value.level.lower() not in (*operation.levels, *operation.formerly):
        raise LanguageError(f"`{symbol}` needs {_misplaced(operation, value)}")
    return REDUCED_TYPES[value] if operation.reduces else value


def _misplaced(operation: Primitive, value: ValueType) -> str:
    """The levels that an operation needs, and how to use a value of another level."""
    levels = ["Matrix", "Layers", "Network"]
    needed = [name for name in levels if name.lower() in operation.levels]
    nouns = " or ".join("Layers" if name == "Layers" else f"a {name}" for name in needed)
    if levels.index(value.level) < levels.index(needed[0]):
        return f"{nouns}, got {value}: reduce it first"
    hint = f"; on Network: {_listed(COMBINATORS)}" if value == NETWORK else ""
    return f"{nouns}, got {value}{hint}"


def unknown_name_error(name: str, choices: Sequence[str]) -> LanguageError:
    """The error about a word that doesn't exist, with those nearest to it."""
    near = get_close_matches(name[:40].lower(), choices, cutoff=0)
    return LanguageError(f"unknown name {quote_foreign_text(name)}; nearest: {_listed(near)}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
