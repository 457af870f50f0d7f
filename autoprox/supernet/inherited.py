"""What subnets are worth with the weights that they inherit."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from autoprox.benchmarks.table import FORMAT
from autoprox.inputs.datasets import Images
from autoprox.parallel.crew import ALONE, Crew
from autoprox.searchspaces import Architecture
from autoprox.supernet.slices import Supernet
from autoprox.training.images import accuracy


def inherited_accuracies(
    supernet: Supernet,
    data: Images,
    architectures: Sequence[Architecture],
    *,
    limit: int | None = None,
    crew: Crew = ALONE,
    known: Mapping[int, float] | None = None,
    record: Callable[[int, float], None] = lambda number, found: None,
) -> list[float]:
    """The percentages of the first held-out images that each subnet knows; records new ones."""
    images, labels = data.held_out_images[:limit], data.held_out_labels[:limit]
    found = dict(known or {})
    todo = [number for number in range(len(architectures)) if number not in found]
    numbers = iter(todo)

    def take(value: float) -> None:
        number = next(numbers)
        found[number] = value
        record(number, value)

    chosen = [architectures[number] for number in todo]
    crew.each(_accuracy, chosen, take, supernet, images, labels)
    return [found[number] for number in range(len(architectures))]


def _accuracy(
    supernet: Supernet, images: Tensor, labels: Tensor, architecture: Architecture
) -> float:
    return accuracy(supernet.subnet(architecture).eval(), images, labels)


def inherited_table(
    name: str,
    supernet: Supernet,
    data: Images,
    architectures: Sequence[Architecture],
    accuracies: Sequence[float],
    training: Mapping[str, Any],
) -> dict[str, Any]:
    """The accuracies as a benchmark."""
    pairs = zip(architectures, accuracies, strict=True)
    return {
        "format": FORMAT,
        "name": name,
        "space": supernet.space.name,
        "datasets": {data.name: {"classes": data.classes}},
        "training": dict(training),
        "architectures": [
            {"arch": arch.to_json()["choices"], "scores": {data.name: round(score, 4)}}
            for arch, score in pairs
        ],
    }
