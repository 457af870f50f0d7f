"""The evolutionary search for subnets with inherited weights (algorithm 3).

As in the search that it follows (Guo et al., "Single Path One-Shot Neural Architecture Search with
Uniform Sampling", ECCV 2020), the parents are the best of all that were evaluated, half of the
children are made by crossover, and no architecture is evaluated twice.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from autoprox.declared_options import Options, Positive, Probability
from autoprox.files.json_documents import PartialJSONDocument
from autoprox.files.json_lines import JSONLinesFile
from autoprox.inputs.training_datasets import ImageDataset
from autoprox.oneshot.supernet.inherited_accuracy import inherited_accuracies
from autoprox.oneshot.supernet.shared_weights import Supernet
from autoprox.parallel.worker_pool import SINGLE_WORKER, WorkerPool
from autoprox.progress import Progress, silent
from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.searchspaces.architecture_sampler import ArchitectureSampler
from autoprox.searchspaces.space import OptionValue


class SubnetEvaluation(PartialJSONDocument):
    """A line of the file of evaluations."""

    arch: dict[str, Any]
    accuracy: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]


@dataclass(frozen=True)
class SubnetEvaluator:
    """Evaluates the subnets of a supernet, except those in the file, to which it appends."""

    supernet: Supernet
    data: ImageDataset
    file: Path
    limit: int | None = None  # of held-out images
    pool: WorkerPool = SINGLE_WORKER
    task: str = "evaluate"
    total: int = 0  # of evaluations, for the progress
    progress: Progress = silent

    def errors(self, architectures: Sequence[Architecture]) -> list[float]:
        """Return the percentage of held-out images that each subnet gets wrong."""
        lines, architecture = JSONLinesFile(self.file), self.supernet.space.architecture
        evaluations = lines.read_as(SubnetEvaluation)
        known = {architecture(line.arch): line.accuracy for line in evaluations}
        lines.truncate(len(evaluations))
        by_index = {index: known[a] for index, a in enumerate(architectures) if a in known}

        def record(index: int, accuracy: float) -> None:
            arch = architectures[index]
            known[arch] = accuracy
            lines.append({"arch": arch.to_json()["choices"], "accuracy": accuracy})
            self.progress(self.task, len(known), self.total, f"accuracy {accuracy:.2f}")

        accuracies = inherited_accuracies(
            self.supernet,
            self.data,
            architectures,
            limit=self.limit,
            pool=self.pool,
            known=by_index,
            record=record,
        )
        return [100 - accuracy for accuracy in accuracies]


class SubnetSearchSettings(Options):
    """The length of the search, and the rates of mutation."""

    population: Positive = 50
    generations: Positive = 20
    parents: Positive = 10
    mutate_stage: Probability = 0.2  # a stage's depth, its dimension
    mutate_block: Probability = 0.4


def search_subnets(
    sampler: ArchitectureSampler,
    evaluate: Callable[[Sequence[Architecture]], Sequence[float]],
    settings: SubnetSearchSettings,
    rng: random.Random,
) -> dict[Architecture, float]:
    """Minimise the error; returns all architectures that were evaluated, with their errors.

    There are fewer of them than the settings ask for if fewer are within the limits.
    """
    evaluated: dict[Architecture, float] = {}
    members = sampler.sample(settings.population, rng)
    for _ in range(settings.generations):
        evaluated.update(zip(members, evaluate(members), strict=True))
        members = _children(sampler, evaluated, settings, rng)
    return evaluated | dict(zip(members, evaluate(members), strict=True))


def _children(
    sampler: ArchitectureSampler,
    evaluated: Mapping[Architecture, float],
    settings: SubnetSearchSettings,
    rng: random.Random,
) -> list[Architecture]:
    """Return new descendants of the best; fewer if no more are within the limits."""
    space = sampler.limits.space
    parents = sorted(evaluated, key=evaluated.__getitem__)[: settings.parents]
    known = dict.fromkeys(evaluated)

    def crossed() -> Architecture:
        child = crossover_subnets(space, rng.choice(parents), rng.choice(parents), rng)
        return mutated() if child in known else child

    def mutated() -> Architecture:
        return mutate_subnet(space, rng.choice(parents), settings, rng)

    for i in range(settings.population):
        make = crossed if i < settings.population // 2 else mutated
        child = sampler.varied(make, rng, known)
        if child is None:
            break
        known[child] = None
    return [architecture for architecture in known if architecture not in evaluated]


def crossover_subnets(
    space: SearchSpace, a: Architecture, b: Architecture, rng: random.Random
) -> Architecture:
    """Take depths and dimensions of either parent, and each block as a whole of either."""

    def inherit(count: str, index: int, names: Sequence[str]) -> Mapping[str, OptionValue]:
        parent = rng.choice([parent for parent in (a, b) if index < parent[count]])
        return {name: parent[name][index] for name in names}

    return _assemble(space, lambda name, options: rng.choice((a, b))[name], inherit)


def mutate_subnet(
    space: SearchSpace, arch: Architecture, settings: SubnetSearchSettings, rng: random.Random
) -> Architecture:
    """Redraw depths and dimensions, then blocks, with their probabilities; added blocks always."""

    def mutate_stage(name: str, options: Sequence[OptionValue]) -> OptionValue:
        redraw = rng.random() < settings.mutate_stage
        kept: OptionValue = arch[name]
        return rng.choice(options) if redraw else kept

    def mutate_block(count: str, index: int, names: Sequence[str]) -> Mapping[str, OptionValue]:
        if index >= arch[count] or rng.random() < settings.mutate_block:
            return {name: rng.choice(space.fields[name].options[0]) for name in names}
        return {name: arch[name][index] for name in names}

    return _assemble(space, mutate_stage, mutate_block)


def _assemble(
    space: SearchSpace,
    choose_stage: Callable[[str, Sequence[OptionValue]], OptionValue],
    choose_block: Callable[[str, int, Sequence[str]], Mapping[str, OptionValue]],
) -> Architecture:
    """Choose all single values, then the blocks of each stage."""
    choices: dict[str, Any] = {
        name: choose_stage(name, field.options[0])
        for name, field in space.fields.items()
        if field.count is None
    }
    for count in dict.fromkeys(field.count for field in space.fields.values() if field.count):
        names = [name for name, field in space.fields.items() if field.count == count]
        blocks = [choose_block(count, index, names) for index in range(choices[count])]
        choices |= {name: [block[name] for block in blocks] for name in names}
    return space.architecture(choices)
