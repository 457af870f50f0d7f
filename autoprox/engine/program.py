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
from autoprox.language.domains import PARTS
from autoprox.primitives import DIMS, PRIMITIVES, Primitive, apply
from autoprox.statistics.chunks import MatrixChunk
from autoprox.statistics.sources import Group

Shared = dict[tuple[Callable[..., Tensor], int], list[Tensor]]


class Program:
    """Each distinct subtree is computed once.

    A register is dropped after its last use, or overwritten with what is computed from it, so that
    a chunk's intermediate values stay in cache.
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

    def __reduce__(self) -> tuple[Any, ...]:
        return Program, (self.trees,)

    def __call__(self, chunk: MatrixChunk) -> Tensor:
        """[expressions, matrices]"""
        shared: Shared = {}
        registers = {self.inputs[s]: value for s, value in chunk.values.items()}
        steps = zip(self.steps, self.done, self.overwritten, strict=True)
        for (primitive, args, result), done, overwritten in steps:
            if primitive.along_axis:
                found = _along_axis(primitive, args, registers, chunk, shared)
                registers[result] = torch.cat([value.flatten() for value in found])
            else:
                out = None if overwritten is None else registers[overwritten]
                registers[result] = apply(primitive, [registers[r] for r in args], "matrix", out)
            for register in done:
                registers.pop(register)
        return torch.stack([registers[r] for r in self.outputs])


def _along_axis(
    primitive: Primitive,
    args: Sequence[int],
    registers: Mapping[int, Tensor],
    chunk: MatrixChunk,
    shared: Shared,
) -> list[Tensor]:
    """Of each part of the chunk; what operations share is computed once of a register."""
    parts = [chunk.parts(registers[register]) for register in args]
    if primitive.shared is None:
        return [apply(primitive, each, "matrix") for each in zip(*parts, strict=True)]
    key = primitive.shared, args[0]
    if key not in shared:
        shared[key] = [primitive.shared(part, DIMS["matrix"]) for part in parts[0]]
    return [primitive.function(value) for value in shared[key]]


def single_domains(tree: Tree) -> list[Tree]:
    """A tree over matrices of a domain of several, such as `all`, as one over each of its parts."""
    domain = str((tree.args[0] if is_reduction(tree) else tree).type.domain)
    return [within(tree, domain, part) for part in PARTS[domain]] if domain in PARTS else [tree]


def within(tree: Tree, domain: str, other: str) -> Tree:
    """A tree over matrices of a domain as the same over another."""
    return tree.fold(lambda t, args: make_tree(t.symbol.replace(f"{domain}.", f"{other}."), *args))


def reductions(
    tree: Tree, known: Mapping[Tree, list[Tree]] = MappingProxyType({})
) -> dict[Tree, list[Tree]]:
    """The reductions of matrices in a tree, each as those over single domains; some are known."""
    found: dict[Tree, list[Tree]] = {}

    def visit(node: Tree, args: list[None]) -> None:
        if is_reduction(node):
            found[node] = known.get(node) or [canonical(part) for part in single_domains(node)]

    tree.fold(visit)
    return found


def is_reduction(tree: Tree) -> bool:
    """Whether a tree reduces matrices to a layer vector."""
    return tree.type.level == "Layers" and any(a.type.level == "Matrix" for a in tree.args)


def by_group(trees: Iterable[Tree]) -> dict[Group, list[Tree]]:
    """The trees by the statistics that they read."""
    groups: dict[Group, list[Tree]] = defaultdict(list)
    for tree in trees:
        groups[statistics(tree)].append(tree)
    return groups
