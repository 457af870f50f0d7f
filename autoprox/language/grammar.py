"""Random variation of proxies on DEAP's typed primitive set, reproducible from one generator.

DEAP's own operators draw from the global `random` and from sets of classes, and fail where a type
has no terminal. These draw from the generator they are given and from sorted types, and know the
least tree of every type, so that they stay within the limits without trial and error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from random import Random
from typing import NamedTuple

from deap import gp

from autoprox.language.limits import TreeLimits as Limits
from autoprox.language.tree import (
    NETWORK,
    OPERATIONS,
    REDUCED,
    STATISTICS,
    STRUCTURE,
    LanguageError,
    Statistic,
    Tree,
    Type,
    canonical,
    make,
    result_type,
)
from autoprox.primitives import COMBINATORS, PRIMITIVES

DEAP_TYPES: Mapping[Type, type] = {t: type(str(t), (), {}) for t in (*REDUCED, NETWORK)}


class Signature(NamedTuple):
    """A symbol at one type: what a node of a tree can be."""

    symbol: str
    args: tuple[Type, ...]
    type: Type


class Least(NamedTuple):
    """The size and depth of the smallest tree of a type."""

    size: int
    depth: int


class Room(NamedTuple):
    """What a subtree must fit: how deep at least, how deep and how large at most."""

    min_depth: int
    max_depth: int
    max_size: int


def vocabulary(terminals: Iterable[str], combinators: Iterable[str]) -> list[Signature]:
    """All that a node can be where these are the terminals and the combinators."""
    found = [Signature(name, (), make(name).type) for name in sorted(terminals)]
    types = {s.type for s in found}
    for _ in range(2):
        types |= {REDUCED[t] for t in types if t != NETWORK}
    for t in sorted(types, key=str):
        for name in sorted(combinators if t == NETWORK else PRIMITIVES):
            args = (t,) * OPERATIONS[name].arity
            found.append(Signature(name, args, result_type(name, args)))
    return found


def least_trees(signatures: Sequence[Signature], root: Type = NETWORK) -> dict[Type, Least]:
    """The smallest tree of every type; proves every type terminated and reachable from the root."""
    least: dict[Type, Least] = {}
    before = None
    while before != least:
        before = dict(least)
        for s in signatures:
            if all(arg in least for arg in s.args):
                size = 1 + sum(least[arg].size for arg in s.args)
                depth = max((1 + least[arg].depth for arg in s.args), default=0)
                least[s.type] = min(Least(size, depth), least.get(s.type, Least(size, depth)))
    reached = [root]
    for t in reached:
        reached += {arg for s in signatures if s.type == t for arg in s.args} - set(reached)
    for t in sorted({root}.union(*((s.type, *s.args) for s in signatures)), key=str):
        if t not in least:
            raise LanguageError(f"every type needs a terminal below it, but {t} has none")
        if t not in reached:
            raise LanguageError(f"every type must be reachable from {root}, but {t} is not")
    return least


class Grammar:
    """A vocabulary and its random trees, mutants and offspring, all within the limits.

    Every draw comes from the `rng` of the call. A tree to vary must be within the limits itself,
    but may have words from outside the vocabulary. `pset` is the vocabulary for DEAP's operators;
    its `mapping` has one entry for the operations of one name, so texts are for `language.parse`.
    """

    def __init__(
        self,
        statistics: Iterable[Statistic | str] = tuple(STATISTICS),
        *,
        structure: bool = True,
        combinators: bool = True,
        rank: bool = True,
        limits: Limits | None = None,
    ) -> None:
        scores = [name for name in COMBINATORS if combinators and (rank or name != "rank")]
        terminals = {*_spelled(statistics), *(STRUCTURE if structure else ())}
        self.limits = limits or Limits()
        self.signatures = vocabulary(terminals, scores)
        self.least = least_trees(self.signatures)
        if not self._is_room(NETWORK, self.limits.max_depth, self.limits.max_size):
            size, depth = self.least[NETWORK]
            raise LanguageError(
                f"a proxy needs max_size >= {size} and max_depth >= {depth}, "
                f"got {self.limits.max_size} and {self.limits.max_depth}"
            )
        self.pset = gp.PrimitiveSetTyped("proxy", [], DEAP_TYPES[NETWORK])
        self._by_type: dict[Type, list[Signature]] = defaultdict(list)
        self._alike: dict[tuple[Type, ...], list[Signature]] = defaultdict(list)
        for s in self.signatures:
            self._by_type[s.type].append(s)
            self._alike[(s.type, *s.args)].append(s)
            if s.args:
                args, function = [DEAP_TYPES[arg] for arg in s.args], OPERATIONS[s.symbol].function
                self.pset.addPrimitive(function, args, DEAP_TYPES[s.type], s.symbol)
            else:
                self.pset.addTerminal(s.symbol, DEAP_TYPES[s.type], s.symbol)

    @staticmethod
    def to_deap(tree: Tree) -> gp.PrimitiveTree:
        return gp.PrimitiveTree([_node(_signature(t)) for t, _ in _preorder(tree)])

    @staticmethod
    def from_deap(nodes: gp.PrimitiveTree) -> Tree:
        stack: list[Tree] = []
        for node in reversed(nodes):
            stack.append(make(node.name, *(stack.pop() for _ in range(node.arity))))
        return stack.pop()

    def generate(
        self, rng: Random, type_: Type = NETWORK, min_depth: int = 0, max_depth: int | None = None
    ) -> Tree:
        """A random tree of a depth between the bounds: half of them grown, half as full as fits.

        Where a node may be one of several symbols, each is equally likely.
        """
        if type_ not in self.least:
            raise LanguageError(f"a type is one of {', '.join(map(str, self.least))}, got {type_}")
        highest = min(self.limits.max_depth, self.limits.max_size - 1)
        high = highest if max_depth is None else max_depth
        low = max(min_depth, self.least[type_].depth)
        if not low <= high <= highest:
            raise LanguageError(
                f"`{low} <= max_depth <= {highest}` must hold for {type_} "
                f"and min_depth={min_depth}, got {high}"
            )
        room = Room(low, rng.randint(low, high), self.limits.max_size)
        return self.from_deap(self._grow(rng, type_, room, full=rng.random() < 0.5))

    def mutate(self, tree: Tree, rng: Random) -> Tree:
        """One of the two mutations, equally likely."""
        return (self.mutate_subtree if rng.random() < 0.5 else self.mutate_points)(tree, rng)

    def mutate_subtree(self, tree: Tree, rng: Random) -> Tree:
        """The tree with the subtree of one node grown anew, up to a depth that is drawn first."""
        self._require(tree)
        places = [
            (index, old.type, depth, size)
            for index, old, depth, size in self._places(tree)
            if self._is_room(old.type, depth, size)
        ]
        if not places:
            return tree
        index, type_, depth, size = rng.choice(places)
        room = Room(0, rng.randint(self.least[type_].depth, depth), size)
        nodes = self.to_deap(tree)
        nodes[nodes.searchSubtree(index)] = self._grow(rng, type_, room)
        return self.from_deap(nodes)

    def mutate_points(self, tree: Tree, rng: Random, probability: float = 0.5) -> Tree:
        """The tree with each symbol, at this probability, replaced by another of its signature."""
        self._require(tree)
        nodes = self.to_deap(tree)
        for index, old in enumerate(map(_signature, (t for t, _ in _preorder(tree)))):
            others = [s for s in self._alike.get((old.type, *old.args), ()) if s != old]
            if others and rng.random() < probability:
                nodes[index] = _node(rng.choice(others))
        return self.from_deap(nodes)

    def crossover(self, tree: Tree, donor: Tree, rng: Random) -> Tree:
        """The tree with one subtree, other than the whole, replaced by one of the donor's.

        Its type is drawn first, then the pair of subtrees, out of all that differ and keep the
        limits. Where there is no such pair, as of trees of two domains, a binary combinator joins
        the trees; where that doesn't fit either, the tree itself is returned.
        """
        self._require(tree)
        self._require(donor)
        pairs: dict[Type, list[tuple[int, int]]] = defaultdict(list)
        for i, old, depth, size in self._places(tree)[1:]:
            for j, new, _, _ in self._places(donor):
                if new.type == old.type and new != old and new.depth <= depth and new.size <= size:
                    pairs[old.type].append((i, j))
        if not pairs:
            return self._join(tree, donor, rng)
        i, j = rng.choice(pairs[rng.choice(sorted(pairs, key=str))])
        nodes, donated = self.to_deap(tree), self.to_deap(donor)
        nodes[nodes.searchSubtree(i)] = donated[donated.searchSubtree(j)]
        return self.from_deap(nodes)

    def _require(self, tree: Tree) -> None:
        if not self.limits.allow(tree):
            raise LanguageError(
                f"a tree to vary has at most {self.limits.max_size} nodes and depth "
                f"{self.limits.max_depth}, got {tree.size} and {tree.depth}: {tree}"
            )

    def _join(self, tree: Tree, donor: Tree, rng: Random) -> Tree:
        combinators = self._alike.get((NETWORK, tree.type, donor.type))
        size, depth = tree.size + donor.size, max(tree.depth, donor.depth)
        if not combinators or size >= self.limits.max_size or depth >= self.limits.max_depth:
            return tree
        return make(rng.choice(combinators).symbol, tree, donor)

    def _places(self, tree: Tree) -> list[tuple[int, Tree, int, int]]:
        """Each node's index, its subtree, and the depth and size that may take its place."""
        spare = self.limits.max_size - tree.size
        return [
            (index, subtree, self.limits.max_depth - above, spare + subtree.size)
            for index, (subtree, above) in enumerate(_preorder(tree))
        ]

    def _is_room(self, type_: Type, depth: int, size: int) -> bool:
        least = self.least.get(type_)
        return least is not None and least.depth <= depth and least.size <= size

    def _grow(
        self, rng: Random, type_: Type, room: Room, full: bool = False
    ) -> list[gp.Primitive | gp.Terminal]:
        fitting = [s for s in self._by_type[type_] if self._fits(s, room)]
        chosen = rng.choice([s for s in fitting if s.args or not full] or fitting)
        nodes = [_node(chosen)]
        for arg, share in zip(chosen.args, self._shares(rng, chosen, room), strict=True):
            nodes += self._grow(rng, arg, share, full)
        return nodes

    def _fits(self, signature: Signature, room: Room) -> bool:
        if not signature.args:
            return room.min_depth == 0
        shallow = all(self.least[arg].depth < room.max_depth for arg in signature.args)
        return shallow and sum(self._needs(signature, room)) < room.max_size

    def _needs(self, signature: Signature, room: Room, deep: int = 0) -> list[int]:
        """The least sizes of the arguments, where the one numbered `deep` gives the depth.

        A tree of a type can be made one deeper by one node, since maps keep the type.
        """
        sizes = [self.least[arg].size for arg in signature.args]
        sizes[deep] = max(sizes[deep], room.min_depth)
        return sizes

    def _shares(self, rng: Random, chosen: Signature, room: Room) -> Iterator[Room]:
        """Deal a node's room out to its arguments: the depth to one of them, the size at random."""
        if not chosen.args:
            return
        deep = rng.randrange(len(chosen.args))
        needs = self._needs(chosen, room, deep)
        spare = room.max_size - 1 - sum(needs)
        for number, need in enumerate(needs):
            last = number == len(needs) - 1
            extra = spare if last else rng.randint(0, spare)
            spare -= extra
            min_depth = max(room.min_depth - 1, 0) if number == deep else 0
            yield Room(min_depth, room.max_depth - 1, need + extra)


def _spelled(statistics: Iterable[Statistic | str]) -> Iterator[str]:
    """The names of statistics, those of one value once, under the canonical name."""
    for name in map(str, statistics):
        terminal = make(name)
        if terminal.symbol not in STATISTICS:
            raise LanguageError(f"a statistic is one of {', '.join(STATISTICS)}, got {name}")
        same = canonical(terminal)
        yield terminal.symbol if same.args else same.symbol


def _preorder(tree: Tree) -> Iterator[tuple[Tree, int]]:
    """Every node's subtree and its distance from the root, in DEAP's order."""
    stack = [(tree, 0)]
    while stack:
        subtree, above = stack.pop()
        yield subtree, above
        stack.extend((arg, above + 1) for arg in reversed(subtree.args))


def _signature(tree: Tree) -> Signature:
    return Signature(tree.symbol, tuple(arg.type for arg in tree.args), tree.type)


@cache
def _node(signature: Signature) -> gp.Primitive | gp.Terminal:
    deap_type = DEAP_TYPES[signature.type]
    if not signature.args:
        return gp.Terminal(signature.symbol, True, deap_type)
    return gp.Primitive(signature.symbol, [DEAP_TYPES[arg] for arg in signature.args], deap_type)
