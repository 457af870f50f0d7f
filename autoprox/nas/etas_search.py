"""The search of ETAS (Yang and Liu, "ETAS: Zero-Shot Transformer Architecture Search via Network
Trainability and Expressivity", Findings of ACL 2024, algorithm 1).

A proxy picks candidates for an evaluator. The published numbers are 500 random architectures (300
for GPT-2), 3 parents, 100 mutants of probability 0.4 (0.3 for GPT-2), of which 3 are evaluated, 10
times, or until the best evaluation hasn't improved for 5 of these steps. The paper calls it
regularised; since only the few evaluated candidates are parents, none is aged here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from autoprox.declared_options import Many, Option, Positive, Probability
from autoprox.nas.strategy_interface import SearchParameters

if TYPE_CHECKING:
    from autoprox.nas.searcher import Candidate, Searcher


class ETASParameters(SearchParameters):
    """The published numbers."""

    samples: Annotated[Many, Option("Random candidates.")] = 500
    parents: Annotated[
        Positive, Option("Parents: the best evaluated candidates, which are mutated.")
    ] = 3
    mutants: Annotated[Many, Option("Mutants in each step.")] = 100
    evaluated: Annotated[Positive, Option("Candidates that are evaluated in each step.")] = 3
    steps: Annotated[Many, Option("Steps after the first population.")] = 10
    probability: Annotated[Probability, Option("Probability that a mutant's value is redrawn.")] = (
        0.4
    )
    patience: Annotated[
        Positive, Option("Steps without a better evaluation, after which the search stops.")
    ] = 5

    @property
    def candidates(self) -> int:
        return self.samples + self.steps * self.mutants


def search_etas(searcher: Searcher, settings: ETASParameters) -> None:
    """Evaluate the best candidates by the proxy, then the best mutants of the best evaluated.

    ::

        candidates = N random architectures, scored by the proxy
        evaluate the best of them
        repeat T times:
            parents = the best architectures by the evaluator
            mutants = the parents in turn, mutated; scored by the proxy
            evaluate the best mutants
            stop if the best evaluated is the same as S steps before

    The search also ends once every architecture within the limits is scored.
    """
    best: list[Candidate] = []  # the best evaluated after each step

    def evaluate(candidates: Iterable[Candidate]) -> None:
        new = [c for c in searcher.ranked(candidates) if c.value is None]
        steps = 1 + settings.steps - searcher.steps
        searcher.evaluate(new[: settings.evaluated], budget=steps * settings.evaluated)
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
