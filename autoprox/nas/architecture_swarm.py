"""The swarm of block-wise evolution: candidates with their velocities, mutants and children.

A value of an architecture belongs to a block if it is at the block's position in a list with a
value per block, or else, in any other list, if changing it alone changes that block, and not all of
them. All other values belong to the network as a whole.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any, Protocol

import numpy as np

from autoprox.nas.searcher import Candidate, Searcher
from autoprox.scoring.correlations import Floats
from autoprox.searchspaces import Architecture, SearchSpace

REDRAW_ATTEMPTS = 100
NETWORK_PROBABILITY = 0.1
DRAWS_PER_SHARE = 4  # draws of known architectures before more blocks are changed
SIBLINGS = 20  # draws of children before there seems to be no further one
LARGEST_SCORE = 1e100  # of a block: no sum of differences overflows

Position = tuple[str, int]  # a field, and the index in its list, 0 for a single value


class SwarmSettings(Protocol):
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
class CandidateLineage:
    """The best candidate of a lineage so far, and the velocity."""

    best: Candidate
    velocity: Floats  # [blocks of the parent]


class ArchitectureSwarm:
    """The population of a search, which moves by velocities."""

    def __init__(self, searcher: Searcher, settings: SwarmSettings) -> None:
        self.searcher = searcher
        self.settings = settings
        self._lineages: dict[Architecture, CandidateLineage] = {}

    def particles(self) -> list[SwarmParticle]:
        """Return the best candidates so far, the scores of their blocks comparable."""
        searcher = self.searcher
        population = searcher.best(self.settings.population)
        lineages = []
        for candidate in population:
            line = self._lineages.get(
                candidate.architecture, CandidateLineage(candidate, np.zeros(0))
            )
            lineages.append(
                CandidateLineage(searcher.ranked((candidate, line.best))[0], line.velocity)
            )
        known = list(dict.fromkeys([*population, *(line.best for line in lineages)]))
        scores = {
            candidate: np.nan_to_num(own, nan=-LARGEST_SCORE).clip(-LARGEST_SCORE, LARGEST_SCORE)
            for candidate, own in zip(known, searcher.block_scores(known), strict=True)
        }
        particles = []
        for candidate, line in zip(population, lineages, strict=True):
            own = scores[candidate]
            velocity = _overlay(np.zeros(len(own)), line.velocity)
            to_own, to_best = (_overlay(own, scores[c]) - own for c in (line.best, population[0]))
            lineage = CandidateLineage(line.best, velocity)
            particles.append(
                SwarmParticle(searcher.space, candidate, own, lineage, to_own, to_best)
            )
        return particles

    def mutant(self, parent: SwarmParticle) -> Architecture:
        """Return a new architecture: the parent, its lowest-scoring blocks redrawn."""
        velocity, order = self._move(parent)
        draws = count()
        return self._draw(
            lambda: parent.mutant(self._share(order, next(draws)), self.searcher.rng),
            parent,
            velocity,
        )

    def child(self, first: SwarmParticle, second: SwarmParticle) -> Architecture:
        """Return a new architecture: the first, with higher-scoring blocks of the second."""
        velocity, order = self._move(first)
        higher = [i for i in order if i < len(second.scores) and first.scores[i] < second.scores[i]]
        if not higher:
            return self.mutant(first)
        rng, draws = self.searcher.rng, count()

        def make() -> Architecture:
            draw = next(draws)
            if draw >= SIBLINGS:
                return first.mutant(self._share(order, draw - SIBLINGS), rng)
            replaced = rng.randint(1, len(higher)) if draw else len(higher)
            return first.child(second, higher[:replaced], rng)

        return self._draw(make, first, velocity)

    def _share(self, order: list[int], draw: int) -> list[int]:
        """Return the blocks that a mutant changes: more after every DRAWS_PER_SHARE draws."""
        share = self.settings.share * (1 + draw // DRAWS_PER_SHARE)
        return order[: max(1, round(share * len(order)))]

    def _move(self, parent: SwarmParticle) -> tuple[Floats, list[int]]:
        """Return the next velocity (eq. 13), and the order in which blocks are changed."""
        settings, rng = self.settings, self.searcher.rng
        own, social = (np.array([rng.random() for _ in parent.scores]) for _ in range(2))
        velocity: Floats = (
            settings.inertia * parent.lineage.velocity
            + settings.cognitive * own * parent.to_own
            + settings.social * social * parent.to_best
        )
        return velocity, parent.order(velocity, rng)

    def _draw(
        self, make: Callable[[], Architecture], parent: SwarmParticle, velocity: Floats
    ) -> Architecture:
        architecture = self.searcher.draw(make)
        moved = CandidateLineage(parent.lineage.best, velocity)
        self._lineages[parent.candidate.architecture] = moved
        self._lineages.setdefault(architecture, moved)
        return architecture


def _overlay(own: Floats, other: Floats) -> Floats:
    """Return [blocks of `own`]: the values of `other`, and of `own` where `other` has no block."""
    shared = min(len(own), len(other))
    return np.concatenate([other[:shared], own[shared:]])


@dataclass(frozen=True, eq=False)
class SwarmParticle:
    """A candidate of the population, and the possible gain of each of its blocks."""

    space: SearchSpace
    candidate: Candidate
    scores: Floats  # [blocks]
    lineage: CandidateLineage
    to_own: Floats  # [blocks], to the best of its lineage
    to_best: Floats  # [blocks], to the best of all

    def order(self, velocity: Floats, rng: random.Random) -> list[int]:
        """Return the blocks, the least score minus possible gain first; equal ones in any order."""
        keys = [(least, rng.random()) for least in (self.scores - velocity).tolist()]
        return sorted(range(len(keys)), key=keys.__getitem__)

    def mutant(self, blocks: Collection[int], rng: random.Random) -> Architecture:
        """Redraw these blocks, and with a small probability each value of the network."""
        drawn, of_blocks = self._positions(blocks), set().union(*self._owned)

        def inherit(position: Position) -> Any:
            redraw = position not in of_blocks and rng.random() < NETWORK_PROBABILITY
            return None if redraw or position in drawn else self._values.get(position)

        return self._inherited(inherit, rng)

    def child(
        self, other: SwarmParticle, blocks: Collection[int], rng: random.Random
    ) -> Architecture:
        """Replace these blocks by those of the other at the same positions."""
        new = {p: other._values[p] for p in self._positions(blocks) if p in other._values}
        return self._inherited({**self._values, **new}.get, rng)

    def _inherited(self, inherit: Callable[[Position], Any], rng: random.Random) -> Architecture:
        """Inherit each value or draw one if it is no option; if never valid, return the parent."""
        for _ in range(REDRAW_ATTEMPTS):
            choices: dict[str, Any] = {}
            for name, field in self.space.fields.items():
                values = []
                for i, options in enumerate(field.positions(choices)):
                    value = inherit((name, i))
                    values.append(value if value in options else rng.choice(options))
                choices[name] = field.value(values)
            if self.space.rule(choices) is None:
                return self.space.architecture(choices)
        return self.candidate.architecture

    def _positions(self, blocks: Collection[int]) -> set[Position]:
        return set().union(*(self._owned[block] for block in blocks))

    @cached_property
    def _owned(self) -> list[set[Position]]:
        return block_positions(self.space, self.candidate.architecture)

    @cached_property
    def _values(self) -> dict[Position, Any]:
        return {
            (name, i): value
            for name, listed in self.candidate.architecture.choices
            for i, value in enumerate(listed if isinstance(listed, tuple) else (listed,))
        }


def block_positions(space: SearchSpace, architecture: Architecture) -> list[set[Position]]:
    """Return the positions of the values that belong to each block."""
    blocks, choices = space.blocks(architecture), dict(architecture.choices)
    owned: list[set[Position]] = [set() for _ in blocks]
    for name, field in space.fields.items():
        if not field.listed:
            continue
        by_block = field.count is not None and len(choices[name]) == len(blocks)
        for i, options in enumerate(field.positions(choices)):
            changed = [i]
            if not by_block:  # change this value alone
                values = list(choices[name])
                values[i] = next((option for option in options if option != values[i]), values[i])
                after = space.blocks(Architecture(space.name, {**choices, name: values}))
                pairs = enumerate(zip(blocks, after, strict=False))
                changed = [b for b, (before, now) in pairs if before != now]
                if len(after) != len(blocks) or len(changed) == len(blocks):
                    changed = []
            for block in changed:
                owned[block].add((name, i))
    return owned
