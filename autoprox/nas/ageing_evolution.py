"""Regularised evolution (Real et al., "Regularized Evolution for Image Classifier Architecture
Search", AAAI 2019), its fitness the score by the proxy alone.

The paper's workers mutate one choice at a time and know of each other's children late; here every
choice is mutated with a small probability, and children are made and scored a few at a time.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Annotated

from autoprox.declared_options import Many, Option, Positive, Probability
from autoprox.nas.strategy_interface import SearchParameters

if TYPE_CHECKING:
    from autoprox.nas.searcher import Candidate, Searcher


class AgeingParameters(SearchParameters):
    """The paper's population P = 100 and sample S = 25; 1,000 candidates in all."""

    population: Annotated[
        Many, Option("Population: the candidates that parents are chosen from.")
    ] = 100
    tournament: Annotated[
        Positive, Option("Random members of the population, of which the best becomes a parent.")
    ] = 25
    mutants: Annotated[Many, Option("Mutants in each step.")] = 10
    steps: Annotated[Many, Option("Steps after the first population.")] = 90
    probability: Annotated[Probability, Option("Probability that a mutant's value is redrawn.")] = (
        0.1
    )

    @property
    def candidates(self) -> int:
        return self.population + self.steps * self.mutants


def evolve_by_age(searcher: Searcher, settings: AgeingParameters) -> None:
    """Ageing evolution: the oldest dies, not the worst.

    ::

        population = P random architectures, in a queue
        repeat T times:
            parents = each the best of S random members
            mutants = the parents, mutated
            population = the P youngest of population + mutants

    The search ends early once every architecture within the limits is scored.
    """
    population: deque[Candidate] = deque(maxlen=settings.population)
    population.extend(searcher.score(searcher.population(settings.population)))
    searcher.step()
    for _ in range(settings.steps):
        if searcher.exhausted:
            return
        size = min(settings.tournament, len(population))
        rivals = [searcher.rng.sample(list(population), size) for _ in range(settings.mutants)]
        parents = [searcher.ranked(own)[0] for own in rivals]
        mutants = [searcher.mutate(p.architecture, settings.probability) for p in parents]
        population.extend(searcher.score(mutants))
        searcher.step()
