"""Grows formulas from the smallest parts up, and measures them in bulk.

In every round each operation of the language is applied to parts of its type that it wasn't applied
to before, in the order in which they were found, terminals first. New matrix expressions are
reduced to layer vectors in the common ways, terminals in every way, other small ones so little by
little; and so are layer vectors, of those that differ from all before them, to scores.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import isfinite, isqrt
from random import Random
from typing import NamedTuple

import numpy as np
import torch

from autoprox.engine.evaluator import Engine
from autoprox.engine.program import within
from autoprox.engine.vectors import Vectors
from autoprox.language import EVERY_STATISTIC, REDUCED_TYPES, Tree, Type, canonical, make_tree
from autoprox.language.domains import BLOCK_DOMAINS
from autoprox.language.grammar import Grammar
from autoprox.primitives import PRIMITIVES, apply
from autoprox.scoring.correlations import Floats, varies

OVER_ALL = ("msa", "mlp", "diverse", "salient")  # what formulas of `all` are also tried over
WORDS = tuple(  # the statistics of blocks, and of the layers that published code tells by shape
    name for name, s in EVERY_STATISTIC.items() if s.domain in (*BLOCK_DOMAINS, *OVER_ALL)
)
GRAMMAR = Grammar(WORDS)
MATRIX_TYPES = (Type("Matrix", "all"), Type("Matrix", "act"))
REDUCTIONS = {
    level: [n for n, p in PRIMITIVES.items() if p.kind == "reduce" and level in p.levels]
    for level in ("matrix", "layers")
}
COMMON = ("sum", "mean", "l1_norm", "frobenius_norm")  # all that is new is reduced by these
OTHERS = {
    level: sorted(set(names) - set(COMMON), key=lambda name: (not name.endswith("_norm"), name))
    for level, names in REDUCTIONS.items()
}
# Of each operation and type, in a round: new matrices by its arity, so that those of one operation
# come before those of two; new layer vectors; parts that one of the other reductions is applied to.
MATRICES_AT_ONCE, LAYERS_AT_ONCE = {1: 1, 2: 3}, 64
REDUCED_AT_ONCE = {"matrix": 2, "layers": 256}
MATRIX_SIZE, LAYERS_SIZE = 3, 4  # nodes of the largest parts that operations are applied to
KEPT = 6_000  # layer vectors of a type that operations are applied to
BITS = 36  # in which vectors agree that count as the same


@dataclass(frozen=True)
class Formulas:
    """Complete formulas with their scores, [formulas, networks]; the trees are made on demand."""

    scores: Floats
    sizes: np.ndarray
    tree: Callable[[int], Tree]

    @cached_property
    def ranks(self) -> Floats:
        """[formulas, networks]"""
        return ranks_of(self.scores)

    def choose(self, chosen: np.ndarray) -> Formulas:
        """Some of the formulas, by index or by mask."""
        numbers = np.arange(len(self.scores))[chosen]
        make_tree = self.tree
        return Formulas(
            self.scores[numbers], self.sizes[numbers], lambda k: make_tree(int(numbers[k]))
        )

    def varying(self) -> Formulas:
        """Those whose scores are finite and not all the same."""
        return self.choose(varies(self.scores))


class Draft(NamedTuple):
    """A formula that may never have to be made."""

    symbol: str
    args: tuple[Tree, ...]

    @property
    def size(self) -> int:
        return 1 + sum(arg.size for arg in self.args)

    def make(self) -> Tree:
        return make_tree(self.symbol, *self.args)


class Bank:
    """Parts of one type in the order in which they were found, and what was made of them."""

    def __init__(self, symbols: Sequence[str]) -> None:
        self.symbols = symbols
        self.parts: list[Tree] = []
        self.values: Vectors = []  # [parts, networks, layers], as the engine has them
        self.weights: Vectors = []
        self.seen: set[object] = set()
        self._steps: dict[str, int] = defaultdict(int)

    def keep(self, made: Sequence[Draft], values: Vectors) -> None:
        """Add small layer vectors to the parts, while there is room."""
        small = [k for k, recipe in enumerate(made) if recipe.size <= LAYERS_SIZE]
        small = small[: KEPT - len(self.parts)]
        self.parts += [made[k].make() for k in small]
        more = [part[small] for part in values]
        pairs = zip(self.values, more, strict=True)
        self.values = [torch.cat(pair) for pair in pairs] if self.values else more

    def next_arguments(self, symbol: str, count: int) -> list[tuple[int, ...]]:
        """Arguments that the operation wasn't applied to before, the earliest parts first."""
        operation = PRIMITIVES[symbol]
        found: list[tuple[int, ...]] = []
        while len(found) < count:
            step = self._steps[symbol]
            arguments = (step,) if operation.arity == 1 else pair(step)
            if max(arguments) >= len(self.parts):
                break
            self._steps[symbol] += 1
            # Of one part with itself, a commutative operation makes nothing that unary ones don't.
            if not operation.commutative or arguments[0] > arguments[-1]:
                found.append(arguments)
        return found


class Growth:
    """The parts that are made of an engine's networks; the order of the terminals is random."""

    def __init__(self, engine: Engine, rng: Random) -> None:
        self._engine = engine
        self._banks = {t: Bank(GRAMMAR.maps(t)) for t in GRAMMAR.types}
        self._terminals = [make_tree(name) for name in GRAMMAR.terminals]
        rng.shuffle(self._terminals)
        self._generator = torch.Generator().manual_seed(rng.getrandbits(63))

    def round(self) -> list[Formulas]:
        """New formulas, by the type of their layer vectors."""
        recipes: dict[Type, list[Draft]] = defaultdict(list)
        for name, matrix in self._reduced():
            for part in _over_domains(matrix):
                recipes[REDUCED_TYPES[part.type]].append(Draft(name, (part,)))
        terms = []
        for type_, bank in self._banks.items():
            if type_.level == "Layers":
                made, values = self._new_layers(type_, bank, recipes[type_])
                terms.append(self._scores(bank, made, values))
        self._terminals = []
        return terms

    def _reduced(self) -> Iterator[tuple[str, Tree]]:
        """Which matrix to reduce, and how; those of `all` stand for those of its parts too."""
        banks = [self._banks[type_] for type_ in MATRIX_TYPES]
        new = [matrix for type_ in MATRIX_TYPES for matrix in self._new_matrices(type_)]
        yield from product(COMMON, new)
        count = len(self._terminals) or REDUCED_AT_ONCE["matrix"]
        for name, bank in product(OTHERS["matrix"], banks):
            for (part,) in bank.next_arguments(name, count):
                yield name, bank.parts[part]

    def _new_matrices(self, type_: Type) -> Iterator[Tree]:
        """The terminals, and what each operation makes of parts."""
        bank = self._banks[type_]
        made = [tree for tree in self._terminals if tree.type == type_]
        for symbol in bank.symbols:
            count = MATRICES_AT_ONCE[PRIMITIVES[symbol].arity]
            for arguments in bank.next_arguments(symbol, count):
                made.append(make_tree(symbol, *(bank.parts[a] for a in arguments)))
        for tree in made:
            if canonical(tree) not in bank.seen:
                bank.seen.add(canonical(tree))
                if tree.size <= MATRIX_SIZE:
                    bank.parts.append(tree)
                yield tree

    def _new_layers(
        self, type_: Type, bank: Bank, reduced: list[Draft]
    ) -> tuple[list[Draft], Vectors]:
        """Layer vectors that differ from all before: of matrices, and of other layer vectors."""
        given = [tree for tree in self._terminals if tree.type == type_]
        made = [Draft(tree.symbol, ()) for tree in given] + reduced
        measured = [self._engine.vectors([r.make() for r in made])] if made else []
        for symbol in bank.symbols:
            if found := bank.next_arguments(symbol, LAYERS_AT_ONCE):
                made += [Draft(symbol, tuple(bank.parts[a] for a in args)) for args in found]
                columns = torch.tensor(found).T
                measured.append(
                    [
                        apply(PRIMITIVES[symbol], [values[column] for column in columns], "layers")
                        for values in bank.values
                    ]
                )
        values = [torch.cat(parts) for parts in zip(*measured, strict=True)]
        new = self._unseen(bank, values)
        made, values = [made[k] for k in new], [part[new] for part in values]
        bank.keep(made, values)
        return made, values

    def _unseen(self, bank: Bank, values: Vectors) -> list[int]:
        """The finite vectors of which no equal one was found before."""
        if not bank.weights:
            bank.weights = [
                torch.rand(part.shape[1:], generator=self._generator, dtype=torch.float64)
                for part in values
            ]
        weighted = zip(values, bank.weights, strict=True)
        sums = sum((part * weights).sum((1, 2)) for part, weights in weighted)
        mantissas, exponents = torch.frexp(torch.as_tensor(sums))
        keys = torch.ldexp((mantissas * 2**BITS).round(), exponents).tolist()
        new = []
        for k, key in enumerate(keys):
            if isfinite(key) and key not in bank.seen:
                bank.seen.add(key)
                new.append(k)
        return new

    def _scores(self, bank: Bank, recipes: list[Draft], values: Vectors) -> Formulas:
        """New layer vectors reduced in the common ways, and small ones in others."""
        drafts: list[tuple[str, Draft | Tree]] = list(product(COMMON, recipes))
        scores = [self._reduced_layers(name, values) for name in COMMON]
        for name in OTHERS["layers"]:
            if found := bank.next_arguments(name, REDUCED_AT_ONCE["layers"]):
                parts = [part for (part,) in found]
                drafts += [(name, bank.parts[part]) for part in parts]
                scores.append(self._reduced_layers(name, [own[parts] for own in bank.values]))
        sizes = np.array([1 + reduced.size for _, reduced in drafts], dtype=int)

        def tree(k: int) -> Tree:
            name, reduced = drafts[k]
            return make_tree(name, reduced if isinstance(reduced, Tree) else reduced.make())

        return Formulas(np.concatenate(scores), sizes, tree).varying()

    def _reduced_layers(self, name: str, values: Vectors) -> Floats:
        """[layer vectors, networks]"""
        reduced = [apply(PRIMITIVES[name], [part], "layers") for part in values]
        scores: Floats = self._engine.layers.together(reduced).numpy()
        return scores


def _over_domains(matrix: Tree) -> list[Tree]:
    """A tree over matrices of `all` layers, and the same over others; any other as it is."""
    if matrix.type.domain != "all":
        return [matrix]
    return [matrix, *(within(matrix, "all", domain) for domain in OVER_ALL)]


def ranks_of(scores: Floats) -> Floats:
    """Ranks of finite scores along the last axis, as `rank` has them, in a fraction of the time."""
    order = np.argsort(scores, axis=-1)
    ordered = np.take_along_axis(scores, order, -1)
    places = np.broadcast_to(np.arange(scores.shape[-1]), scores.shape)
    begins = np.ones(scores.shape, dtype=bool)  # of equal scores the first, and the last
    np.not_equal(ordered[..., 1:], ordered[..., :-1], out=begins[..., 1:])
    ends = np.ones(scores.shape, dtype=bool)
    ends[..., :-1] = begins[..., 1:]
    first = np.maximum.accumulate(np.where(begins, places, 0), axis=-1)
    backward = np.where(ends, places, scores.shape[-1])[..., ::-1]
    last = np.minimum.accumulate(backward, axis=-1)[..., ::-1]
    ranks = np.empty(scores.shape)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, -1)
    return ranks


def pair(step: int) -> tuple[int, int]:
    """Two numbers: (0, 0), then all pairs with a 1 and nothing larger, then those with a 2."""
    largest = isqrt(step)
    rest = step - largest**2
    return (largest, rest) if rest <= largest else (rest - largest - 1, largest)
