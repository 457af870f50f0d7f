"""The search of architectures with inherited weights (the paper's algorithm 3).

As in the search that it follows (Guo et al., "Single Path One-Shot Neural Architecture Search with
Uniform Sampling", ECCV 2020), parents are the best of all that were evaluated, a half of the
children are of crossover, and nobody is evaluated twice.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autoprox.declared_options import Options, Positive, Probability
from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.searchspaces.sampler import ArchitectureSampler
from autoprox.searchspaces.space import OptionValue

Evaluate = Callable[[Sequence[Architecture]], Sequence[float]]  # errors, lower is better


class SearchSettings(Options):
    """How long is searched, and how much changes."""

    population: Positive = 50
    generations: Positive = 20
    parents: Positive = 10
    mutate_stage: Probability = 0.2  # a stage's depth, its dimension
    mutate_block: Probability = 0.4


def search(
    sampler: ArchitectureSampler, evaluate: Evaluate, settings: SearchSettings, rng: random.Random
) -> dict[Architecture, float]:
    """Return all that were evaluated, with their errors.

    There are fewer of them than settings ask for if the limits hold fewer.
    """
    found: dict[Architecture, float] = {}
    members = sampler.sample(settings.population, rng)
    for _ in range(settings.generations):
        found.update(zip(members, evaluate(members), strict=True))
        members = _children(sampler, found, settings, rng)
    return found | dict(zip(members, evaluate(members), strict=True))


def _children(
    sampler: ArchitectureSampler,
    found: Mapping[Architecture, float],
    settings: SearchSettings,
    rng: random.Random,
) -> list[Architecture]:
    """Return new descendants of the best that were found; fewer if the limits hold no more."""
    space = sampler.limits.space
    parents = sorted(found, key=found.__getitem__)[: settings.parents]
    known = dict.fromkeys(found)
    for i in range(settings.population):

        def crossed() -> Architecture:
            child = crossover(space, rng.choice(parents), rng.choice(parents), rng)
            return mutated() if child in known else child

        def mutated() -> Architecture:
            return mutate(space, rng.choice(parents), settings, rng)

        make = crossed if i < settings.population // 2 else mutated
        child = sampler.varied(make, rng, known)
        if child is None:
            break
        known[child] = None
    return [architecture for architecture in known if architecture not in found]


def crossover(
    space: SearchSpace, a: Architecture, b: Architecture, rng: random.Random
) -> Architecture:
    """Depths and dimensions of either parent; at each place the whole block of either."""

    def donor(count: str, place: int, blocks: Sequence[str]) -> Mapping[str, OptionValue]:
        parent = rng.choice([parent for parent in (a, b) if place < parent[count]])
        return {name: parent[name][place] for name in blocks}

    return _built(space, lambda name, options: rng.choice((a, b))[name], donor)


def mutate(
    space: SearchSpace, arch: Architecture, settings: SearchSettings, rng: random.Random
) -> Architecture:
    """Depths and dimensions drawn anew, then blocks, by their probabilities; added ones always."""

    def stage(name: str, options: Sequence[OptionValue]) -> OptionValue:
        again = rng.random() < settings.mutate_stage
        kept: OptionValue = arch[name]
        return rng.choice(options) if again else kept

    def block(count: str, place: int, blocks: Sequence[str]) -> Mapping[str, OptionValue]:
        if place >= arch[count] or rng.random() < settings.mutate_block:
            return {name: rng.choice(space.fields[name].options[0]) for name in blocks}
        return {name: arch[name][place] for name in blocks}

    return _built(space, stage, block)


def _built(
    space: SearchSpace,
    stage: Callable[[str, Sequence[OptionValue]], OptionValue],
    block: Callable[[str, int, Sequence[str]], Mapping[str, OptionValue]],
) -> Architecture:
    """An architecture of its single values, and then of its blocks."""
    choices: dict[str, Any] = {}
    for name, field in space.fields.items():
        if field.count is None:
            choices[name] = stage(name, field.options[0])
    counts = dict.fromkeys(field.count for field in space.fields.values() if field.count)
    for count in counts:
        names = [name for name, field in space.fields.items() if field.count == count]
        made = [block(count, place, names) for place in range(choices[count])]
        choices |= {name: [own[name] for own in made] for name in names}
    return space.architecture(choices)
