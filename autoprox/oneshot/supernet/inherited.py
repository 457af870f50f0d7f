"""What subnets are worth with the weights that they inherit."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm

from autoprox.benchmarks.table import TABLE_FORMAT
from autoprox.inputs.datasets import Images
from autoprox.oneshot.supernet.slices import Supernet
from autoprox.parallel.worker_pool import SINGLE_WORKER, WorkerPool
from autoprox.searchspaces import Architecture, TransformerNetwork
from autoprox.shortfalls import Shortfall
from autoprox.training.images import accuracy, normalise

CALIBRATION, CALIBRATION_BATCH = 1024, 128  # images


def inherited_accuracies(
    supernet: Supernet,
    data: Images,
    architectures: Sequence[Architecture],
    *,
    limit: int | None = None,
    crew: WorkerPool = SINGLE_WORKER,
    known: Mapping[int, float] | None = None,
    record: Callable[[int, float], None] = lambda number, found: None,
) -> list[float]:
    """The percentages of held-out images, `limit` of them at most, that each subnet knows.

    New ones are recorded in their order, whichever is found first.
    """
    chosen = held_out(data, limit)
    images, labels = data.held_out_images[chosen], data.held_out_labels[chosen]
    found = dict(known or {})
    todo = [number for number in range(len(architectures)) if number not in found]
    numbers = iter(todo)

    def take(value: float) -> None:
        number = next(numbers)
        found[number] = value
        record(number, value)

    training = calibration(data.images)
    new = [architectures[number] for number in todo]
    crew.each(_accuracy, new, take, supernet, training, images, labels)
    return [found[number] for number in range(len(architectures))]


def held_out(data: Images, limit: int | None) -> Tensor | slice:
    """Return which held-out images are used: of each class as many of its share as possible.

    Files of images are often in the order of their classes, and the first ones of one class.
    """
    count = len(data.held_out_labels)
    if limit is None or limit >= count:
        return slice(None)
    by_class = data.held_out_labels.argsort(stable=True)
    middles = (2 * torch.arange(limit) + 1) * count // (2 * limit)
    return by_class[middles].sort().values


def limit_counts(data: Images, limit: int | None) -> list[Shortfall]:
    """Count the images, and the classes that have any, if only `limit` images are to be used."""
    if limit is None:
        return []
    labels = data.held_out_labels
    used = labels[held_out(data, limit)]
    classes, seen = (len(set(own.tolist())) for own in (labels, used))
    return [
        Shortfall("limit", limit, len(used), "images are held out"),
        Shortfall(f"held-out classes of {data.name}", classes, seen, f"have one of {limit} images"),
    ]


def calibration(images: Tensor) -> Tensor:
    """As many training images, from all over, as batch norms need."""
    return images[:: max(1, len(images) // CALIBRATION)][:CALIBRATION]


def batch_norms(network: nn.Module) -> list[BatchNorm]:
    """The modules that know means and variances of images."""
    return [module for module in network.modules() if isinstance(module, BatchNorm)]


@torch.no_grad()
def calibrated(network: TransformerNetwork, images: Tensor) -> TransformerNetwork:
    """A subnet in evaluation mode, its batch norms those of `calibration` images if it has any.

    As in Yu et al., "BigNAS", ECCV 2020: what was averaged in training was of many subnets.
    """
    norms = batch_norms(network)
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches
    if norms:
        network.train()
        for some in torch.split(images, CALIBRATION_BATCH):
            network(normalise(some).to(network.device))
    network.eval()
    return network


def _accuracy(
    supernet: Supernet, training: Tensor, images: Tensor, labels: Tensor, architecture: Architecture
) -> float:
    return accuracy(calibrated(supernet.subnet(architecture), training), images, labels)


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
        "format": TABLE_FORMAT,
        "name": name,
        "space": supernet.space.name,
        "datasets": {data.name: {"classes": data.classes}},
        "training": dict(training),
        "architectures": [
            {"arch": arch.to_json()["choices"], "scores": {data.name: round(score, 4)}}
            for arch, score in pairs
        ],
    }
