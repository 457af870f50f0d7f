"""Block-wise evolution of T-Razor (Zhou et al., "Training-Free Transformer Architecture Search With
Zero-Cost Proxy Guided Evolution", TPAMI 2024, algorithm 1, equations 12 and 13).

Candidates are the particles of a swarm. The position x of one is the vector of its blocks' scores,
and its velocity says what each block has to gain::

    v' = w v + g1 r1 (x of the best of its lineage - x) + g2 r2 (x of the best of all - x)

r1 and r2 are drawn for each block, uniformly from [0, 1), whenever a candidate is changed. x + v'
is what equation 12 hopes that its descendant scores; both go on with v'. The blocks that are
changed are those that score least less what they have to gain: those of the least x - v'. What
the paper leaves open is here:

- w, g1 and g2 are 0.7, 1.5 and 1.5, as is usual (`inertia`, `cognitive`, `social`).
- A block's score is what the proxy's last reduction, over the layers, gives for the block's layers
  alone. Combinators then combine these numbers; `rank` ranks all blocks of the population.
- Candidates may differ in depth: where the better one has no block, there is nothing to gain.
- A mutant draws the values of a fixed part of the blocks anew (`share`, at least one), and with a
  small probability each value of the network as a whole.
- By the rule a step's two candidates have one child. So its first child has all blocks that score
  higher in A2, and each further one a random number of them, the least x - v' first; where there
  is no further child, A1 is mutated.
- Where changes lead to what was drawn before, more blocks are changed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np

from autoprox.nas.block_values import Place, owned_places, redrawn, values_of
from autoprox.nas.searcher import Candidate, Searcher, SearchParameters
from autoprox.options import Coefficient, Positive, Probability, Whole
from autoprox.scoring.correlations import Floats
from autoprox.searchspaces import Architecture, SearchSpace

NETWORK_PROBABILITY = 0.1
PATIENCE = 4  # draws of something known before more blocks are changed
SIBLINGS = 20  # draws of children before there seems to be no further one
LARGEST = 1e100  # score of a block: no sum of differences overflows


class BlockwiseParameters(SearchParameters):
    """The published numbers: 160 steps of 50 candidates, the first population among them."""

    population: Positive = 50
    mutants: Positive = 25
    crossovers: Whole = 25
    steps: Positive = 160
    share: Probability = 0.25
    inertia: Coefficient = 0.7
    cognitive: Coefficient = 1.5
    social: Coefficient = 1.5

    @property
    def candidates(self) -> int:
        return self.population + (self.steps - 1) * (self.mutants + self.crossovers)


def search(searcher: Searcher, settings: BlockwiseParameters) -> None:
    """Change the blocks that score least, and have the most to gain, in the best candidates.

    ::

        population = P random architectures, scored by the proxy
        repeat for the other steps:
            A1, A2 = two of the population
            M times: one of the population, its blocks that score least drawn anew
            C times: A1, its blocks that score less than A2's at the same places replaced by those
            population = the P best of population, mutants and children

    The search ends early once every architecture within the limits is scored.
    """
    swarm, rng = Swarm(searcher, settings), searcher.rng
    searcher.score(searcher.population(settings.population))
    searcher.step()
    for _ in range(settings.steps - 1):
        if searcher.exhausted:
            return
        particles = swarm.particles()
        first, second = rng.sample(particles, 2) if len(particles) > 1 else particles * 2
        mutants = [swarm.mutant(rng.choice(particles)) for _ in range(settings.mutants)]
        children = [swarm.child(first, second) for _ in range(settings.crossovers)]
        searcher.score([*mutants, *children])
        searcher.step()


@dataclass(frozen=True)
class Lineage:
    """What a candidate has of its parent: the best so far, and the velocity."""

    best: Candidate
    velocity: Floats  # [blocks of the parent]


class Swarm:
    """The population of a search, which moves by velocities."""

    def __init__(self, searcher: Searcher, settings: BlockwiseParameters) -> None:
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
