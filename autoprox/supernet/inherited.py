"""What subnets are worth with the weights that they inherit."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any

from autoprox.benchmarks.table import FORMAT
from autoprox.inputs.datasets import Images
from autoprox.parallel.threads import run_threads
from autoprox.searchspaces import Architecture
from autoprox.supernet.slices import Supernet
from autoprox.training.images import accuracy


def inherited_accuracies(
    supernet: Supernet,
    data: Images,
    architectures: Sequence[Architecture],
    *,
    limit: int | None = None,
    workers: int = 1,
    known: Mapping[int, float] | None = None,
    record: Callable[[int, float], None] = lambda number, found: None,
) -> list[float]:
    """The percentages of the first held-out images that each subnet knows.

    New ones are recorded in their order, whichever is found first.
    """
    images, labels = data.held_out_images[:limit], data.held_out_labels[:limit]
    found, lock = dict(known or {}), Lock()
    todo = [number for number in range(len(architectures)) if number not in found]
    unrecorded = deque(todo)

    def evaluate(number: int) -> None:
        network = supernet.subnet(architectures[number]).eval()
        value = accuracy(network, images, labels)
        with lock:
            found[number] = value
            while unrecorded and unrecorded[0] in found:
                first = unrecorded.popleft()
                record(first, found[first])

    run_threads(workers, (partial(evaluate, number) for number in todo))
    return [found[number] for number in range(len(architectures))]


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
