"""Evaluates trees on untrained networks, every distinct subtree once.

There are three levels, as in the language: matrix expressions run over the pieces of a source and
become one number per layer; layer vectors of networks with equally many layers are computed
together; scores are vectors over the networks. Layer values are kept as far as the memory for them
allows, so that a formula that differs from an earlier one only above them costs next to nothing.
Values reduced from matrices, which cost the most, have three quarters of that memory.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from autoprox.engine.per_network_terms import combine_terms, proxy_terms
from autoprox.engine.tree_compilation import (
    MatrixProgram,
    group_by_statistics,
    is_reduction,
    matrix_reductions,
)
from autoprox.language import NETWORK, Tree, canonical
from autoprox.language.layer_domains import SINGLE_DOMAINS, single_domains_of
from autoprox.primitives import COMBINATORS, PRIMITIVES, apply_primitive
from autoprox.scoring.correlations import Floats, scores_vary
from autoprox.statistics.matrix_sources import MatrixSource, StatisticGroup
from autoprox.statistics.untrained_networks import LayerTable

REASONS = ("valid", "network failed", "not finite", "constant")
VALID, NETWORK_FAILED, SCORE_NOT_FINITE, CONSTANT = range(len(REASONS))
NODE_BYTES = 1_000  # of a node of a tree with its text: for small networks more than the values
TENSOR_BYTES = 500  # of a tensor without its elements

V = TypeVar("V")
Vectors = list[Tensor]  # [datasets or 1, networks, layers] for each set of networks


@dataclass(frozen=True)
class ProxyScores:
    """Scores of networks by trees, and a reason for every score that isn't valid."""

    values: np.ndarray  # [trees, datasets, networks] float64
    reasons: np.ndarray  # the same shape, int8: an index into REASONS


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


class LayerVectors:
    """Networks in sets with equally many layers in every domain, or even in every block."""

    def __init__(self, table: LayerTable, networks: Sequence[int], by_block: bool = False) -> None:
        self.table = table
        domains = (*SINGLE_DOMAINS, "block")
        counts = np.stack([np.diff(table.starts[domain]) for domain in domains], axis=1).tolist()
        sets: dict[object, list[int]] = defaultdict(list)
        for network in networks:
            layout = table.structures[network].domains if by_block else ()
            sets[tuple(counts[network]), layout].append(network)
        self.sets = list(sets.values())
        self._positions = {  # [networks, layers] for each set
            domain: [np.stack([np.arange(own[n], own[n + 1]) for n in same]) for same in self.sets]
            for domain, own in table.starts.items()
        }
        self._kinds = cache(self._find_kinds)

    def split(self, values: np.ndarray, domain: str) -> Vectors:
        """Split [datasets or 1, layers of all networks] of a domain into the sets."""
        return [torch.from_numpy(values.take(own, axis=1)) for own in self._positions[domain]]

    def merge(self, parts: Sequence[np.ndarray], domain: str) -> Vectors:
        """Put values of the single domains that a domain consists of in depth order, and split."""
        if len(parts) == 1:
            return self.split(parts[0], domain)
        kinds = self._kinds(domain)
        values = np.empty((len(parts[0]), len(kinds)))
        for single, part in zip(single_domains_of(domain), parts, strict=True):
            values[:, kinds == single] = part
        return self.split(values, domain)

    def together(self, values: Vectors) -> Tensor:
        """Return [datasets or 1, all networks] from [datasets or 1, networks] of each set."""
        scores = torch.empty(len(values[0]), len(self.table.structures), dtype=torch.float64)
        for networks, part in zip(self.sets, values, strict=True):
            scores[:, networks] = part
        return scores

    def block_positions(self, network: int, domain: str) -> list[list[int]]:
        """Return the positions of each block's layers in a layer vector of the network."""
        structure = self.table.structures[network]
        if domain == "block":
            return [[block] for block in range(len(structure.blocks))]
        positions: list[list[int]] = [[] for _ in structure.domains]
        for position, (_, block) in enumerate(structure.layers(domain)):
            if block is not None:
                positions[block].append(position)
        return positions

    def _find_kinds(self, domain: str) -> np.ndarray:
        """Return the single domain of each of a domain's layers, [layers of all networks]."""
        found = [kind for s in self.table.structures for kind, _ in s.layers(domain)]
        return np.array(found, dtype=str)


class TreeEvaluator:
    """Evaluates trees on the networks of a source, and remembers what it computed.

    With `by_block`, every reduction of layer vectors also runs over the layers of each block alone.
    """

    def __init__(self, source: MatrixSource, by_block: bool = False) -> None:
        self.source = source
        self.memo: TreeMemo[Vectors] = TreeMemo(
            source.memo // 4, lambda vectors: sum(TENSOR_BYTES + own.nbytes for own in vectors)
        )
        self._by_block = by_block
        self._reduced: TreeMemo[np.ndarray] = TreeMemo(
            source.memo * 3 // 4, lambda values: values.nbytes
        )
        self._parts: dict[Tree, list[Tree]] = {}  # of each reduction that is being evaluated
        self._leaves: dict[Tree, Vectors] = {}

    @cached_property
    def layers(self) -> LayerVectors:
        """The networks in sets with equally many layers."""
        return LayerVectors(self.source.layers, self.source.measurable, self._by_block)

    def evaluate(self, trees: Iterable[Tree], networks: Sequence[int] | None = None) -> ProxyScores:
        """Score complete proxies on all networks or on some; `rank` ranks only these."""
        if networks is None:
            networks = range(len(self.source.networks))
        return score_across_sources([SourceNetworks(self, networks)], trees)

    def term_values(self, terms: Sequence[Tree]) -> Floats:
        """Return the values of proxies' terms, [terms, datasets, networks].

        They mean nothing for networks that failed.
        """
        source = self.source
        values = np.full((len(terms), len(source.datasets), len(source.networks)), np.nan)
        for term, parts in enumerate(self._evaluate(terms)):
            for networks, part in zip(self.layers.sets, parts, strict=True):
                values[term][:, networks] = part[..., 0].numpy()
        return values

    def block_values(self, terms: Sequence[Tree]) -> dict[int, Floats]:
        """Return the values of proxies' terms for each network and its blocks, [terms, 1 + blocks].

        There may be one dataset, and for proxies of structure alone none. Networks that can't be
        built have no values; those of networks that failed later mean nothing.
        """
        found: dict[int, Floats] = {}
        values = self._evaluate(terms)
        for networks, *parts in zip(self.layers.sets, *values, strict=True):
            found.update(zip(networks, torch.cat(parts).transpose(0, 1).numpy(), strict=True))
        return found

    def vectors(self, trees: Sequence[Tree]) -> Vectors:
        """Return layer vectors of trees of one type on a single dataset.

        They are [trees, networks, layers] for each set of networks.
        """
        found = self._evaluate([canonical(tree) for tree in trees])
        return [torch.cat(parts) for parts in zip(*found, strict=True)]

    def _evaluate(self, forms: Sequence[Tree]) -> list[Vectors]:
        """Evaluate canonical trees without `rank`."""
        self._reduce_matrices(forms)
        values = [form.fold(self._value) for form in forms]
        self._reduced.trim()
        return values

    def _reduce_matrices(self, forms: Sequence[Tree]) -> None:
        """Run the programs of all new matrix reductions, which share what they read."""
        _ = self.layers  # computed before networks fail in the visit
        self._parts = {}
        for form in forms:
            self._parts |= matrix_reductions(form, self._parts)
        wanted = dict.fromkeys(part for parts in self._parts.values() for part in parts)
        groups = group_by_statistics(tree for tree in wanted if tree not in self._reduced)
        for group, reduced in reduce_matrices(self.source, groups).items():
            variant = {dataset: index for index, same in enumerate(reduced) for dataset in same}
            values = np.stack([tensor.cpu().numpy() for tensor in reduced.values()], axis=1)
            if len(reduced) > 1:
                values = values[:, [variant[dataset] for dataset in range(len(variant))]]
            for tree, own in zip(groups[group], values, strict=True):
                self._reduced[tree] = own.copy()  # a view would keep the whole array in memory

    def _value(self, tree: Tree, args: list[Vectors]) -> Vectors:
        """Return layer vectors, or [datasets or 1, networks, 1 or 1 + blocks] for each set."""
        if tree.type.level == "Matrix":
            return []  # the reduction of a matrix looks its own value up
        if tree in self.memo:
            return self.memo[tree]
        if is_reduction(tree):
            parts = [self._reduced[part] for part in self._parts[tree]]
            value = self.layers.merge(parts, str(tree.type.domain))
        elif tree.leaf is not None:
            return self._leaf_value(tree)
        elif tree.type.level == "Layers":
            primitive = PRIMITIVES[tree.symbol]
            value = [
                apply_primitive(primitive, parts, "layers") if parts[0].shape[-1] else parts[0]
                for parts in zip(*args, strict=True)
            ]
        elif tree.args[0].type == NETWORK:
            combinator = COMBINATORS[tree.symbol]
            return [
                apply_primitive(combinator, parts, "network") for parts in zip(*args, strict=True)
            ]
        else:
            return self._reduce_layers(tree, args)
        self.memo[tree] = value
        self.memo.trim()
        return value

    def _leaf_value(self, tree: Tree) -> Vectors:
        if tree not in self._leaves:
            assert tree.leaf is not None
            structures = self.layers.table.structures
            numbers = np.array(tree.leaf.values(structures), dtype=np.float64)
            if tree.type == NETWORK:  # a network's number is that of each of its blocks too
                self._leaves[tree] = [
                    torch.from_numpy(numbers[networks])[None, :, None].expand(
                        -1, -1, 1 + self._by_block * len(structures[networks[0]].blocks)
                    )
                    for networks in self.layers.sets
                ]
            else:
                self._leaves[tree] = self.layers.split(numbers[None], str(tree.type.domain))
        return self._leaves[tree]

    def _reduce_layers(self, tree: Tree, args: list[Vectors]) -> Vectors:
        """Reduce layer vectors over all layers, and over those of each block if wanted."""
        primitive, domain = PRIMITIVES[tree.symbol], str(tree.args[0].type.domain)
        values = []
        for networks, *vectors in zip(self.layers.sets, *args, strict=True):
            spans: list[slice | list[int]] = [slice(None)]
            if self._by_block:
                spans += self.layers.block_positions(networks[0], domain)
            parts = [[vector[..., span] for vector in vectors] for span in spans]
            # A reduction over no layers is 0.
            reduced = [
                apply_primitive(primitive, own, "layers") if own[0].shape[-1] else own[0].sum(-1)
                for own in parts
            ]
            values.append(torch.stack(reduced, -1))
        return values


class SourceNetworks(NamedTuple):
    """Networks of an engine's source, by their indices."""

    engine: TreeEvaluator
    indices: Sequence[int]


def score_across_sources(selected: Sequence[SourceNetworks], trees: Iterable[Tree]) -> ProxyScores:
    """Score complete proxies on networks of several sources, which `rank` ranks together."""
    trees = list(trees)
    terms = list(dict.fromkeys(term for tree in trees for term in proxy_terms(tree)))
    parts = [engine.term_values(terms)[..., list(own)] for engine, own in selected]
    measured = np.concatenate(parts, axis=-1)
    failed = np.array([n in engine.source.failures for engine, own in selected for n in own], bool)
    values = np.full((len(trees), *measured.shape[1:]), np.nan)
    reasons = np.full(values.shape, NETWORK_FAILED, dtype=np.int8)
    if not failed.all():
        known = dict(zip(terms, measured[..., ~failed], strict=True))
        for index, tree in enumerate(trees):
            scores = combine_terms(tree, known)
            values[index][:, ~failed] = scores
            reasons[index][:, ~failed] = reasons_of(scores)
    return ProxyScores(values, reasons)


def reduce_matrices(
    source: MatrixSource, groups: Mapping[StatisticGroup, Sequence[Tree]]
) -> dict[StatisticGroup, dict[tuple[int, ...], Tensor]]:
    """Reduce matrices in one visit: [expressions, layers] for datasets with equal matrices."""
    programs = {group: _compiled(tuple(trees)) for group, trees in groups.items()}
    reduced: dict[StatisticGroup, dict[tuple[int, ...], Tensor]] = {}
    for group, trees in groups.items():
        # One tensor for all pieces: small ones kept among the chunks would fragment the memory.
        shape = (len(trees), int(source.layers.starts[next(iter(group)).domain][-1]))
        reduced[group] = {
            tuple(same): torch.full(shape, torch.nan, dtype=torch.float64, device=source.device)
            for same in source.variants(group)
        }

    def take(
        group: StatisticGroup, datasets: list[int], positions: np.ndarray, values: Tensor
    ) -> None:
        indices = torch.from_numpy(positions).to(values.device)
        reduced[group][tuple(datasets)].index_copy_(1, indices, values)

    if programs:
        source.visit(programs, take)
    return reduced


@lru_cache(maxsize=64)
def _compiled(trees: tuple[Tree, ...]) -> MatrixProgram:
    """Return the program of some trees, which a search runs for every candidate."""
    return MatrixProgram(trees)


def reasons_of(scores: np.ndarray) -> np.ndarray:
    """Return the reason of each score [datasets, networks]; equal scores of all rank nothing."""
    reasons = np.where(np.isfinite(scores), VALID, SCORE_NOT_FINITE).astype(np.int8)
    constant = np.isfinite(scores).all(axis=1) & ~scores_vary(scores)
    reasons[constant] = CONSTANT
    return reasons
