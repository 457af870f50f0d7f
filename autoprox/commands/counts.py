"""Counts that a configuration asks for, and what was done of them."""

from collections.abc import Sequence
from typing import Any

from autoprox.evolution import State
from autoprox.evolution_parameters import EvolutionParameters

Counts = dict[str, dict[str, int | None]]


def count(asked: int | None, done: int) -> dict[str, int | None]:
    """Return both numbers, as summaries have them."""
    return {"asked": asked, "done": done}


def evolution_counts(parameters: EvolutionParameters, islands: Sequence[State]) -> dict[str, Any]:
    """Return what an evolution's budgets were and what was done, and how the budget ended it.

    The islands share the evaluations; iterations and population are those of the island that has
    the fewest.
    """
    iterations = min(island.iteration for island in islands)
    evaluations = sum(island.evaluations for island in islands)
    population = min(len(island.population) for island in islands)
    return {
        "counts": {
            "iterations": count(parameters.iterations, iterations),
            "evaluations": count(parameters.evaluations, evaluations),
            "population": count(parameters.population, population),
        },
        "ended": None if iterations == parameters.iterations else _ended(parameters, islands),
    }


def _ended(parameters: EvolutionParameters, islands: Sequence[State]) -> str:
    """Say in one sentence what the budget of evaluations sufficed for."""
    evaluations = sum(island.evaluations for island in islands)
    drawn = sum(island.drawn for island in islands)
    done = sorted({island.iteration for island in islands})
    spent = f"{evaluations} evaluation{'s' if evaluations > 1 else ''}"
    if done == [0]:
        children = f" and {evaluations - drawn} children" if evaluations > drawn else ""
        rule = f"{spent}: no iteration was completed"
        return f"{rule}; the formula is the best of {drawn} random ones{children}"
    each = " to ".join(map(str, dict.fromkeys((done[0], done[-1]))))
    return f"{spent}: {each} of {parameters.iterations} iterations were completed"
