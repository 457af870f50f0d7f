"""The levels above the matrices: layer vectors, computed together for networks of equal depth."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from autoprox.engine.program import is_reduction
from autoprox.language import NETWORK, Leaf, Tree
from autoprox.language.domains import parts_of
from autoprox.primitives import COMBINATORS, PRIMITIVES, Primitive, apply
from autoprox.statistics.layers import LayerTable

Vectors = list[Tensor]  # [datasets or 1, networks, layers] for each set of networks of equal depth
Read = Callable[[Tree], Sequence[np.ndarray]]
Reduce = Callable[[Primitive, Tree, list[Vectors]], Vectors]
Place = Callable[[Tensor], Vectors]


class LayerVectors:
    """The networks of a table in sets of equal depth, or of equal blocks."""

    def __init__(self, table: LayerTable, networks: Sequence[int], by_block: bool = False) -> None:
        self.table = table
        self.sets = table.sets(networks, by_block)
        self._places = {  # [networks, layers] for each set
            domain: [np.stack([np.arange(own[n], own[n + 1]) for n in same]) for same in self.sets]
            for domain, own in table.starts.items()
        }
        self._leaves: dict[Tree, Vectors] = {}

    def value(
        self, tree: Tree, args: list[Vectors], read: Read, reduce: Reduce, place: Place
    ) -> Vectors:
        """A layer vector, or numbers of networks, from the values of its arguments.

        `read` gives the [datasets or 1, layers of all networks] of the parts of a reduction of
        matrices, `reduce` reduces layer vectors, `place` puts a number of each network, [all
        networks], into the shape of what `reduce` returns.
        """
        if tree.type.level == "Matrix":
            return []  # what reads a matrix looks its own value up
        if is_reduction(tree):
            return self._merged(str(tree.type.domain), read(tree))
        if tree.leaf is not None:
            if tree.type == NETWORK:
                return place(torch.tensor(self._numbers(tree.leaf), dtype=torch.float64))
            if tree not in self._leaves:
                column = np.array([self._numbers(tree.leaf)], dtype=np.float64)
                self._leaves[tree] = self._split(column, str(tree.type.domain))
            return self._leaves[tree]
        if tree.type.level == "Layers":
            primitive = PRIMITIVES[tree.symbol]
            return [
                apply(primitive, parts, "layers") if parts[0].shape[-1] else parts[0]
                for parts in zip(*args, strict=True)
            ]
        if tree.args[0].type == NETWORK:
            combinator = COMBINATORS[tree.symbol]
            return [apply(combinator, parts, "network") for parts in zip(*args, strict=True)]
        return reduce(PRIMITIVES[tree.symbol], tree, args)

    def together(self, values: Vectors) -> Tensor:
        """[datasets or 1, all networks] from [datasets or 1, networks] of each set."""
        scores = torch.empty(len(values[0]), len(self.table.structures), dtype=torch.float64)
        for networks, part in zip(self.sets, values, strict=True):
            scores[:, networks] = part
        return scores

    def _numbers(self, leaf: Leaf) -> list[float]:
        return leaf.values(self.table.structures)

    def _merged(self, domain: str, parts: Sequence[np.ndarray]) -> Vectors:
        if len(parts) == 1:
            return self._split(parts[0], domain)
        kinds = self.table.kinds(domain)
        values = np.empty((len(parts[0]), len(kinds)))
        for single, part in zip(parts_of(domain), parts, strict=True):
            values[:, kinds == single] = part
        return self._split(values, domain)

    def _split(self, values: np.ndarray, domain: str) -> Vectors:
        return [torch.from_numpy(values.take(places, axis=1)) for places in self._places[domain]]


def reduce_layers(primitive: Primitive, vectors: Sequence[Tensor]) -> Tensor:
    """The reduction over layers; 0 of none."""
    return apply(primitive, vectors, "layers") if vectors[0].shape[-1] else vectors[0].sum(-1)
