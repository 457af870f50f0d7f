"""Block-wise evolution of T-Razor (Zhou et al., "Training-Free Transformer Architecture Search With
Zero-Cost SplitProxy Guided Evolution", TPAMI 2024, algorithm 1).

Where the paper's text leaves a choice, or wasn't at hand, this is how it is read here:

- Equations 12 and 13 score a block by its own part of the proxy: of DSS++ the diversity of its
  attention, and the saliency of its MLP. For any proxy, a block's score is what the last reduction,
  over the layers, gives for the layers of the block alone; combinators then combine the numbers of
  blocks, and `rank` ranks the blocks of the network.
- A quarter of the blocks, at least one, are the weakest; more, where all that changing those can
  give was drawn before.
- Mutation draws the values of the weakest blocks anew, and with a small probability each value of
  the network as a whole. Crossover gives the weakest blocks of one parent the values that the
  blocks at the same place have in the other.
- The population are the best candidates so far, and all of them are parents alike.

A value belongs to a block if it stands at the block's place in a list with a value for each block,
or else, in any other list, if changing it alone changes that block, and not all of them. All other
values belong to the network as a whole.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from autoprox.nas.searcher import Candidate, Searcher, SearchParameters
from autoprox.options import Positive, Whole
from autoprox.searchspaces import Architecture, SearchSpace

WEAK = 0.25
NETWORK_PROBABILITY = 0.1
PATIENCE = 4  # draws of something known before more blocks are changed
ATTEMPTS = 100

Place = tuple[str, int]  # a field, and where in its list


class BlockwiseParameters(SearchParameters):
    """The published numbers: 160 populations of 50, 8,000 candidates."""

    population: Positive = 50
    mutants: Positive = 25
    crossovers: Whole = 25
    steps: Positive = 160

    @property
    def candidates(self) -> int:
        return self.population + (self.steps - 1) * (self.mutants + self.crossovers)


def search(searcher: Searcher, settings: BlockwiseParameters) -> None:
    """Change the weakest blocks of the best candidates.

    ::

        score P random architectures
        repeat for the other steps:
            parents = the best P candidates so far
            mutants = random parents, their weakest blocks mutated
            children = random parents, their weakest blocks replaced by those of another parent
            score the mutants and the children
    """
    known: dict[Candidate, Parent] = {}
    changes = [Parent.mutant] * settings.mutants + [Parent.child] * settings.crossovers
    searcher.score(searcher.population(settings.population))
    searcher.step()
    for _ in range(settings.steps - 1):
        best = searcher.ranked()[: settings.population]
        known |= {c: Parent(searcher, c) for c in best if c not in known}
        parents = [known[candidate] for candidate in best]
        searcher.score([_changed(searcher, parents, change) for change in changes])
        searcher.step()


class Parent:
    """A candidate with the values of its blocks, the weakest block first."""

    def __init__(self, searcher: Searcher, candidate: Candidate) -> None:
        self.space = searcher.space
        self.architecture = candidate.architecture
        self.values = {
            (name, i): value
            for name, listed in candidate.architecture.choices
            for i, value in enumerate(listed if isinstance(listed, tuple) else (listed,))
        }
        self.owned = owned_places(self.space, candidate.architecture)
        [scores] = searcher.block_scores([candidate])
        self.order = sorted(range(len(scores)), key=lambda i: (scores[i], searcher.rng.random()))

    def weak(self, share: float) -> set[Place]:
        """The places of the values of the weakest blocks."""
        blocks = self.order[: max(1, round(share * len(self.order)))]
        return set().union(*(self.owned[block] for block in blocks))

    def mutant(self, other: Parent, share: float, rng: random.Random) -> Architecture:
        """The weakest blocks mutated, and perhaps values of the network; the other has no part."""
        weak, of_blocks = self.weak(share), set().union(*self.owned)

        def inherit(place: Place) -> Any:
            whole = place not in of_blocks and rng.random() < NETWORK_PROBABILITY
            return None if whole or place in weak else self.values.get(place)

        return self._redrawn(inherit, rng)

    def child(self, other: Parent, share: float, rng: random.Random) -> Architecture:
        """The weakest blocks replaced by those of the other parent, as far as it has them."""
        given = {place: other.values[place] for place in self.weak(share) if place in other.values}
        return self._redrawn({**self.values, **given}.get, rng)

    def _redrawn(self, inherit: Callable[[Place], Any], rng: random.Random) -> Architecture:
        """Every value inherited, or random where that isn't possible; valid, or this parent."""
        for _ in range(ATTEMPTS):
            choices: dict[str, Any] = {}
            for name, field in self.space.fields.items():
                values = []
                for i, options in enumerate(field.positions(choices)):
                    inherited = inherit((name, i))
                    values.append(inherited if inherited in options else rng.choice(options))
                choices[name] = field.value(values)
            if self.space.rule(choices) is None:
                return self.space.architecture(choices)
        return self.architecture


def _changed(
    searcher: Searcher,
    parents: list[Parent],
    change: Callable[[Parent, Parent, float, random.Random], Architecture],
) -> Architecture:
    """A new architecture from random parents, by more and more changes where fewer give none.

    Where a crossover of all blocks gives none, mutation does it.
    """
    draws, rng = count(), searcher.rng

    def make() -> Architecture:
        share = WEAK * (1 + next(draws) // PATIENCE)
        way = change if share <= 1 else Parent.mutant
        return way(rng.choice(parents), rng.choice(parents), share, rng)

    return searcher.draw(make)


def owned_places(space: SearchSpace, architecture: Architecture) -> list[set[Place]]:
    """The places of the values that belong to each block; see above."""
    blocks, choices = space.blocks(architecture), dict(architecture.choices)
    owned: list[set[Place]] = [set() for _ in blocks]
    for name, field in space.fields.items():
        if not field.listed:
            continue
        by_block = field.count is not None and len(choices[name]) == len(blocks)
        for i, options in enumerate(field.positions(choices)):
            changed = [i] if by_block else _blocks_changed(space, choices, (name, i), options)
            for block in changed:
                owned[block].add((name, i))
    return owned


def _blocks_changed(
    space: SearchSpace, choices: Mapping[str, Any], place: Place, options: Sequence[Any]
) -> list[int]:
    """The blocks that another option at a place changes; none if all, or their number, change."""
    name, i = place
    values = list(choices[name])
    values[i] = next((option for option in options if option != values[i]), values[i])
    before = space.blocks(Architecture(space.name, choices))
    after = space.blocks(Architecture(space.name, {**choices, name: values}))
    if len(after) != len(before):
        return []
    changed = [b for b in range(len(before)) if before[b] != after[b]]
    return changed if len(changed) < len(before) else []
