"""A memo of values by tree, bounded in memory."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from autoprox.language import Tree

V = TypeVar("V")
NODE_BYTES = 1_000  # of a node of a tree with its text: for small networks more than the values


class TreeMemo(Generic[V]):
    """Values by tree; `trim` drops the least recently used ones beyond a limit in bytes."""

    def __init__(self, limit: int, bytes_of: Callable[[V], int]) -> None:
        self.bytes = 0
        self._limit, self._bytes_of = limit, bytes_of
        self._values: OrderedDict[Tree, V] = OrderedDict()  # the most recently used last

    def __contains__(self, tree: Tree) -> bool:
        return tree in self._values

    def __iter__(self) -> Iterator[Tree]:
        return iter(self._values)

    def __getitem__(self, tree: Tree) -> V:
        self._values.move_to_end(tree)
        return self._values[tree]

    def __setitem__(self, tree: Tree, value: V) -> None:
        if tree in self._values:
            self.bytes -= self._bytes(tree, self._values.pop(tree))
        self._values[tree] = value
        self.bytes += self._bytes(tree, value)

    def trim(self) -> None:
        """Drop values down to the limit, once none is in use."""
        while self.bytes > self._limit:
            self.bytes -= self._bytes(*self._values.popitem(last=False))

    def _bytes(self, tree: Tree, value: V) -> int:
        return NODE_BYTES * tree.size + self._bytes_of(value)
