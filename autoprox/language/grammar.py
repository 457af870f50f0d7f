"""Random variation of proxies on DEAP's typed primitive set, reproducible from one generator.

DEAP's own operators draw from the global `random` and from sets of classes, and fail where a type
has no terminal. These draw from the generator they are given and from sorted types, and know the
least tree of every type, so that they stay within the limits without trial and error.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from random import Random
from typing import Any, NamedTuple, TypeAlias

from deap import gp

from autoprox.evolution_parameters import TreeLimits
from autoprox.language.canonical_form import canonical
from autoprox.language.leaf_kinds import LanguageError
from autoprox.language.statistic_leaves import EVERY_STATISTIC, STATISTICS, Statistic
from autoprox.language.structure_leaves import STRUCTURE
from autoprox.language.tree import Tree, make_tree, result_type
from autoprox.language.value_types import NETWORK, REDUCED_TYPES, ValueType
from autoprox.primitives import COMBINATORS, OPERATIONS, PRIMITIVES

DEAP_TYPES: Mapping[ValueType, type] = {
    t: type(str(t), (), {"type": t}) for t in (*REDUCED_TYPES, NETWORK)
}
DeapNode: TypeAlias = Any  # gp.Primitive or gp.Terminal, which have no annotations


class SmallestTreeSize(NamedTuple):
    """The size and depth of the smallest tree of a type."""

    size: int
    depth: int


class SubtreeLimits(NamedTuple):
    """The limits of a subtree."""

    min_depth: int
    max_depth: int
    max_size: int


def primitive_set(terminals: Sequence[str], combinators: Iterable[str]) -> gp.PrimitiveSetTyped:
    """DEAP's set of the nodes that trees of these terminals and combinators can have.

    Its `mapping` has one entry for the operations of one name, so texts are for `language.parse`.
    """
    pset = gp.PrimitiveSetTyped("proxy", [], DEAP_TYPES[NETWORK])
    leaves = [make_tree(name) for name in terminals]
    for leaf in leaves:
        pset.addTerminal(leaf.symbol, DEAP_TYPES[leaf.type], leaf.symbol)
    types = {leaf.type for leaf in leaves}
    for _ in range(2):
        types |= {REDUCED_TYPES[t] for t in types if t != NETWORK}
    for t in sorted(types, key=str):
        for name in sorted(combinators if t == NETWORK else PRIMITIVES):
            operation = OPERATIONS[name]
            if operation.drawn and t.level.lower() in operation.levels:
                args = (t,) * operation.arity
                ret = DEAP_TYPES[result_type(name, args)]
                pset.addPrimitive(operation.function, [DEAP_TYPES[t]] * len(args), ret, name)
    return pset


def least_trees(pset: gp.PrimitiveSetTyped) -> dict[ValueType, SmallestTreeSize]:
    """The smallest tree of every type; proves every type terminated and reachable from the root."""
    nodes = chain(*pset.terminals.values(), *pset.primitives.values())
    signatures = [(node.ret.type, _argument_types(node)) for node in nodes]
    least: dict[ValueType, SmallestTreeSize] = {}
    before = None
    while before != least:
        before = dict(least)
        for type_, args in signatures:
            if all(arg in least for arg in args):
                size = 1 + sum(least[arg].size for arg in args)
                depth = max((1 + least[arg].depth for arg in args), default=0)
                least[type_] = min(
                    SmallestTreeSize(size, depth), least.get(type_, SmallestTreeSize(size, depth))
                )
    reached = [root := pset.ret.type]
    for t in reached:
        reached += {arg for type_, args in signatures if type_ == t for arg in args} - set(reached)
    for t in sorted({root}.union(*((type_, *args) for type_, args in signatures)), key=str):
        if t not in least:
            raise LanguageError(f"every type needs a terminal below it, but {t} has none")
        if t not in reached:
            raise LanguageError(f"every type must be reachable from {root}, but {t} is not")
    return least


class Grammar:
    """A vocabulary and its random trees, mutants and offspring, all within the limits.

    Every draw comes from the `rng` of the call. A tree to vary must be within the limits itself,
    but may have words from outside the vocabulary, which is `pset`.
    """

    def __init__(
        self,
        statistics: Iterable[Statistic | str] | None = None,
        *,
        structure: bool = True,
        combinators: bool = True,
        rank: bool = True,
        limits: TreeLimits | None = None,
    ) -> None:
        scores = [n for n, p in COMBINATORS.items() if rank or not p.compares_networks]
        spelled = map(_canonical_name, STATISTICS if statistics is None else statistics)
        self.terminals = sorted({*spelled, *(STRUCTURE if structure else ())})
        self.limits = limits or TreeLimits()
        self.pset = primitive_set(self.terminals, scores if combinators else [])
        self.least = least_trees(self.pset)
        size, depth = self.least[NETWORK]
        if not (depth <= self.limits.max_depth and size <= self.limits.max_size):
            raise LanguageError(
                f"a proxy needs max_size >= {size} and max_depth >= {depth}, "
                f"got {self.limits.max_size} and {self.limits.max_depth}"
            )

    @property
    def types(self) -> list[ValueType]:
        """The types of the vocabulary."""
        return [ret.type for ret in self.pset.primitives]

    def maps(self, type_: ValueType) -> list[str]:
        """The operations on values of a type that keep it."""
        nodes = self.pset.primitives.get(DEAP_TYPES[type_], ())
        return [node.name for node in nodes if set(node.args) == {node.ret}]

    @staticmethod
    def to_deap(tree: Tree) -> gp.PrimitiveTree:
        return gp.PrimitiveTree(
            [
                gp.Primitive(t.symbol, [DEAP_TYPES[arg.type] for arg in t.args], DEAP_TYPES[t.type])
                if t.args
                else gp.Terminal(t.symbol, True, DEAP_TYPES[t.type])
                for t, _ in _preorder(tree)
            ]
        )

    @staticmethod
    def from_deap(nodes: gp.PrimitiveTree) -> Tree:
        stack: list[Tree] = []
        for node in reversed(nodes):
            stack.append(make_tree(node.name, *(stack.pop() for _ in range(node.arity))))
        return stack.pop()

    def generate(
        self,
        rng: Random,
        type_: ValueType = NETWORK,
        min_depth: int = 0,
        max_depth: int | None = None,
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
        room = SubtreeLimits(low, rng.randint(low, high), self.limits.max_size)
        return self.from_deap(self._grow(rng, type_, room, full=rng.random() < 0.5))

    def mutate(self, tree: Tree, rng: Random) -> Tree:
        """Apply one of the two mutations, equally likely."""
        return (self.mutate_subtree if rng.random() < 0.5 else self.mutate_points)(tree, rng)

    def mutate_subtree(self, tree: Tree, rng: Random) -> Tree:
        """Replace the subtree of one node by a random one, up to a depth that is drawn first."""
        self._require(tree)
        candidates = []
        for index, old, depth, size in self._subtrees(tree):
            least = self.least.get(old.type)
            if least is not None and least.depth <= depth and least.size <= size:
                candidates.append((index, old.type, depth, size))
        if not candidates:
            return tree
        index, type_, depth, size = rng.choice(candidates)
        room = SubtreeLimits(0, rng.randint(self.least[type_].depth, depth), size)
        nodes = self.to_deap(tree)
        nodes[nodes.searchSubtree(index)] = self._grow(rng, type_, room)
        return self.from_deap(nodes)

    def mutate_points(self, tree: Tree, rng: Random, probability: float = 0.5) -> Tree:
        """Replace each symbol, with this probability, by another one of its signature."""
        self._require(tree)
        nodes = self.to_deap(tree)
        for index, old in enumerate(self.to_deap(tree)):
            others = [node for node in self._same_signature(old) if node != old]
            if others and rng.random() < probability:
                nodes[index] = rng.choice(others)
        return self.from_deap(nodes)

    def crossover(self, tree: Tree, donor: Tree, rng: Random) -> Tree:
        """Replace one subtree, other than the whole tree, by one of the donor's.

        Its type is drawn first, then the pair of subtrees, out of all that differ and keep the
        limits. If there is no such pair, as of trees of two domains, a binary combinator joins
        the trees; if that doesn't fit either, the tree itself is returned.
        """
        self._require(tree)
        self._require(donor)
        pairs: dict[ValueType, list[tuple[int, int]]] = defaultdict(list)
        for i, old, depth, size in self._subtrees(tree)[1:]:
            for j, new, _, _ in self._subtrees(donor):
                if new.type == old.type and new != old and new.depth <= depth and new.size <= size:
                    pairs[old.type].append((i, j))
        if pairs:
            i, j = rng.choice(pairs[rng.choice(sorted(pairs, key=str))])
            nodes, donated = self.to_deap(tree), self.to_deap(donor)
            nodes[nodes.searchSubtree(i)] = donated[donated.searchSubtree(j)]
            return self.from_deap(nodes)
        types = [DEAP_TYPES[t.type] for t in (tree, donor)]
        combinators = self._same_signature(gp.Primitive("", types, DEAP_TYPES[NETWORK]))
        size, depth = tree.size + donor.size, max(tree.depth, donor.depth)
        if not combinators or size >= self.limits.max_size or depth >= self.limits.max_depth:
            return tree
        return make_tree(rng.choice(combinators).name, tree, donor)

    def _require(self, tree: Tree) -> None:
        if not self.limits.allow(tree):
            raise LanguageError(
                f"a tree to vary has at most {self.limits.max_size} nodes and depth "
                f"{self.limits.max_depth}, got {tree.size} and {tree.depth}: {tree}"
            )

    def _subtrees(self, tree: Tree) -> list[tuple[int, Tree, int, int]]:
        """Each node's index, its subtree, and the depth and size that a replacement may have."""
        spare = self.limits.max_size - tree.size
        return [
            (index, subtree, self.limits.max_depth - above, spare + subtree.size)
            for index, (subtree, above) in enumerate(_preorder(tree))
        ]

    def _same_signature(self, node: DeapNode) -> list[DeapNode]:
        table = self.pset.primitives if node.arity else self.pset.terminals
        types = _argument_types(node)
        return [other for other in table.get(node.ret, ()) if _argument_types(other) == types]

    def _grow(
        self, rng: Random, type_: ValueType, room: SubtreeLimits, full: bool = False
    ) -> list[DeapNode]:
        """The nodes of a random tree of a type, each drawn from those that fit the room."""
        ret = DEAP_TYPES[type_]
        words = (*self.pset.terminals.get(ret, ()), *self.pset.primitives.get(ret, ()))
        fitting = [node for node in words if self._fits(node, room)]
        chosen = rng.choice([node for node in fitting if node.arity or not full] or fitting)
        nodes = [chosen]
        for arg, share in zip(
            _argument_types(chosen), self._shares(rng, chosen, room), strict=True
        ):
            nodes += self._grow(rng, arg, share, full)
        return nodes

    def _fits(self, node: DeapNode, room: SubtreeLimits) -> bool:
        if not node.arity:
            return room.min_depth == 0
        shallow = all(self.least[arg].depth < room.max_depth for arg in _argument_types(node))
        return shallow and sum(self._needs(node, room)) < room.max_size

    def _needs(self, node: DeapNode, room: SubtreeLimits, deep: int = 0) -> list[int]:
        """The least sizes of the arguments, where the one numbered `deep` gives the depth.

        A tree of a type can be made one deeper by one node, since maps keep the type.
        """
        sizes = [self.least[arg].size for arg in _argument_types(node)]
        sizes[deep] = max(sizes[deep], room.min_depth)
        return sizes

    def _shares(
        self, rng: Random, chosen: DeapNode, room: SubtreeLimits
    ) -> Iterator[SubtreeLimits]:
        """Deal a node's room out to its arguments: the depth to one of them, the size at random."""
        if not chosen.arity:
            return
        deep = rng.randrange(chosen.arity)
        needs = self._needs(chosen, room, deep)
        spare = room.max_size - 1 - sum(needs)
        for number, need in enumerate(needs):
            extra = spare if number == len(needs) - 1 else rng.randint(0, spare)
            spare -= extra
            min_depth = max(room.min_depth - 1, 0) if number == deep else 0
            yield SubtreeLimits(min_depth, room.max_depth - 1, need + extra)


def _canonical_name(statistic: Statistic | str) -> str:
    """The canonical name of a statistic: statistics of one value have one, unless it has `abs`."""
    terminal = make_tree(str(statistic))
    if terminal.symbol not in EVERY_STATISTIC:
        raise LanguageError(f"a statistic is one of {', '.join(EVERY_STATISTIC)}, got {statistic}")
    same = canonical(terminal)
    return terminal.symbol if same.args else same.symbol


def _preorder(tree: Tree) -> Iterator[tuple[Tree, int]]:
    """Every node's subtree and its distance from the root, in DEAP's order."""
    stack = [(tree, 0)]
    while stack:
        subtree, above = stack.pop()
        yield subtree, above
        stack.extend((arg, above + 1) for arg in reversed(subtree.args))


def _argument_types(node: DeapNode) -> list[ValueType]:
    return [arg.type for arg in node.args] if node.arity else []
