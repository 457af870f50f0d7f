"""The search for a formula by the scores that it gives to some networks, and by nothing else.

::

    population = random formulas, none of which has the scores that are searched
    repeat:
        terms = formulas grown from the smallest parts up (`formula_growth`)
              + mutants and offspring of the population
              + the smallest new members of the population, combined with small terms by every
                combinator
        population = of each size, the terms that correlate best with the goal
        for each term, invert the root: with which partner would it have the scores?
            a partner among all terms so far makes a formula
            if the scores look like a sum of two ranks, and without the term's ranks they still
            look like ranks, a formula for these is searched too, with a population of its own

So ranked terms are found one after the other, and a formula of two terms costs little more than the
larger of them. Which formulas fit is decided on these networks; whether one is right is not.
"""

from bisect import bisect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from random import Random
from typing import Literal

import numpy as np
import torch

from autoprox.engine.tree_evaluator import TreeEvaluator
from autoprox.evolution import (
    STRATEGIES,
    EvolutionParameters,
    Individual,
    first_population,
    make_toolbox,
    survivors,
)
from autoprox.language import Tree, make_tree
from autoprox.primitives import COMBINATORS
from autoprox.rediscovery.formula_growth import (
    REDISCOVERY_GRAMMAR,
    FormulaGrowth,
    ScoredFormulas,
    average_ranks,
)
from autoprox.scoring.correlations import Floats, pearson

MIXTURE = STRATEGIES["mixture"]
REDISCOVERY_PARAMETERS = EvolutionParameters(population=40, children=100)
NICHE = 6  # members of a population of the same size
POOL_ROOM, POOL_SIZE = 1_000, 4  # small terms of each type that members are combined with; nodes
COMBINED = 8  # members that are, in a round
SEARCH_COMBINATORS = ("add", "sub", "mul", "div")
PARTNERS = 300_000  # terms, the first ones, that may be the partner of another
TRIED = 100  # partners that are tried for a batch of terms
ALIKE = 16  # terms of a batch, or before it, that fit alike and are all taken
REMAINDERS = 12  # ranks that are searched at a time
FIT = 1e-5  # relative difference from the scores searched: float32 has 7 digits
EQUAL_KEYS = 1e-9  # relative difference of keys that count as equal


@dataclass(eq=False)
class FormulaSearchGoal:
    """Scores to find a formula for; or their ranks; or ranks to add to those of `firsts`."""

    values: Floats
    kind: Literal["scores", "ranks", "summand"]
    firsts: list[Tree] = field(default_factory=list)
    seconds: list[Tree] = field(default_factory=list)
    population: list[Individual] = field(default_factory=list)
    combined: set[Tree] = field(default_factory=set)

    def _compared(self, terms: ScoredFormulas) -> Floats:
        return terms.scores if self.kind == "scores" else terms.ranks

    def fits(self, terms: ScoredFormulas) -> np.ndarray:
        """Return which formulas have these ranks, or scores proportional to these."""
        values = self._compared(terms)
        if self.kind != "scores":
            return np.asarray((values == self.values).all(axis=1))
        with np.errstate(over="ignore", invalid="ignore"):
            scale = values @ self.values / (self.values @ self.values)
            expected = scale[:, None] * self.values
            room = FIT * np.abs(expected) + EQUAL_KEYS * np.abs(expected).max(axis=1, keepdims=True)
            return np.asarray((scale > 0) & (np.abs(values - expected) <= room).all(axis=1))

    def individuals(self, terms: ScoredFormulas) -> list[Individual]:
        """Return the formulas of each size that correlate best, of different correlations."""
        with np.errstate(over="ignore", invalid="ignore"):
            correlations = np.nan_to_num(pearson(self._compared(terms), self.values), nan=-1)
        fitness = np.round(correlations, 12)
        best: list[int] = []
        for size in np.unique(terms.sizes):
            same = np.flatnonzero(terms.sizes == size)
            best += same[np.unique(-fitness[same], return_index=True)[1][:NICHE]].tolist()
        values = fitness[best].tolist()
        return [Individual(terms.tree(k), (v,), v) for k, v in zip(best, values, strict=True)]

    def keep(self, individuals: Sequence[Individual]) -> None:
        """Take the best of each size into the population."""
        together = [*self.population, *individuals]
        limits, sizes = REDISCOVERY_GRAMMAR.limits, Counter[int]()
        self.population = []
        for individual in survivors(together, len(together)):
            tree = individual.tree
            if tree.size <= limits.max_size and tree.depth <= limits.max_depth:
                sizes[tree.size] += 1
                if sizes[tree.size] <= NICHE:
                    self.population.append(individual)

    def complete(self, firsts: Iterable[Tree], seconds: Iterable[Tree]) -> list[Tree]:
        """Return the formulas for the scores of the whole search."""
        if self.kind == "scores":
            return list(seconds)
        ranked = [make_tree("rank", tree) for tree in seconds]
        if self.kind == "ranks":
            return ranked
        return [
            make_tree("add", make_tree("rank", one), other)
            for one, other in product(firsts, ranked)
        ]


class TermArchive:
    """All terms so far, which are found again by two keys.

    One key adds up if terms are added, the other if they are multiplied: a term's partner is found
    by the key that it must have.
    """

    def __init__(self, networks: int, rng: Random) -> None:
        weights = np.random.default_rng(rng.getrandbits(63)).normal(size=(2, networks))
        self._weights = weights[0]
        self._balanced = weights[1] - weights[1].mean()  # so that a constant factor has no effect
        self._count = 0
        self._starts: list[int] = []
        self._makers: list[Callable[[int], Tree]] = []
        self._keys = {"sum": np.empty(0), "product": np.empty(0)}
        self._order = {kind: np.empty(0, dtype=int) for kind in self._keys}

    def add(self, terms: ScoredFormulas) -> None:
        self._starts.append(self._count)
        self._makers.append(terms.tree)
        if self._count < PARTNERS:
            for kind, keys in self._keys.items():
                self._keys[kind] = np.concatenate([keys, self._key(kind, terms.scores)])
                self._order[kind] = np.argsort(self._keys[kind])
        self._count += len(terms.scores)

    def partnerships(self, scores: Floats, terms: ScoredFormulas) -> Iterator[Tree]:
        """Yield combinations of one of these terms and a kept one that may have the scores."""
        for kind, direct, inverse in (("sum", "add", "sub"), ("product", "mul", "div")):
            (whole,), keys = self._key(kind, scores[None]), self._key(kind, terms.scores)
            room = EQUAL_KEYS * (abs(whole) if kind == "sum" else 1.0)
            for k, other in self._near(kind, whole - keys, room):
                yield make_tree(direct, terms.tree(k), other)
            for k, other in self._near(kind, keys - whole, room):
                yield make_tree(inverse, terms.tree(k), other)
            for k, other in self._near(kind, keys + whole, room):
                yield make_tree(inverse, other, terms.tree(k))

    def _near(self, kind: str, wanted: Floats, room: float) -> Iterator[tuple[int, Tree]]:
        """Yield the index of a wanted key, and a kept term that has it."""
        order = self._order[kind]
        keys = self._keys[kind][order]
        low, high = keys.searchsorted(wanted - room), keys.searchsorted(wanted + room)
        for k in np.flatnonzero(low < high):
            for number in map(int, order[low[k] : high[k]]):
                batch = bisect(self._starts, number) - 1
                yield int(k), self._makers[batch](number - self._starts[batch])

    def _key(self, kind: str, scores: Floats) -> Floats:
        with np.errstate(all="ignore"):
            if kind == "sum":
                return np.asarray(scores @ self._weights)
            return np.asarray(np.log(np.abs(scores)) @ self._balanced)


class FormulaSearch:
    """Searches for formulas with these scores; `evaluations` counts those that it compared."""

    def __init__(self, engine: TreeEvaluator, scores: Floats, rng: Random) -> None:
        self._engine = engine
        self._rng = rng
        self._toolbox = make_toolbox(
            REDISCOVERY_GRAMMAR, self._evaluate, MIXTURE, REDISCOVERY_PARAMETERS
        )
        self._growth = FormulaGrowth(engine, rng)
        self._archive = TermArchive(len(scores), rng)
        self._pool: list[ScoredFormulas] = []
        self._pool_room: dict[int, int] = defaultdict(lambda: POOL_ROOM)
        self._remainders: dict[bytes, FormulaSearchGoal] = {}
        self._found: list[Tree] = []
        self._ranks = count_summed_ranks(scores)
        self.evaluations = 0
        self._goal = FormulaSearchGoal(scores, "ranks" if self._ranks else "scores")

    def begin(self) -> None:
        """Make the first population, once; the first round does it otherwise."""
        if not self._goal.population:
            self._goal.population = first_population(
                self._evaluate, self._toolbox, REDISCOVERY_PARAMETERS, self._rng
            )

    @property
    def population(self) -> list[Individual]:
        """The terms whose scores, or ranks, correlate best with those searched, best first."""
        return self._goal.population

    def round(self) -> list[Tree]:
        """Search for a round; returns the formulas found in it that fit."""
        self.begin()
        for kind, terms in enumerate(self._growth.round()):
            self._consider(terms)
            self._fill_pool(kind, terms)
        goal = self._rng.choice(list(self._remainders.values()) or [self._goal])
        children = MIXTURE.vary(goal.population, self._toolbox, REDISCOVERY_PARAMETERS, self._rng)
        self._consider(self._scored([tree for _, tree in children]))
        new = [i.tree for i in goal.population if i.tree not in goal.combined]
        smallest = sorted(new, key=lambda tree: tree.size)[:COMBINED]
        goal.combined.update(smallest)
        for tree, pooled, symbol in product(smallest, self._pool, SEARCH_COMBINATORS):
            terms = combine_with_terms(
                symbol, tree, self._engine.evaluate([tree]).values[0], pooled
            )
            self.evaluations += len(terms.scores)
            self._match(goal, terms)
        found, self._found = self._found, []
        return found

    def _evaluate(self, trees: Sequence[Tree]) -> list[Individual]:
        """Evaluate members of the first population, which must not fit."""
        terms = self._scored(trees)
        return self._goal.individuals(terms.choose(~self._goal.fits(terms)))

    def _scored(self, trees: Sequence[Tree]) -> ScoredFormulas:
        sizes = np.array([tree.size for tree in trees], dtype=int)
        scores = self._engine.evaluate(trees).values[:, 0]
        return ScoredFormulas(scores, sizes, trees.__getitem__).varying()

    def _consider(self, terms: ScoredFormulas) -> None:
        """Compare new terms with all goals, alone and with a partner."""
        self.evaluations += len(terms.scores)
        if self._ranks == 2:
            self._split(terms)
        for goal in (self._goal, *self._remainders.values()):
            self._match(goal, terms)
        if not self._ranks:
            self._archive.add(terms)
            pairs = self._archive.partnerships(self._goal.values, terms)
            self._match(self._goal, self._scored(list(islice(pairs, TRIED))))

    def _match(self, goal: FormulaSearchGoal, terms: ScoredFormulas) -> None:
        fitting = np.flatnonzero(goal.fits(terms))
        for k in fitting[np.argsort(terms.sizes[fitting], kind="stable")][:ALIKE]:
            goal.seconds.append(terms.tree(int(k)))
            self._found += goal.complete(goal.firsts, goal.seconds[-1:])
        goal.keep(goal.individuals(terms))

    def _split(self, terms: ScoredFormulas) -> None:
        """Search the scores without a term's ranks, if they look like ranks.

        Such a goal is first compared with small and with good terms found before.
        """
        rest = self._goal.values - terms.ranks
        for k in np.flatnonzero((average_ranks(rest) == rest).all(axis=1)):
            key = rest[k].tobytes()
            if key not in self._remainders and len(self._remainders) < REMAINDERS:
                new = FormulaSearchGoal(rest[k], "summand")
                for known in (*self._pool, self._scored([i.tree for i in self.population])):
                    self._match(new, known)
                self._remainders[key] = new
            goal = self._remainders.get(key)
            if goal and len(goal.firsts) < ALIKE:
                first = terms.tree(int(k))
                goal.firsts.append(first)
                self._found += goal.complete([first], goal.seconds[:ALIKE])

    def _fill_pool(self, kind: int, terms: ScoredFormulas) -> None:
        """Keep small terms; each type has room of its own, or the first would leave none."""
        small = np.flatnonzero(terms.sizes <= POOL_SIZE)
        small = small[np.argsort(terms.sizes[small], kind="stable")][: self._pool_room[kind]]
        if len(small):
            self._pool.append(terms.choose(small))
            self._pool_room[kind] -= len(small)


def combine_with_terms(
    symbol: str, tree: Tree, scores: Floats, terms: ScoredFormulas
) -> ScoredFormulas:
    """Combine a tree with scores [1, networks] with each term, and then each term with it."""
    count, function = len(terms.scores), COMBINATORS[symbol].function
    left, right = torch.from_numpy(scores), torch.from_numpy(terms.scores)
    values = torch.cat([function(left, right), function(right, left)]).numpy()

    def tree_of(k: int) -> Tree:
        other = terms.tree(k % count)
        return make_tree(symbol, tree, other) if k < count else make_tree(symbol, other, tree)

    return ScoredFormulas(values, np.tile(1 + tree.size + terms.sizes, 2), tree_of).varying()


def count_summed_ranks(scores: Floats) -> Literal[0, 1, 2]:
    """Return the number of ranks whose sum scores look like, or 0."""
    if (average_ranks(scores) == scores).all():
        return 1
    halves = (np.round(2 * scores) == 2 * scores).all() and scores.min() >= 2
    return 2 if halves and scores.sum() == len(scores) * (len(scores) + 1) else 0
