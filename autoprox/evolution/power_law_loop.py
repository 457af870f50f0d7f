"""The evolution of power laws: an archive of terms, and the best products of their powers."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from deap import base

from autoprox.evolution.evolution_strategies import EvolutionStrategy
from autoprox.evolution.individuals import Individual, survivors
from autoprox.evolution.loop import State
from autoprox.evolution.term_archive import TermArchive
from autoprox.evolution_parameters import EvolutionParameters
from autoprox.language import Tree
from autoprox.scoring.correlations import Floats


@dataclass
class MeasuredTerms:
    """The usable ones of some terms with their logarithms, and why the others aren't."""

    terms: list[Tree]
    logs: Floats  # [terms, rows]
    unusable: Counter[str] = field(default_factory=Counter)


def evolve_power_laws(
    toolbox: base.Toolbox,
    strategy: EvolutionStrategy,
    parameters: EvolutionParameters,
    state: State,
    record: Callable[[State], None],
) -> State:
    """Evolve terms, and choose power laws of the archive after each iteration.

    ::

        archive = P random terms, those that are usable
        repeat T times:
            parents = the terms that forward selections on random parts of the networks choose
            archive = archive + children of the parents
            front = front + the power laws of 1 to K terms by forward selection on all networks

    `toolbox` has `generate`, `mutate`, `mate`, `select`, `measure` (terms to their values),
    `archive` (of a state), `parents` (of an archive) and `combine` (an archive to individuals).
    """
    archive: TermArchive = toolbox.archive(state)

    def evaluate(terms: Sequence[Tree]) -> None:
        allowed = terms[: state.left(parameters)]
        measured: MeasuredTerms = toolbox.measure(allowed)
        archive.add(measured.terms, measured.logs)
        state.evaluations += len(allowed)
        state.invalid.update(measured.unusable)
        if len(archive):
            found: list[Individual] = [own for own in toolbox.combine(archive) if own.valid]
            state.front.update(found)
            state.population = survivors([*state.population, *found], parameters.terms)

    def finish_iteration() -> None:
        if state.population:
            state.log()
            record(state)

    if not state.evaluations:
        evaluate([toolbox.generate(state.rng) for _ in range(parameters.population)])
        state.drawn = state.evaluations
        if state.spent(parameters):
            finish_iteration()
    while not state.spent(parameters):
        parents = [Individual(term) for term in toolbox.parents(archive)]
        children = (
            [tree for _, tree in strategy.vary(parents, toolbox, parameters, state.rng)]
            if parents
            else [toolbox.generate(state.rng) for _ in range(parameters.children)]
        )
        complete = state.left(parameters) is None or len(children) <= (state.left(parameters) or 0)
        evaluate(children)
        state.iteration += complete
        finish_iteration()
    return state
