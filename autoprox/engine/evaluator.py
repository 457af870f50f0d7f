"""Evaluates many trees on many networks at once, every distinct subtree a single time.

Three levels, as in the language: matrix expressions run over the source's pieces and become one
number a layer; layer vectors of networks of equal depth are computed together; scores are vectors
over the networks. Layer values that came from matrices are kept for good, so that a formula that
differs from an earlier one only above them costs next to nothing.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from autoprox.language import (
    STATISTICS,
    Statistic,
    Tree,
    canonical,
    make,
    nonnegative,
    require_network,
    statistics,
)
from autoprox.primitives import COMBINATORS, PRIMITIVES, Primitive, apply
from autoprox.statistics.matrices import Slab
from autoprox.statistics.sources import Group, Source

VALID, FAILED, NOT_FINITE, CONSTANT = range(4)
REASONS = ("valid", "network failed", "not finite", "constant")
RELATIVE_SPREAD = 1e-12  # scores that differ by less, relative to the largest, differ by rounding
MEMO_BYTES = 2**28  # of layer vectors above the matrices: cheap to compute again

Vectors = list[Tensor]  # [datasets or 1, networks, layers] for each set of networks of equal depth


@dataclass(frozen=True)
class Scores:
    """What trees say of networks, and for every score that isn't valid the reason."""

    values: np.ndarray  # [trees, datasets, networks] float64
    reasons: np.ndarray  # the same shape, int8: an index into REASONS


class Program:
    """Matrix expressions as straight-line code, each distinct subtree once.

    A register is dropped after its last use, or overwritten with what is computed from it, so that
    a chunk's intermediate values stay in cache.
    """

    def __init__(self, trees: Sequence[Tree]) -> None:
        self.inputs: dict[Statistic, int] = {}
        self.steps: list[tuple[Primitive, tuple[int, ...], int]] = []
        self._registers: dict[Tree, int] = {}
        self.outputs = [tree.fold(self._compile) for tree in trees]
        last = {r: step for step, (_, args, _) in enumerate(self.steps) for r in args}
        self.done: list[list[int]] = [[] for _ in self.steps]
        for register, step in last.items():
            self.done[step].append(register)
        writable = {register for primitive, _, register in self.steps if primitive.takes_out}
        self.overwritten = [
            next(iter(writable.intersection(done)), None) if primitive.takes_out else None
            for (primitive, _, _), done in zip(self.steps, self.done, strict=True)
        ]

    def _compile(self, tree: Tree, args: list[int]) -> int:
        if tree not in self._registers:
            register = self._registers[tree] = len(self._registers)
            if args:
                primitive = PRIMITIVES[tree.symbol]
                if all(map(nonnegative, tree.args)):
                    primitive = primitive.on_nonnegative
                self.steps.append((primitive, tuple(args), register))
            else:
                self.inputs[STATISTICS[tree.symbol]] = register
        return self._registers[tree]

    def __call__(self, slab: Slab) -> Tensor:
        """[expressions, matrices]"""
        registers = {self.inputs[s]: value for s, value in slab.values.items()}
        steps = zip(self.steps, self.done, self.overwritten, strict=True)
        for (primitive, args, result), done, overwritten in steps:
            if primitive.along_axis:
                parts = slab.parts(registers[args[0]])
                values = [apply(primitive, [part], "matrix").flatten() for part in parts]
                registers[result] = torch.cat(values)
            else:
                out = None if overwritten is None else registers[overwritten]
                registers[result] = apply(primitive, [registers[r] for r in args], "matrix", out)
            for register in done:
                registers.pop(register)
        return torch.stack([registers[r] for r in self.outputs])


class Engine:
    def __init__(self, source: Source) -> None:
        self.source = source
        self._parts: dict[Tree, list[Tree]] = {}  # of each reduction of matrices
        self._reduced: dict[Tree, np.ndarray] = {}  # [datasets or 1, layers of all networks]
        self._vectors: OrderedDict[Tree, Vectors] = OrderedDict()
        self._vector_bytes = 0
        counts = ("msa", "mlp", "block")
        table = source.layers
        depths = defaultdict(list)
        for network in source.alive:
            depths[tuple(table.count(network, domain) for domain in counts)].append(network)
        self._equal = list(depths.values())
        starts = {domain: table.starts(domain) for domain in (*counts, "all")}
        self._layers = {domain: int(starts[domain][-1]) for domain in starts}
        self._places = {  # [networks, layers] for each set of networks of equal depth
            domain: [
                np.stack([np.arange(first[n], first[n + 1]) for n in networks])
                for networks in self._equal
            ]
            for domain, first in starts.items()
        }
        kinds = [domain for domains in table.domains for domain in domains]
        self._is_msa = np.array([kind == "msa" for kind in kinds], dtype=bool)
        self._structure = self._read_structure()

    def evaluate(self, trees: Iterable[Tree], networks: Sequence[int] | None = None) -> Scores:
        """Scores of complete proxies on all networks, or on some: those that `rank` ranks."""
        forms = [canonical(require_network(tree)) for tree in trees]
        self._reduce_matrices(forms)
        compared = range(len(self.source.architectures)) if networks is None else networks
        shape = (len(forms), len(self.source.datasets), len(compared))
        values = np.full(shape, np.nan)
        reasons = np.full(shape, FAILED, dtype=np.int8)
        measured = np.array([network not in self.source.failures for network in compared])
        alive = [network for network in compared if network not in self.source.failures]
        for index, form in enumerate(forms):
            scores = form.fold(lambda tree, args: self._value(tree, args, alive))[0]
            values[index][:, measured] = scores.expand(shape[1], -1).numpy()
            reasons[index][:, measured] = _reasons(values[index][:, measured])
        return Scores(values, reasons)

    def _reduce_matrices(self, forms: Sequence[Tree]) -> None:
        """Run the programs of all matrix reductions that are new, sharing what they read."""
        wanted: dict[Tree, None] = {}

        def want(tree: Tree, args: list[None]) -> None:
            if tree not in self._parts:
                self._parts[tree] = parts_of(tree)
            wanted.update(dict.fromkeys(self._parts[tree]))

        for form in forms:
            form.fold(want)
        groups: dict[Group, list[Tree]] = defaultdict(list)
        for tree in wanted:
            if tree not in self._reduced:
                groups[statistics(tree)].append(tree)
        programs = {group: Program(trees) for group, trees in groups.items()}
        # One tensor for all pieces: small ones kept among the chunks would fragment the memory.
        reduced = {
            (group, tuple(datasets)): self._unreduced(group, len(trees))
            for group, trees in groups.items()
            for datasets in self.source.variants(group)
        }

        def reduce(group: Group, datasets: list[int], positions: np.ndarray, slab: Slab) -> None:
            found = programs[group](slab)
            places = torch.from_numpy(positions).to(found.device)
            reduced[group, tuple(datasets)].index_copy_(1, places, found)

        if programs:
            self.source.visit(list(programs), reduce)
        for group, trees in groups.items():
            self._keep(trees, {d: values for (g, d), values in reduced.items() if g == group})

    def _unreduced(self, group: Group, expressions: int) -> Tensor:
        """[expressions, layers of all networks]"""
        shape = (expressions, self._layers[next(iter(group)).domain])
        return torch.full(shape, torch.nan, dtype=torch.float64, device=self.source.device)

    def _keep(self, trees: Sequence[Tree], reduced: dict[tuple[int, ...], Tensor]) -> None:
        """Remember [datasets or 1, layers of all networks] for each tree."""
        variant = {dataset: index for index, same in enumerate(reduced) for dataset in same}
        values = np.stack([tensor.cpu().numpy() for tensor in reduced.values()], axis=1)
        if len(reduced) > 1:
            values = values[:, [variant[dataset] for dataset in range(len(variant))]]
        self._reduced.update(zip(trees, values, strict=True))

    def _value(self, tree: Tree, args: list[Vectors], alive: list[int]) -> Vectors:
        """A layer vector's parts, or a single part [datasets or 1, networks alive]: the scores."""
        if tree.type.level == "Matrix":
            return []  # what reads a matrix looks its own value up
        if tree.type.level == "Layers":
            return self._layer_value(tree, args)
        if tree.args[0].type.level == "Network":
            return [apply(COMBINATORS[tree.symbol], [scores for (scores,) in args], "network")]
        reduced = [apply(PRIMITIVES[tree.symbol], [vector], "layers") for vector in args[0]]
        scores = torch.empty(len(reduced[0]), len(self.source.architectures), dtype=torch.float64)
        for networks, part in zip(self._equal, reduced, strict=True):
            scores[:, networks] = part
        return [scores[:, alive]]

    def _layer_value(self, tree: Tree, args: list[Vectors]) -> Vectors:
        if not tree.args:
            return self._structure[tree.symbol]
        if tree in self._vectors:
            self._vectors.move_to_end(tree)
            return self._vectors[tree]
        if tree.args[0].type.level == "Matrix":
            vectors = self._read_reduced(tree)
        else:
            primitive = PRIMITIVES[tree.symbol]
            vectors = [apply(primitive, parts, "layers") for parts in zip(*args, strict=True)]
        self._vectors[tree] = vectors
        self._vector_bytes += _bytes(vectors)
        while self._vector_bytes > MEMO_BYTES:
            self._vector_bytes -= _bytes(self._vectors.popitem(last=False)[1])
        return vectors

    def _read_reduced(self, tree: Tree) -> Vectors:
        parts = [self._reduced[part] for part in self._parts[tree]]
        domain, values = str(tree.type.domain), parts[0]
        if domain == "all":
            values = np.empty((len(values), len(self._is_msa)))
            values[:, self._is_msa], values[:, ~self._is_msa] = parts
        return self._by_depth(values, domain)

    def _by_depth(self, values: np.ndarray, domain: str) -> Vectors:
        """Split [datasets, layers of all networks] into sets of networks of equal depth."""
        return [torch.from_numpy(values.take(places, axis=1)) for places in self._places[domain]]

    def _read_structure(self) -> dict[str, Vectors]:
        blocks = [block for network in self.source.layers.blocks for block in network]
        columns = {
            "width": [block.width for block in blocks],
            "tokens": [block.tokens for block in blocks],
            "heads": [block.heads for block in blocks],
            "one": [1 for _ in blocks],
        }
        return {
            name: self._by_depth(np.array([column], dtype=np.float64), "block")
            for name, column in columns.items()
        }


def parts_of(tree: Tree) -> list[Tree]:
    """The reductions over single domains of which a reduction of matrices is made, if it is one."""
    if tree.type.level != "Layers" or not tree.args or tree.args[0].type.level != "Matrix":
        return []
    if tree.args[0].type.domain != "all":
        return [tree]
    return [_in_domain(tree, "msa"), _in_domain(tree, "mlp")]


def _in_domain(tree: Tree, domain: str) -> Tree:
    named = tree.fold(lambda t, args: make(t.symbol.replace("all.", f"{domain}."), *args))
    return canonical(named)


def _bytes(vectors: Vectors) -> int:
    return sum(vector.nbytes for vector in vectors)


def _reasons(scores: np.ndarray) -> np.ndarray:
    """[datasets, networks]: a set of scores that are all the same ranks nothing."""
    reasons = np.where(np.isfinite(scores), VALID, NOT_FINITE).astype(np.int8)
    finite = np.where(np.isfinite(scores), scores, 0.0)
    spread = np.ptp(finite, axis=1) <= RELATIVE_SPREAD * np.abs(finite).max(axis=1)
    reasons[(spread & (reasons == VALID).all(axis=1))] = CONSTANT
    return reasons
