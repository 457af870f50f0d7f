"""The search of ETAS (Yang and Liu, "ETAS: Zero-Shot Transformer Architecture Search via Network
Trainability and Expressivity", Findings of ACL 2024, algorithm 1).

A proxy picks what is worth evaluating, an evaluator decides. The published numbers are 500 random
architectures (300 for GPT-2), 3 parents, 100 mutants of probability 0.4 (0.3 for GPT-2), of which 3
are evaluated, 10 times, or until the best evaluated hasn't improved for 5 of these steps. The paper
calls it regularised; since only what was evaluated is a parent, and that is little, nothing is aged
here.
"""

from collections.abc import Iterable

from autoprox.nas.searcher import Candidate, Searcher, SearchParameters
from autoprox.options import Positive, Probability


class ETASParameters(SearchParameters):
    """The published numbers."""

    samples: Positive = 500
    parents: Positive = 3
    mutants: Positive = 100
    evaluated: Positive = 3
    steps: Positive = 10
    probability: Probability = 0.4
    patience: Positive = 5

    @property
    def candidates(self) -> int:
        return self.samples + self.steps * self.mutants


def search(searcher: Searcher, settings: ETASParameters) -> None:
    """Evaluate the best by the proxy, again and again among mutants of the best evaluated.

    ::

        candidates = N random architectures, scored by the proxy
        evaluate the best of them
        repeat T times:
            parents = the best architectures by the evaluator
            mutants = the parents in turn, mutated; scored by the proxy
            evaluate the best mutants
            stop if the best evaluated is as it was S steps before

    The search also ends once every architecture within the limits is scored.
    """
    best: list[Candidate] = []  # of those evaluated, after each step

    def evaluate(candidates: Iterable[Candidate]) -> None:
        new = [c for c in searcher.ranked(candidates) if c.value is None]
        searcher.evaluate(new[: settings.evaluated])
        searcher.step()
        best.extend(searcher.evaluated()[:1])

    evaluate(searcher.score(searcher.population(settings.samples)))
    for _ in range(settings.steps):
        if len(best) > settings.patience and best[-1] is best[-1 - settings.patience]:
            return
        if searcher.exhausted:
            return
        parents = searcher.evaluated()[: settings.parents] or searcher.best(settings.parents)
        mutants = [
            searcher.mutate(parents[i % len(parents)].architecture, settings.probability)
            for i in range(settings.mutants)
        ]
        evaluate(searcher.score(mutants))
