"""The state of an evolution as JSON, and back."""

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from autoprox.errors import RunError
from autoprox.evolution import Individual, State
from autoprox.language import parse
from autoprox.runs.folder import Run, restored_rng, rng_state


def checkpoint(state: State, seconds: float) -> dict[str, Any]:
    """All that the next iteration depends on, as JSON values."""
    return {
        "iteration": state.iteration,
        "evaluations": state.evaluations,
        "invalid": dict(state.invalid),
        "seconds": round(seconds, 3),
        "rng": rng_state(state.rng),
        "population": [_to_json(i) for i in state.population],
        "front": [_to_json(i) for i in state.front],
    }


def restored(run: Run, seed: int) -> tuple[State, float]:
    """The state of the last checkpoint and the seconds spent until then, or a beginning."""
    saved = run.read_checkpoint()
    if saved is None:
        run.truncate_log(0)
        return State(random.Random(seed)), 0.0
    with of_this_version(run):
        run.truncate_log(saved["iteration"])
        return state_of(saved), float(saved["seconds"])


def state_of(saved: Mapping[str, Any]) -> State:
    """The state that `checkpoint` wrote."""
    state = State(
        restored_rng(saved["rng"]),
        [_from_json(i) for i in saved["population"]],
        iteration=saved["iteration"],
        evaluations=saved["evaluations"],
        invalid=Counter(saved["invalid"]),
    )
    # Backwards: of equals, a front has the last one first.
    state.front.update([_from_json(i) for i in reversed(saved["front"])])
    return state


@contextmanager
def of_this_version(run: Run) -> Iterator[None]:
    """What is read of a checkpoint herein must be in it."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        rule = "a checkpoint must be one that this version wrote"
        raise RunError(f"{rule}, but {run.path} has: {type(error).__name__} {error}") from error


def _to_json(individual: Individual) -> dict[str, Any]:
    return {
        "expression": str(individual.tree),
        "taus": individual.taus,
        "jcm": individual.jcm,
        "given_size": individual.given_size,
        "objective": individual.objective,
    }


def _from_json(saved: Mapping[str, Any]) -> Individual:
    metrics = {name: saved[name] for name in ("jcm", "given_size", "objective")}
    return Individual(parse(saved["expression"]), tuple(saved["taus"]), **metrics)
