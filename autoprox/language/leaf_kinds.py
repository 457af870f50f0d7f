"""The record of a kind of leaf, as `primitives` has one of each operation.

A package adds its own kinds by an entry point of the group `autoprox.leaves`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Generic, Protocol, TypeVar

import sympy as sp

from autoprox.errors import AutoproxError
from autoprox.language.quantities import QUANTITIES
from autoprox.language.value_types import ValueType
from autoprox.primitives import LatexFormula
from autoprox.registry import Registry

Payload = TypeVar("Payload")


class LanguageError(AutoproxError):
    """A text or a tree that isn't of the language."""


class LeafError(AutoproxError):
    """A kind of leaf that can't be registered."""


class BlockStructure(Protocol):
    """The structure of a network, known without its weights."""

    @property
    def blocks(self) -> Sequence[Any]:
        """The blocks, each with its `width`, `tokens` and `heads`."""


@dataclass(frozen=True)
class LeafKind(Generic[Payload]):
    """One kind of leaf: how its words are read, typed, written and evaluated.

    A leaf stands for a payload. `read` returns the payload of a word, or None if the word is of
    another kind, and `write` the one word that trees hold for it: `write(read(word))` is a word of
    the same payload. `words` lists the words of a kind that has finitely many.

    `canonical` returns the words from the leaf of the canonical form up to its root, such as
    `mlp.weight` and `abs`; the default is the leaf itself. `is_one` tells whether its value is 1.

    `python` returns an expression of torch, within a function that has `model`, `layers` and
    `inputs`; its second argument adds a definition, by its module and name, to the file. `values`
    returns the numbers of a network: one for each block if the leaf is of `Layers[block]`, a single
    one if it is of `Network`. Leaves of matrices, the statistics, are measured instead.

    `letters` are the keys of `statistic_leaves.MEANINGS` that a formula with the leaf needs;
    `meaning` explains the leaf's word where a page shows the formula.
    """

    name: str
    read: Callable[[str], Payload | None]
    write: Callable[[Payload], str]
    type: Callable[[Payload], ValueType]
    latex: Callable[[Payload], LatexFormula]
    sympy: Callable[[Payload], sp.Expr]
    python: Callable[[Payload, Callable[[str, str], None]], str]
    values: Callable[[Payload, BlockStructure], Sequence[float]] | None = None
    nonnegative: Callable[[Payload], bool] = lambda payload: False
    is_one: Callable[[Payload], bool] = lambda payload: False
    canonical: Callable[[Payload], Sequence[str]] | None = None
    words: Callable[[], Iterable[str]] = tuple
    letters: Callable[[Payload], Iterable[str]] = lambda payload: ()
    meaning: Callable[[Payload], str] = lambda payload: ""


@dataclass(frozen=True)
class Leaf:
    """A payload and its kind."""

    kind: LeafKind[Any]
    payload: Any

    @cached_property
    def word(self) -> str:
        return self.kind.write(self.payload)

    @cached_property
    def type(self) -> ValueType:
        return self.kind.type(self.payload)

    def values(self, networks: Iterable[BlockStructure]) -> list[float]:
        """The numbers of all networks, one after the other."""
        of_network = self.kind.values
        if of_network is None:
            raise LeafError(f"a kind of leaf must have values, but {self.kind.name} is measured")
        return [number for network in networks for number in of_network(self.payload, network)]


def _prove(name: str, kind: LeafKind[Any]) -> None:
    if not isinstance(kind, LeafKind) or kind.name != name:
        raise LeafError(f"a kind of leaf is a `LeafKind` of its name, but {name} is {kind!r}")


LEAVES: Registry[LeafKind[Any]] = Registry("leaves", "kind of leaf", LeafError, _prove)


def find_leaf(word: str) -> Leaf | None:
    """The leaf that a word stands for, if any."""
    return _find(word, LEAVES.changes, QUANTITIES.changes)


@lru_cache(10_000)
def _find(word: str, *changes: int) -> Leaf | None:
    """Cached: trees are made by the million of few words, until one of the registries changes."""
    for kind in LEAVES.values():
        if (payload := kind.read(word)) is not None:
            return Leaf(kind, payload)
    return None


def leaf_words() -> list[str]:
    """All words of the kinds that have finitely many."""
    return [word for kind in LEAVES.values() for word in kind.words()]


def quote_foreign_text(text: str) -> str:
    """A foreign text in a message: short, and without control characters."""
    shown = repr(text if len(text) <= 40 else f"{text[:40]}...")[1:-1]
    return f"`{shown}`"
