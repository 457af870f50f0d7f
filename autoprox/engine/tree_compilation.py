"""Matrix expressions as straight-line code, and which of them a tree needs."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from autoprox.language import (
    EVERY_STATISTIC,
    Statistic,
    Tree,
    canonical,
    is_nonnegative,
    make_tree,
    statistics,
)
from autoprox.language.layer_domains import DOMAIN_PARTS
from autoprox.primitives import DIMS, PRIMITIVES, Primitive, apply_primitive
from autoprox.statistics.matrix_sources import StatisticGroup
from autoprox.statistics.packed_matrices import MatrixChunk


class MatrixProgram:
    """Straight-line code that computes each distinct subtree of some trees once.

    A register is dropped after its last use, or overwritten with what is computed from it, so that
    a chunk's intermediate values stay in cache. Programs of the same trees are equal.
    """

    def __init__(self, trees: Sequence[Tree]) -> None:
        self.trees = tuple(trees)
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
                if all(map(is_nonnegative, tree.args)):
                    primitive = primitive.on_nonnegative
                self.steps.append((primitive, tuple(args), register))
            else:
                self.inputs[EVERY_STATISTIC[tree.symbol]] = register
        return self._registers[tree]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MatrixProgram) and self.trees == other.trees

    def __hash__(self) -> int:
        return hash(self.trees)

    def __reduce__(self) -> tuple[Any, ...]:
        return MatrixProgram, (self.trees,)

    def __call__(self, chunk: MatrixChunk) -> Tensor:
        """Return [expressions, matrices]."""
        shared: dict[tuple[Callable[..., Tensor], int], list[Tensor]] = {}
        registers = {self.inputs[s]: value for s, value in chunk.values.items()}
        steps = zip(self.steps, self.done, self.overwritten, strict=True)
        for (primitive, args, result), done, overwritten in steps:
            if not primitive.along_axis:
                out = None if overwritten is None else registers[overwritten]
                registers[result] = apply_primitive(
                    primitive, [registers[r] for r in args], "matrix", out
                )
            else:
                parts = [chunk.parts(registers[register]) for register in args]
                if primitive.shared is None:
                    found = [
                        apply_primitive(primitive, own, "matrix")
                        for own in zip(*parts, strict=True)
                    ]
                else:  # what reductions share is computed once per register
                    key = primitive.shared, args[0]
                    if key not in shared:
                        shared[key] = [primitive.shared(part, DIMS["matrix"]) for part in parts[0]]
                    found = [primitive.function(value) for value in shared[key]]
                registers[result] = torch.cat([value.flatten() for value in found])
            for register in done:
                registers.pop(register)
        return torch.stack([registers[r] for r in self.outputs])


def is_reduction(tree: Tree) -> bool:
    """Return whether a tree reduces matrices to a layer vector."""
    return tree.type.level == "Layers" and any(a.type.level == "Matrix" for a in tree.args)


def matrix_reductions(
    tree: Tree, known: Mapping[Tree, list[Tree]] = MappingProxyType({})
) -> dict[Tree, list[Tree]]:
    """Return the reductions of matrices in a tree, each as canonical ones over single domains.

    `known` has those of other trees.
    """
    found: dict[Tree, list[Tree]] = {}

    def visit(node: Tree, args: list[None]) -> None:
        if is_reduction(node):
            found[node] = known.get(node) or list(map(canonical, split_composite_domains(node)))

    tree.fold(visit)
    return found


def split_composite_domains(tree: Tree) -> list[Tree]:
    """Return a tree over matrices of a composite domain, such as `all`, over each of its parts."""
    domain = str((tree.args[0] if is_reduction(tree) else tree).type.domain)
    return [tree_over_domain(tree, domain, part) for part in DOMAIN_PARTS.get(domain, [domain])]


def tree_over_domain(tree: Tree, domain: str, other: str) -> Tree:
    """Return a tree over matrices of a domain as the same tree over another domain."""
    return tree.fold(lambda t, args: make_tree(t.symbol.replace(f"{domain}.", f"{other}."), *args))


def group_by_statistics(trees: Iterable[Tree]) -> dict[StatisticGroup, list[Tree]]:
    """Group trees by the set of statistics that they read."""
    groups: dict[StatisticGroup, list[Tree]] = defaultdict(list)
    for tree in trees:
        groups[statistics(tree)].append(tree)
    return groups
