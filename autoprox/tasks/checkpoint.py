"""The state of an evolution as JSON, and back."""

import random
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from autoprox.evolution import Individual, State
from autoprox.files.json_documents import Document, Excerpt, Finite
from autoprox.language import parse
from autoprox.runs.folder import Run, as_written, restored_rng, rng_state

Count = Annotated[int, Field(ge=0, le=10**12)]


class SavedIndividual(Document):
    """An individual of a checkpoint."""

    expression: str
    taus: list[Finite]
    jcm: Finite
    given_size: Finite
    objective: Literal["jcm", "equal-size", "both"]


class SavedState(Excerpt):
    """What must be known of an evolution to go on with it."""

    iteration: Count
    evaluations: Count
    drawn: Count = 0
    lines: Count | None = None  # earlier versions logged a line for each iteration, and no other
    invalid: dict[str, Count]
    seconds: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]
    rng: list[Any]
    population: list[SavedIndividual]  # empty where an island's budget found no valid formula
    front: list[SavedIndividual]


def checkpoint(state: State, seconds: float) -> dict[str, Any]:
    """All that the next iteration depends on, as JSON values."""
    return {
        "iteration": state.iteration,
        "evaluations": state.evaluations,
        "drawn": state.drawn,
        "lines": state.lines,
        "invalid": dict(state.invalid),
        "seconds": round(seconds, 3),
        "rng": rng_state(state.rng),
        "population": [_to_json(i) for i in state.population],
        "front": [_to_json(i) for i in state.front],
    }


def restored(run: Run, seed: int, datasets: int, objective: str) -> tuple[State, float]:
    """The state of the last checkpoint and the seconds spent until then, or a beginning."""
    saved = run.read_checkpoint()
    if saved is None:
        run.truncate_log(0)
        return State(random.Random(seed)), 0.0
    with as_written(run.path, "a checkpoint"):
        state = state_of(saved, datasets, objective)
        run.truncate_log(state.lines)
        return state, float(saved["seconds"])


def state_of(saved: Mapping[str, Any], datasets: int, objective: str) -> State:
    """The state that `checkpoint` wrote, of an evolution on so many datasets."""
    known = SavedState.model_validate(saved)
    empty = not known.population, not known.front
    if any(empty) and (known.iteration or not all(empty)):
        raise ValueError("a population and a front have individuals after the first iteration")
    for own in (*known.population, *known.front):
        if (len(own.taus), own.objective) != (datasets, objective):
            raise ValueError(f"{own.expression} isn't of {datasets} datasets and by {objective}")
    state = State(
        restored_rng(known.rng),
        [_restored(i) for i in known.population],
        iteration=known.iteration,
        evaluations=known.evaluations,
        drawn=known.drawn,
        lines=known.iteration if known.lines is None else known.lines,
        invalid=Counter(known.invalid),
    )
    # Backwards: of equals, a front has the last one first.
    state.front.update([_restored(i) for i in reversed(known.front)])
    return state


def _to_json(individual: Individual) -> dict[str, Any]:
    return {
        "expression": str(individual.tree),
        "taus": individual.taus,
        "jcm": individual.jcm,
        "given_size": individual.given_size,
        "objective": individual.objective,
    }


def _restored(saved: SavedIndividual) -> Individual:
    return Individual(
        parse(saved.expression),
        tuple(saved.taus),
        jcm=saved.jcm,
        given_size=saved.given_size,
        objective=saved.objective,
    )
