"""A proxy as a search needs it: measured network by network, and compared only at the end.

What `rank` compares is left to `scores`. The terms below it depend on one network alone; each of
them is also evaluated for every block: its last reduction, over the layers, then runs over the
layers of the block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from autoprox.engine.comparison import compare, terms_of
from autoprox.engine.program import Program, by_group, reductions
from autoprox.engine.vectors import LayerVectors, Vectors, reduce_layers
from autoprox.language import Statistic, Tree, canonical, require_network
from autoprox.language.domains import SINGLE_DOMAINS
from autoprox.primitives import Primitive
from autoprox.scoring.correlations import Floats
from autoprox.statistics.chunks import MatrixChunk
from autoprox.statistics.layers import LayerTable
from autoprox.statistics.networks import Structure
from autoprox.statistics.sources import Group

NOT_FINITE = "not finite"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a network's terms are, of the whole and of each block, or why it has none."""

    terms: tuple[float, ...] = ()
    blocks: tuple[tuple[float, ...], ...] = ()  # [terms][blocks], where they were asked for
    failure: str | None = None


class SplitProxy:
    """The terms of a proxy, and the programs that reduce the matrices they read."""

    def __init__(self, tree: Tree, by_block: bool = False) -> None:
        self.tree = canonical(require_network(tree))
        self.terms = terms_of(self.tree)
        self.by_block = by_block
        self._parts: dict[Tree, list[Tree]] = {}  # of each reduction of matrices, one a domain
        for term in self.terms:
            self._parts |= reductions(term)
        groups = by_group(dict.fromkeys(chain(*self._parts.values())))
        self.needs = frozenset(chain(*groups))
        self.reductions: dict[str, list[Tree]] = {domain: [] for domain in SINGLE_DOMAINS}
        self.programs: dict[str, list[tuple[Group, Program]]] = {d: [] for d in SINGLE_DOMAINS}
        for group, trees in groups.items():
            domain = next(iter(group)).domain
            self.reductions[domain] += trees
            self.programs[domain].append((group, Program(trees)))

    @property
    def compares(self) -> bool:
        """Whether a score depends on the other candidates."""
        return self.terms != (self.tree,)

    def __reduce__(self) -> tuple[Any, ...]:
        return SplitProxy, (self.tree, self.by_block)

    def reduce(self, domain: str, matrices: Mapping[Statistic, Tensor]) -> Tensor:
        """[reductions of the domain] of one layer, from its matrices [rows, cols]."""
        found = [
            program(MatrixChunk.of({s: matrices[s][None] for s in group}))[:, 0]
            for group, program in self.programs[domain]
        ]
        return torch.cat(found).cpu() if found else torch.empty(0, dtype=torch.float64)

    def outcomes(
        self, structures: Sequence[Structure], reduced: Mapping[str, Tensor]
    ) -> list[Outcome]:
        """Of each network, from [layers of all networks, reductions] of each domain."""
        table = LayerTable(tuple(structures))
        layers = LayerVectors(table, range(len(structures)), self.by_block)
        columns = {
            part: reduced[domain][:, index].numpy()[None]
            for domain, parts in self.reductions.items()
            for index, part in enumerate(parts)
        }

        def read(tree: Tree) -> list[np.ndarray]:
            return [columns[part] for part in self._parts[tree]]

        def reduce(primitive: Primitive, tree: Tree, args: list[Vectors]) -> Vectors:
            """[1, networks, 1 + blocks]: over all layers, and over those of each block."""
            domain = str(tree.args[0].type.domain)
            found = []
            for networks, *vectors in zip(layers.sets, *args, strict=True):
                places = table.block_places(networks[0], domain) if self.by_block else []
                whole = reduce_layers(primitive, vectors)
                parts = [reduce_layers(primitive, [v[..., own] for v in vectors]) for own in places]
                found.append(torch.stack([whole, *parts], -1))
            return found

        def place(numbers: Tensor) -> Vectors:
            """[1, networks, 1 + blocks]: a network's number is that of each of its blocks too."""
            widths = [
                1 + table.count(networks[0], "block") if self.by_block else 1
                for networks in layers.sets
            ]
            return [
                numbers[networks].view(1, -1, 1).expand(-1, -1, width)
                for networks, width in zip(layers.sets, widths, strict=True)
            ]

        terms = [
            term.fold(lambda tree, args: layers.value(tree, args, read, reduce, place))
            for term in self.terms
        ]
        outcomes: dict[int, Outcome] = {}
        for networks, values in zip(layers.sets, zip(*terms, strict=True), strict=True):
            own = torch.cat(values).transpose(0, 1).numpy()  # [networks, terms, 1 + blocks]
            outcomes.update(zip(networks, map(_outcome, own), strict=True))
        return [outcomes[network] for network in range(len(structures))]

    def scores(self, values: Floats) -> Floats:
        """The scores [n] of candidates, or of blocks, among each other: from [n, terms]."""
        return compare(self.tree, dict(zip(self.terms, values.T, strict=True)))


def _outcome(values: Floats) -> Outcome:
    """Of one network, from [terms, 1 + blocks]."""
    if not np.isfinite(values[:, 0]).all():
        return Outcome(failure=NOT_FINITE)
    # A block alone may overflow where the network doesn't; JSON has no word for that.
    blocks = np.nan_to_num(values[:, 1:], nan=-np.finfo(float).max)
    return Outcome(tuple(values[:, 0].tolist()), tuple(map(tuple, blocks.tolist())))
