"""The parameters of an evolution: Auto-Prox's, and what a final formula must be worth."""

from __future__ import annotations

import math
from typing import Annotated, Protocol

from annotated_types import Ge, Gt, Le

from autoprox.options import Option, Options, Positive, Whole

GROUP = "Evolution"


class Spent(Protocol):
    """How far an evolution is."""

    iteration: int
    evaluations: int


class EvolutionParameters(Options):
    """How formulas are evolved; Auto-Prox's margin of 0.1 is in percent."""

    noun = "an evolution"

    strategy: Annotated[str, Option("mixture, elitist (Auto-Prox), naive or random.", GROUP)] = (
        "mixture"
    )
    population: Annotated[Positive, Ge(2), Option("Formulas that survive an iteration.", GROUP)] = (
        20
    )
    iterations: Annotated[Positive, Option("How often children are made.", GROUP)] = 200
    children: Annotated[Positive, Option("New formulas an iteration.", GROUP)] = 10
    sample_ratio: Annotated[
        float, Gt(0), Le(1), Option("Part of the population that parents are drawn from.", GROUP)
    ] = 0.5
    top: Annotated[Positive, Option("A parent is one of the best so many of that part.", GROUP)] = 5
    margin: Annotated[
        float, Ge(0), Le(2), Option("How much better than its parent a child is (elitist).", GROUP)
    ] = 0.001
    retries: Annotated[Whole, Option("How often a child that isn't is mutated again.", GROUP)] = 3
    parsimony: Annotated[
        float, Ge(0), Le(2), Option("What a node of the final formula must be worth.", GROUP)
    ] = 0.001
    joining: Annotated[
        float, Ge(0), Le(2), Option("What each further formula of its sum must be worth.", GROUP)
    ] = 0.005
    evaluations: Annotated[
        Positive | None,
        Option("A budget that may end it before its iterations.", GROUP, default="none"),
    ] = None

    def spent(self, so_far: Spent) -> bool:
        """Whether the evolution is at its end."""
        budget = math.inf if self.evaluations is None else self.evaluations
        return so_far.iteration >= self.iterations or so_far.evaluations >= budget

    def done(self, so_far: Spent) -> tuple[int, int]:
        """How much is done, of how much: evaluations where they have a budget, or iterations."""
        if self.evaluations is None:
            return so_far.iteration, self.iterations
        return min(so_far.evaluations, self.evaluations), self.evaluations
