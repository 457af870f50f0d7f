"""The state of an evolution as a document, and back."""

from collections import Counter
from typing import Annotated, Any

from pydantic import Field

from autoprox.evolution.individuals import Individual
from autoprox.evolution.loop import State
from autoprox.evolution.term_archive import SavedArchive
from autoprox.files.json_documents import Finite, JSONDocument
from autoprox.language import parse_expression
from autoprox.runs.folder import restored_rng, rng_state

STATE_COUNTERS = ("iteration", "evaluations", "drawn", "lines")
Counted = Annotated[int, Field(ge=0, le=10**12)]


class SavedIndividual(JSONDocument):
    """An individual of a checkpoint."""

    expression: str
    taus: tuple[Finite, ...]
    jcm: Finite
    partial_tau: Finite
    objective: Annotated[str, Field(pattern="^(jcm|size-adjusted|both)$")]

    @classmethod
    def of(cls, individual: Individual) -> "SavedIndividual":
        """Save an individual."""
        names = ("taus", "jcm", "partial_tau", "objective")
        kept = {name: getattr(individual, name) for name in names}
        return cls(expression=str(individual.tree), **kept)

    def restored(self) -> Individual:
        """Return the individual."""
        return Individual(
            parse_expression(self.expression), **self.model_dump(exclude={"expression"})
        )


class SavedState(JSONDocument):
    """Everything that the next iteration of an evolution depends on."""

    iteration: Counted
    evaluations: Counted
    drawn: Counted
    lines: Counted
    invalid: dict[str, Counted]
    rng: list[Any]
    population: tuple[SavedIndividual, ...]  # empty if a budget found no valid formula
    front: tuple[SavedIndividual, ...]
    archive: SavedArchive | None = None  # of power laws

    @classmethod
    def of(cls, state: State) -> "SavedState":
        """Save a state."""
        return cls(
            **{name: getattr(state, name) for name in STATE_COUNTERS},
            invalid=dict(state.invalid),
            rng=rng_state(state.rng),
            population=tuple(map(SavedIndividual.of, state.population)),
            front=tuple(map(SavedIndividual.of, state.front)),
            archive=None if state.archive is None else SavedArchive.of(state.archive),
        )

    def restored(self, pairs: int, objective: str) -> State:
        """Return the state of an evolution on as many pairs of a space and a dataset."""
        empty = not self.population, not self.front
        if any(empty) and (self.iteration or not all(empty)):
            raise ValueError("a population and a front have individuals after the first iteration")
        for own in (*self.population, *self.front):
            if (len(own.taus), own.objective) != (pairs, objective):
                raise ValueError(f"{own.expression} isn't of {pairs} datasets and by {objective}")
        state = State(
            restored_rng(self.rng),
            [own.restored() for own in self.population],
            **{name: getattr(self, name) for name in STATE_COUNTERS},
            invalid=Counter(self.invalid),
            saved_archive=self.archive,
        )
        # In reverse: a front puts the last of equals first.
        state.front.update([own.restored() for own in reversed(self.front)])
        return state
