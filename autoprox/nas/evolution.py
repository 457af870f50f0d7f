"""Regularised evolution (Real et al., "Regularized Evolution for Image Classifier Architecture
Search", AAAI 2019), its fitness the score by the proxy alone.

The paper's workers mutate one choice at a time and know of each other's children late; here every
choice is mutated with a small probability, and children are made and scored a few at a time.
"""

from collections import deque

from autoprox.nas.searcher import Candidate, Searcher, SearchParameters
from autoprox.options import Positive, Probability


class AgeingParameters(SearchParameters):
    """The paper's population P = 100 and sample S = 25; 1,000 candidates in all."""

    population: Positive = 100
    tournament: Positive = 25
    mutants: Positive = 10
    steps: Positive = 90
    probability: Probability = 0.1

    @property
    def candidates(self) -> int:
        return self.population + self.steps * self.mutants


def search(searcher: Searcher, settings: AgeingParameters) -> None:
    """Ageing evolution: what dies is the oldest, not the worst.

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
