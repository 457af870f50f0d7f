"""The search of architectures with inherited weights (the paper's algorithm 3).

As in the search that it follows (Guo et al., "Single Path One-Shot Neural Architecture Search with
Uniform Sampling", ECCV 2020), parents are the best of all that were evaluated, a half of the
children are of crossover, and nobody is evaluated twice.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from autoprox.nas.size_limits import SizeLimits
from autoprox.options import Options, Positive, Probability
from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.searchspaces.base import Option

TRIES = 100  # for each child, or random architecture within the limits

Evaluate = Callable[[Sequence[Architecture]], Sequence[float]]  # errors, lower is better


class SearchSettings(Options):
    """How long is searched, and how much changes."""

    population: Positive = 50
    generations: Positive = 20
    parents: Positive = 10
    mutate_stage: Probability = 0.2  # a stage's depth, its dimension
    mutate_block: Probability = 0.4


def search(
    limits: SizeLimits, evaluate: Evaluate, settings: SearchSettings, rng: random.Random
) -> dict[Architecture, float]:
    """All that were evaluated, with their errors."""
    found: dict[Architecture, float] = {}
    members = _new(settings.population, found, lambda: sample_within(limits, rng))
    for _ in range(settings.generations):
        found.update(zip(members, evaluate(members), strict=True))
        members = _children(limits, found, settings, rng)
    return found | dict(zip(members, evaluate(members), strict=True))


def _children(
    limits: SizeLimits,
    found: Mapping[Architecture, float],
    settings: SearchSettings,
    rng: random.Random,
) -> list[Architecture]:
    """New ones of the best that were found; fewer where new ones are hard to find.

    Mutation makes those, too, that crossover can't: a single parent has no children by itself.
    """
    space = limits.space
    parents = sorted(found, key=found.__getitem__)[: settings.parents]

    def crossed() -> Architecture | None:
        return _within(limits, crossover(space, rng.choice(parents), rng.choice(parents), rng))

    def mutated() -> Architecture | None:
        return _within(limits, mutate(space, rng.choice(parents), settings, rng))

    half = settings.population // 2
    children = _new(half, found, crossed)
    return children + _new(settings.population - len(children), [*found, *children], mutated)


def sample_within(limits: SizeLimits, rng: random.Random) -> Architecture:
    """A random architecture within the limits, where they are narrow led there by mutations."""
    for _ in range(TRIES):
        arch = limits.space.sample(rng)
        if _within(limits, arch):
            return arch
    return limits.approach(arch, rng)


def crossover(
    space: SearchSpace, a: Architecture, b: Architecture, rng: random.Random
) -> Architecture:
    """Depths and dimensions of either parent; at each place the whole block of either."""

    def donor(count: str, place: int, blocks: Sequence[str]) -> Mapping[str, Option]:
        parent = rng.choice([parent for parent in (a, b) if place < parent[count]])
        return {name: parent[name][place] for name in blocks}

    return _built(space, lambda name, options: rng.choice((a, b))[name], donor)


def mutate(
    space: SearchSpace, arch: Architecture, settings: SearchSettings, rng: random.Random
) -> Architecture:
    """Depths and dimensions drawn anew, then blocks, by their probabilities; added ones always."""

    def stage(name: str, options: Sequence[Option]) -> Option:
        again = rng.random() < settings.mutate_stage
        kept: Option = arch[name]
        return rng.choice(options) if again else kept

    def block(count: str, place: int, blocks: Sequence[str]) -> Mapping[str, Option]:
        if place >= arch[count] or rng.random() < settings.mutate_block:
            return {name: rng.choice(space.fields[name].options[0]) for name in blocks}
        return {name: arch[name][place] for name in blocks}

    return _built(space, stage, block)


def _built(
    space: SearchSpace,
    stage: Callable[[str, Sequence[Option]], Option],
    block: Callable[[str, int, Sequence[str]], Mapping[str, Option]],
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


def _within(limits: SizeLimits, arch: Architecture) -> Architecture | None:
    return None if limits.excess(limits.sizes(arch)) else arch


def _new(
    count: int, known: Iterable[Architecture], make: Callable[[], Architecture | None]
) -> list[Architecture]:
    """So many different ones that aren't known, or fewer where they are hard to find."""
    seen, made = set(known), list[Architecture]()
    for _ in range(TRIES * count):
        if len(made) == count:
            break
        arch = make()
        if arch is not None and arch not in seen:
            seen.add(arch)
            made.append(arch)
    return made
