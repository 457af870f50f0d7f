"""The size that trees may have."""

from __future__ import annotations

from typing import Annotated, Protocol

from annotated_types import Le

from autoprox.options import Option, Options, Positive

MAX_SIZE = 1_000
MAX_DEPTH = 100


class Sized(Protocol):
    """What has the size of a tree."""

    @property
    def size(self) -> int: ...

    @property
    def depth(self) -> int: ...


class TreeLimits(Options):
    """The most nodes of a tree, and the most operations between its root and a terminal."""

    noun = "a grammar"

    max_size: Annotated[Positive, Le(MAX_SIZE), Option("Nodes of a formula.", "Evolution")] = 40
    max_depth: Annotated[
        Positive, Le(MAX_DEPTH), Option("Nested operations of a formula.", "Evolution")
    ] = 10

    def allow(self, tree: Sized) -> bool:
        """Whether a tree keeps them."""
        return tree.size <= self.max_size and tree.depth <= self.max_depth
