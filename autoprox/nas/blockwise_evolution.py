"""Block-wise evolution of T-Razor (Zhou et al., "Training-Free Transformer Architecture Search With
Zero-Cost Proxy Guided Evolution", TPAMI 2024, algorithm 1, equations 12 and 13).

Candidates are the particles of a swarm. The position x of a particle is the vector of its blocks'
scores, and its velocity is the gain that is possible for each block::

    v' = w v + g1 r1 (x of the best of its lineage - x) + g2 r2 (x of the best of all - x)

r1 and r2 are drawn for each block, uniformly from [0, 1), whenever a candidate is changed. x + v'
is the score of the descendant that equation 12 aims at; both continue with v'. The blocks that are
changed are those with the least x - v'. The paper leaves open the following, which is here:

- w, g1 and g2 are 0.7, 1.5 and 1.5, as is usual (`inertia`, `cognitive`, `social`).
- A block's score is the proxy's last reduction, over the layers, of the block's layers alone.
  Combinators then combine these numbers; `rank` ranks all blocks of the population.
- Candidates may differ in depth: if the better one lacks a block, there is no gain.
- A mutant redraws the values of a fixed share of the blocks (`share`, at least one), and with a
  small probability each value of the network as a whole.
- By the rule, a step's two candidates have one child. So its first child has all blocks that score
  higher in A2, and each further one a random number of them, the least x - v' first; if there is no
  further child, A1 is mutated.
- If changes lead only to known architectures, more blocks are changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from annotated_types import Le

from autoprox.declared_options import MOST, Coefficient, Many, Option, Probability, Whole
from autoprox.nas.strategy_interface import SearchParameters

if TYPE_CHECKING:
    from autoprox.nas.searcher import Searcher


class BlockwiseParameters(SearchParameters):
    """The published numbers: 160 steps of 50 candidates, the first population among them."""

    population: Annotated[
        Many, Option("Population: the candidates that parents are chosen from.")
    ] = 50
    mutants: Annotated[Many, Option("Mutants in each step.")] = 25
    crossovers: Annotated[Whole, Le(MOST), Option("Children by crossover in each step.")] = 25
    steps: Annotated[Many, Option("Steps, including the first population.")] = 160
    share: Annotated[Probability, Option("Share of the blocks that a mutant changes.")] = 0.25
    inertia: Annotated[Coefficient, Option("w, the weight of the previous velocity.")] = 0.7
    cognitive: Annotated[Coefficient, Option("g1, the pull towards the best of a lineage.")] = 1.5
    social: Annotated[Coefficient, Option("g2, the pull towards the best of all.")] = 1.5

    @property
    def candidates(self) -> int:
        return self.population + (self.steps - 1) * (self.mutants + self.crossovers)


def search_blockwise(searcher: Searcher, settings: BlockwiseParameters) -> None:
    """Change the lowest-scoring blocks, with the most to gain, in the best candidates.

    ::

        population = P random architectures, scored by the proxy
        repeat for the other steps:
            A1, A2 = two of the population
            M times: one of the population, its lowest-scoring blocks redrawn
            C times: A1, its blocks replaced that score less than A2's at the same positions
            population = the P best of population, mutants and children

    The search ends early once every architecture within the limits is scored.
    """
    from autoprox.nas.architecture_swarm import (
        ArchitectureSwarm,  # imports numpy and torch, which `--help` doesn't need
    )

    swarm, rng = ArchitectureSwarm(searcher, settings), searcher.rng
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
