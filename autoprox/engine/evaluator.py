"""Evaluates many trees on many networks at once, every distinct subtree a single time.

Three levels, as in the language: matrix expressions run over the source's pieces and become one
number a layer; layer vectors of networks of equal depth are computed together; scores are vectors
over the networks. Layer values are kept as far as the memory for them allows, so that a formula
that differs from an earlier one only above them costs next to nothing; those that came from
matrices, which cost the most, have three quarters of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from autoprox.engine.memo import Memo
from autoprox.engine.program import Program, by_group, reductions
from autoprox.engine.vectors import LayerVectors, Vectors, reduce_layers
from autoprox.language import Tree, canonical, require_network
from autoprox.primitives import Primitive
from autoprox.scoring.correlations import varies
from autoprox.statistics.sources import Group, MatrixSource

VALID, FAILED, NOT_FINITE, CONSTANT = range(4)
TENSOR = 500  # bytes of a tensor beside its elements
REASONS = ("valid", "network failed", "not finite", "constant")


@dataclass(frozen=True)
class Scores:
    """What trees say of networks, and for every score that isn't valid the reason."""

    values: np.ndarray  # [trees, datasets, networks] float64
    reasons: np.ndarray  # the same shape, int8: an index into REASONS


class Engine:
    """Evaluates trees on the networks of a source, and remembers what it computed."""

    def __init__(self, source: MatrixSource) -> None:
        self.source = source
        self._reduced: Memo[np.ndarray] = Memo(source.memo * 3 // 4, lambda values: values.nbytes)
        self._parts: dict[Tree, list[Tree]] = {}  # of each reduction of matrices being evaluated
        self.memo: Memo[Vectors] = Memo(source.memo // 4, _bytes_of)

    @cached_property
    def layers(self) -> LayerVectors:
        """The networks in sets of equal depth."""
        return LayerVectors(self.source.layers, self.source.alive)

    def evaluate(self, trees: Iterable[Tree], networks: Sequence[int] | None = None) -> Scores:
        """Scores of complete proxies on all networks, or on some: those that `rank` ranks."""
        forms = [canonical(require_network(tree)) for tree in trees]
        self._reduce_matrices(forms)
        compared = range(len(self.source.networks)) if networks is None else networks
        shape = (len(forms), len(self.source.datasets), len(compared))
        values = np.full(shape, np.nan)
        reasons = np.full(shape, FAILED, dtype=np.int8)
        measured = np.array([network not in self.source.failures for network in compared])
        alive = [network for network in compared if network not in self.source.failures]
        for index, form in enumerate(forms if alive else ()):
            (scores,) = form.fold(lambda tree, args: self._value(tree, args, alive))
            values[index][:, measured] = scores.expand(shape[1], -1).numpy()
            reasons[index][:, measured] = reasons_of(values[index][:, measured])
        self._reduced.trim()
        return Scores(values, reasons)

    def vectors(self, trees: Sequence[Tree]) -> Vectors:
        """[trees of one type, networks, layers] on a single dataset, for each set of networks."""
        forms = [canonical(tree) for tree in trees]
        self._reduce_matrices(forms)
        found = [form.fold(lambda tree, args: self._value(tree, args, [])) for form in forms]
        self._reduced.trim()
        return [torch.cat(parts) for parts in zip(*found, strict=True)]

    def _reduce_matrices(self, forms: Sequence[Tree]) -> None:
        """Run the programs of all matrix reductions that are new, sharing what they read."""
        _ = self.layers  # before networks that fail in the visit are missing
        wanted: dict[Tree, None] = {}
        self._parts = {}
        for form in forms:
            for tree, parts in reductions(form, self._parts).items():
                self._parts[tree] = parts
                wanted.update(dict.fromkeys(parts))
        groups = by_group(tree for tree in wanted if tree not in self._reduced)
        for group, reduced in reduce_matrices(self.source, groups).items():
            variant = {dataset: index for index, same in enumerate(reduced) for dataset in same}
            values = np.stack([tensor.cpu().numpy() for tensor in reduced.values()], axis=1)
            if len(reduced) > 1:
                values = values[:, [variant[dataset] for dataset in range(len(variant))]]
            for tree, own in zip(groups[group], values, strict=True):
                self._reduced[tree] = own.copy()  # not the array of all of them, for their sake

    def _value(self, tree: Tree, args: list[Vectors], alive: list[int]) -> Vectors:
        """A layer vector's parts, or a single part [datasets or 1, networks alive]: the scores."""

        def reduce(primitive: Primitive, tree: Tree, args: list[Vectors]) -> Vectors:
            scores = [reduce_layers(primitive, parts) for parts in zip(*args, strict=True)]
            return [self.layers.together(scores)[:, alive]]

        def read(tree: Tree) -> list[np.ndarray]:
            return [self._reduced[part] for part in self._parts[tree]]

        def place(numbers: Tensor) -> Vectors:
            return [numbers[alive].unsqueeze(0)]

        if tree in self.memo:
            return self.memo[tree]
        value = self.layers.value(tree, args, read, reduce, place)
        if tree.type.level == "Layers" and tree.args:
            self.memo[tree] = value
            self.memo.trim()
        return value


def _bytes_of(vectors: Vectors) -> int:
    return sum(TENSOR + vector.nbytes for vector in vectors)


def reduce_matrices(
    source: MatrixSource, groups: Mapping[Group, Sequence[Tree]]
) -> dict[Group, dict[tuple[int, ...], Tensor]]:
    """[expressions, layers of all networks] for datasets of equal matrices, in one visit."""
    programs = {group: Program(trees) for group, trees in groups.items()}
    reduced: dict[Group, dict[tuple[int, ...], Tensor]] = {}
    for group, trees in groups.items():
        # One tensor for all pieces: small ones kept among the chunks would fragment the memory.
        shape = (len(trees), int(source.layers.starts[next(iter(group)).domain][-1]))
        reduced[group] = {
            tuple(same): torch.full(shape, torch.nan, dtype=torch.float64, device=source.device)
            for same in source.variants(group)
        }

    def place(group: Group, datasets: list[int], positions: np.ndarray, found: Tensor) -> None:
        places = torch.from_numpy(positions).to(found.device)
        reduced[group][tuple(datasets)].index_copy_(1, places, found)

    if programs:
        source.visit(programs, place)
    return reduced


def reasons_of(scores: np.ndarray) -> np.ndarray:
    """[datasets, networks]: a set of scores that are all the same ranks nothing."""
    reasons = np.where(np.isfinite(scores), VALID, NOT_FINITE).astype(np.int8)
    constant = np.isfinite(scores).all(axis=1) & ~varies(scores)
    reasons[constant] = CONSTANT
    return reasons
