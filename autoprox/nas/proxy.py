"""A proxy as a search needs it: measured network by network, and compared only at the end.

What `rank` compares is left to `scores`. The terms below it depend on one network alone; each of
them is also evaluated for every block: its last reduction, over the layers, then runs over the
layers of the block.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain

import numpy as np
import torch
from torch import Tensor

from autoprox.engine.comparison import combine, terms
from autoprox.engine.evaluator import Program, parts_of
from autoprox.language import NETWORK, Statistic, Tree, canonical, require_network, statistics
from autoprox.primitives import COMBINATORS, PRIMITIVES, apply
from autoprox.scoring.correlations import Floats
from autoprox.searchspaces import Block
from autoprox.statistics.matrices import Slab
from autoprox.statistics.sources import Group

NOT_FINITE = "not finite"
DOMAINS = ("msa", "mlp")


@dataclass(frozen=True)
class Outcome:
    """What a network's terms are, of the whole and of each block, or why it has none."""

    terms: tuple[float, ...] = ()
    blocks: tuple[tuple[float, ...], ...] = ()  # [terms][blocks], where they were asked for
    failure: str | None = None


@dataclass(frozen=True)
class Layout:
    """The domain of each linear layer of each block: networks of one layout are of equal depth."""

    blocks: tuple[tuple[str, ...], ...]

    def places(self, domain: str) -> list[list[int]]:
        """Where the layers of each block stand in a layer vector of the domain."""
        counts = [
            1 if domain == "block" else sum(domain in (own, "all") for own in block)
            for block in self.blocks
        ]
        ends = accumulate(counts)
        return [list(range(end - count, end)) for count, end in zip(counts, ends, strict=True)]

    @property
    def is_msa(self) -> list[bool]:
        """Of each layer, in depth order."""
        return [domain == "msa" for block in self.blocks for domain in block]


class Proxy:
    """The terms of a proxy, and the programs that reduce the matrices they read."""

    def __init__(self, tree: Tree, by_block: bool = False) -> None:
        self.tree = canonical(require_network(tree))
        self.terms = terms(self.tree)
        self.by_block = by_block
        self._parts: dict[Tree, list[Tree]] = {}  # of each reduction of matrices, one a domain
        for term in self.terms:
            term.fold(lambda node, _: self._parts.update({node: parts_of(node)}))
        groups: dict[Group, dict[Tree, None]] = defaultdict(dict)
        for part in chain(*self._parts.values()):
            groups[statistics(part)][part] = None
        self.needs = frozenset(chain(*groups))
        self.reductions: dict[str, list[Tree]] = {domain: [] for domain in DOMAINS}
        self.programs: dict[str, list[tuple[Group, Program]]] = {domain: [] for domain in DOMAINS}
        for group, trees in groups.items():
            domain = next(iter(group)).domain
            self.reductions[domain] += trees
            self.programs[domain].append((group, Program(list(trees))))

    def reduce(self, domain: str, matrices: Mapping[Statistic, Tensor]) -> Tensor:
        """[reductions of the domain] of one layer, from its matrices [rows, cols]."""
        found = [
            program(Slab.of({s: matrices[s][None] for s in group}))[:, 0]
            for group, program in self.programs[domain]
        ]
        return torch.cat(found).cpu() if found else torch.empty(0, dtype=torch.float64)

    def outcomes(
        self,
        layers: Mapping[str, Tensor],
        blocks: Sequence[Sequence[Block]],
        layout: Layout,
    ) -> list[Outcome]:
        """Of each network, from [networks, layers, reductions] of each domain and the blocks."""
        structure = {
            "width": [[block.width for block in own] for own in blocks],
            "tokens": [[block.tokens for block in own] for own in blocks],
            "heads": [[block.heads for block in own] for own in blocks],
            "one": [[1 for _ in own] for own in blocks],
        }
        vectors = {
            name: torch.tensor(values, dtype=torch.float64) for name, values in structure.items()
        }

        def visit(node: Tree, args: list[Tensor | None]) -> Tensor | None:
            known = [arg for arg in args if arg is not None]
            if node.type.level == "Matrix":
                return None
            if node.type.level == "Layers":
                if not node.args:
                    return vectors[node.symbol]
                if not known:
                    return self._read(node, layers, layout)
                return apply(PRIMITIVES[node.symbol], known, "layers")
            if node.args[0].type == NETWORK:
                return apply(COMBINATORS[node.symbol], known, "network")
            return self._last(node, known[0], layout)

        found = [term.fold(visit) for term in self.terms]
        values = torch.stack([value for value in found if value is not None], 1)
        return [_outcome(own) for own in values.numpy()]

    def _read(self, node: Tree, layers: Mapping[str, Tensor], layout: Layout) -> Tensor:
        """A reduction of matrices, [networks, layers]."""
        parts = []
        for part in self._parts[node]:
            domain = str(part.type.domain)
            parts.append(layers[domain][:, :, self.reductions[domain].index(part)])
        if len(parts) == 1:
            return parts[0]
        is_msa = torch.tensor(layout.is_msa)
        vector = torch.empty(len(parts[0]), len(is_msa), dtype=torch.float64)
        vector[:, is_msa], vector[:, ~is_msa] = parts
        return vector

    def _last(self, node: Tree, vector: Tensor, layout: Layout) -> Tensor:
        """[networks, 1 + blocks]: the reduction over all layers, and over those of each block."""
        reduction = PRIMITIVES[node.symbol]
        columns = [apply(reduction, [vector], "layers")]
        if self.by_block:
            for places in layout.places(str(node.args[0].type.domain)):
                own = vector[:, places]
                columns.append(apply(reduction, [own], "layers") if places else own.sum(-1))
        return torch.stack(columns, -1)

    def scores(self, values: Floats) -> Floats:
        """The scores [n] of candidates, or of blocks, among each other: from [n, terms]."""
        columns = dict(zip(self.terms, values.T, strict=True))
        return combine(self.tree, columns)


def _outcome(values: Floats) -> Outcome:
    """Of one network, from [terms, 1 + blocks]."""
    if not np.isfinite(values[:, 0]).all():
        return Outcome(failure=NOT_FINITE)
    # A block alone may overflow where the network doesn't; JSON has no word for that.
    blocks = np.nan_to_num(values[:, 1:], nan=-np.finfo(float).max)
    return Outcome(tuple(values[:, 0].tolist()), tuple(map(tuple, blocks.tolist())))
