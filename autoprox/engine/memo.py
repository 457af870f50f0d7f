"""What was computed of trees, as far as a bound on its memory allows."""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from autoprox.language import Tree

V = TypeVar("V")
NODE = 1_000  # bytes of a tree's node, with its text: of small networks more than the values


class Memo(Generic[V]):
    """Values by tree; `trim` drops what was used the longest ago beyond the bound."""

    def __init__(self, most: int, bytes_of: Callable[[V], int]) -> None:
        self.bytes = 0
        self._most, self._bytes_of = most, bytes_of
        self._values: OrderedDict[Tree, V] = OrderedDict()  # what was used last is last

    def __contains__(self, tree: Tree) -> bool:
        return tree in self._values

    def __getitem__(self, tree: Tree) -> V:
        self._values.move_to_end(tree)
        return self._values[tree]

    def __setitem__(self, tree: Tree, value: V) -> None:
        if tree in self._values:
            self.bytes -= self._held(tree, self._values.pop(tree))
        self._values[tree] = value
        self.bytes += self._held(tree, value)

    def __iter__(self) -> Iterator[Tree]:
        return iter(self._values)

    def trim(self) -> None:
        """What is in use may be beyond the bound until it isn't any more."""
        while self.bytes > self._most:
            self.bytes -= self._held(*self._values.popitem(last=False))

    def _held(self, tree: Tree, value: V) -> int:
        return NODE * tree.size + self._bytes_of(value)
