"""The swarm of block-wise evolution: candidates, their velocities, and what is made of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, Protocol

import numpy as np

from autoprox.nas.block_values import Place, owned_places, redrawn, values_of
from autoprox.nas.searcher import Candidate, Searcher
from autoprox.scoring.correlations import Floats
from autoprox.searchspaces import Architecture, SearchSpace

NETWORK_PROBABILITY = 0.1
PATIENCE = 4  # draws of something known before more blocks are changed
SIBLINGS = 20  # draws of children before there seems to be no further one
LARGEST = 1e100  # score of a block: no sum of differences overflows


class Movement(Protocol):
    """The options of a search that a swarm needs."""

    @property
    def population(self) -> int: ...
    @property
    def share(self) -> float: ...
    @property
    def inertia(self) -> float: ...
    @property
    def cognitive(self) -> float: ...
    @property
    def social(self) -> float: ...


@dataclass(frozen=True)
class Lineage:
    """What a candidate has of its parent: the best so far, and the velocity."""

    best: Candidate
    velocity: Floats  # [blocks of the parent]


class Swarm:
    """The population of a search, which moves by velocities."""

    def __init__(self, searcher: Searcher, settings: Movement) -> None:
        self.searcher = searcher
        self.settings = settings
        self._lineages: dict[Architecture, Lineage] = {}

    def particles(self) -> list[Particle]:
        """The best candidates so far, the scores of their blocks comparable."""
        searcher = self.searcher
        population = searcher.best(self.settings.population)
        lineages = [
            self._lineages.get(c.architecture) or Lineage(c, np.zeros(0)) for c in population
        ]
        bests = [
            searcher.ranked((c, line.best))[0] for c, line in zip(population, lineages, strict=True)
        ]
        known = list(dict.fromkeys([*population, *bests]))
        scores = dict(zip(known, map(_bounded, searcher.block_scores(known)), strict=True))
        return [
            Particle(
                searcher.space,
                candidate,
                scores[candidate],
                Lineage(best, _over(np.zeros(len(scores[candidate])), line.velocity)),
                to_own=_over(scores[candidate], scores[best]) - scores[candidate],
                to_best=_over(scores[candidate], scores[population[0]]) - scores[candidate],
            )
            for candidate, best, line in zip(population, bests, lineages, strict=True)
        ]

    def mutant(self, parent: Particle) -> Architecture:
        """A new architecture: the parent, its least blocks drawn anew."""
        velocity, order = self._moved(parent)
        share, rng, draws = self.settings.share, self.searcher.rng, count()
        return self._born(
            lambda: parent.mutant(_first(order, share, next(draws)), rng), parent, velocity
        )

    def child(self, first: Particle, second: Particle) -> Architecture:
        """A new architecture: the first, with blocks of the second that score higher there."""
        velocity, order = self._moved(first)
        higher = [i for i in order if i < len(second.scores) and first.scores[i] < second.scores[i]]
        if not higher:
            return self.mutant(first)
        share, rng, draws = self.settings.share, self.searcher.rng, count()

        def make() -> Architecture:
            draw = next(draws)
            if draw >= SIBLINGS:
                return first.mutant(_first(order, share, draw - SIBLINGS), rng)
            replaced = rng.randint(1, len(higher)) if draw else len(higher)
            return first.child(second, higher[:replaced], rng)

        return self._born(make, first, velocity)

    def _moved(self, parent: Particle) -> tuple[Floats, list[int]]:
        """The next velocity (eq. 13), and the blocks in the order in which they are changed."""
        settings, rng = self.settings, self.searcher.rng
        own, social = (np.array([rng.random() for _ in parent.scores]) for _ in range(2))
        velocity: Floats = (
            settings.inertia * parent.lineage.velocity
            + settings.cognitive * own * parent.to_own
            + settings.social * social * parent.to_best
        )
        return velocity, parent.order(velocity, rng)

    def _born(
        self, make: Callable[[], Architecture], parent: Particle, velocity: Floats
    ) -> Architecture:
        architecture = self.searcher.draw(make)
        moved = Lineage(parent.lineage.best, velocity)
        self._lineages[parent.candidate.architecture] = moved
        self._lineages.setdefault(architecture, moved)
        return architecture


@dataclass(frozen=True, eq=False)
class Particle:
    """A candidate of the population, and what each of its blocks has to gain."""

    space: SearchSpace
    candidate: Candidate
    scores: Floats  # [blocks]
    lineage: Lineage
    to_own: Floats  # [blocks], to the best of its lineage
    to_best: Floats  # [blocks], to the best of all

    def order(self, velocity: Floats, rng: random.Random) -> list[int]:
        """The blocks, the least score less what it has to gain first; equal ones by chance."""
        keys = [(least, rng.random()) for least in (self.scores - velocity).tolist()]
        return sorted(range(len(keys)), key=keys.__getitem__)

    def mutant(self, blocks: Collection[int], rng: random.Random) -> Architecture:
        """These blocks drawn anew, and perhaps values of the network."""
        drawn, of_blocks = self._places(blocks), set().union(*self._owned)

        def inherit(place: Place) -> Any:
            whole = place not in of_blocks and rng.random() < NETWORK_PROBABILITY
            return None if whole or place in drawn else self._values.get(place)

        return redrawn(self.space, self.candidate.architecture, inherit, rng)

    def child(self, other: Particle, blocks: Collection[int], rng: random.Random) -> Architecture:
        """These blocks replaced by those of the other at the same places."""
        given = {p: other._values[p] for p in self._places(blocks) if p in other._values}
        inherit = {**self._values, **given}.get
        return redrawn(self.space, self.candidate.architecture, inherit, rng)

    def _places(self, blocks: Collection[int]) -> set[Place]:
        return set().union(*(self._owned[block] for block in blocks))

    @cached_property
    def _owned(self) -> list[set[Place]]:
        return owned_places(self.space, self.candidate.architecture)

    @cached_property
    def _values(self) -> dict[Place, Any]:
        return values_of(self.candidate.architecture)


def _first(order: list[int], share: float, draw: int) -> list[int]:
    """The blocks that a mutant changes: a share of them, and more with each PATIENCE draws."""
    return order[: max(1, round(share * (1 + draw // PATIENCE) * len(order)))]


def _bounded(scores: Floats) -> Floats:
    return np.nan_to_num(scores, nan=-LARGEST).clip(-LARGEST, LARGEST)


def _over(own: Floats, other: Floats) -> Floats:
    """[blocks of one's own]: the other's, and one's own where the other has no block."""
    shared = min(len(own), len(other))
    return np.concatenate([other[:shared], own[shared:]])
