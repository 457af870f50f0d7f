"""The accuracies of subnets with the weights that they inherit from a supernet."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm

from autoprox.benchmarks.user_table import TABLE_FORMAT
from autoprox.inputs.training_datasets import ImageDataset
from autoprox.oneshot.supernet.shared_weights import Supernet
from autoprox.parallel.worker_pool import SINGLE_WORKER, WorkerPool
from autoprox.searchspaces import Architecture, TransformerNetwork
from autoprox.shortfalls import Shortfall
from autoprox.training.recipes import accuracy, normalise_images

CALIBRATION, CALIBRATION_BATCH = 1024, 128  # images


def inherited_accuracies(
    supernet: Supernet,
    data: ImageDataset,
    architectures: Sequence[Architecture],
    *,
    limit: int | None = None,
    pool: WorkerPool = SINGLE_WORKER,
    known: Mapping[int, float] | None = None,
    record: Callable[[int, float], None] = lambda number, found: None,
) -> list[float]:
    """Return each subnet's accuracy in percent, on at most `limit` held-out images.

    `known` has accuracies by the index of the architecture; the others are measured, and recorded
    in their order.
    """
    chosen = held_out_indices(data, limit)
    images, labels = data.held_out_images[chosen], data.held_out_labels[chosen]
    accuracies = dict(known or {})
    todo = [index for index in range(len(architectures)) if index not in accuracies]
    indices = iter(todo)

    def take(value: float) -> None:
        index = next(indices)
        accuracies[index] = value
        record(index, value)

    new = [architectures[index] for index in todo]
    pool.each(_accuracy, new, take, supernet, calibration_images(data.images), images, labels)
    return [accuracies[index] for index in range(len(architectures))]


def _accuracy(
    supernet: Supernet, training: Tensor, images: Tensor, labels: Tensor, architecture: Architecture
) -> float:
    return accuracy(calibrate_batch_norms(supernet.subnet(architecture), training), images, labels)


def held_out_indices(data: ImageDataset, limit: int | None) -> Tensor | slice:
    """Return which held-out images are used, at most `limit`: of each class its share.

    Files of images are often sorted by class, so the first ones may be of one class.
    """
    count = len(data.held_out_labels)
    if limit is None or limit >= count:
        return slice(None)
    by_class = data.held_out_labels.argsort(stable=True)
    middles = (2 * torch.arange(limit) + 1) * count // (2 * limit)
    return by_class[middles].sort().values


def held_out_shortfalls(data: ImageDataset, limit: int | None) -> list[Shortfall]:
    """Count the images, and the classes that have any, if only `limit` images are to be used."""
    if limit is None:
        return []
    labels = data.held_out_labels
    used = labels[held_out_indices(data, limit)]
    classes, seen = len(set(labels.tolist())), len(set(used.tolist()))
    return [
        Shortfall("limit", limit, len(used), "images are held out"),
        Shortfall(f"held-out classes of {data.name}", classes, seen, f"have one of {limit} images"),
    ]


def calibration_images(images: Tensor) -> Tensor:
    """Return the training images for batch norms, evenly spaced."""
    return images[:: max(1, len(images) // CALIBRATION)][:CALIBRATION]


def batch_norms(network: nn.Module) -> list[BatchNorm]:
    """Return the modules that keep means and variances of images."""
    return [module for module in network.modules() if isinstance(module, BatchNorm)]


@torch.no_grad()
def calibrate_batch_norms(network: TransformerNetwork, images: Tensor) -> TransformerNetwork:
    """Return a subnet in evaluation mode, its batch norms, if any, measured on these images.

    As in Yu et al., "BigNAS", ECCV 2020: the averages of the training are of many subnets.
    """
    norms = batch_norms(network)
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches
    if norms:
        network.train()
        for some in torch.split(images, CALIBRATION_BATCH):
            network(normalise_images(some).to(network.device))
    network.eval()
    return network


def inherited_table(
    name: str,
    supernet: Supernet,
    data: ImageDataset,
    architectures: Sequence[Architecture],
    accuracies: Sequence[float],
    training: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the accuracies as the table of a benchmark."""
    return {
        "format": TABLE_FORMAT,
        "name": name,
        "space": supernet.space.name,
        "datasets": {data.name: {"classes": data.classes}},
        "training": dict(training),
        "architectures": [
            {"arch": arch.to_json()["choices"], "scores": {data.name: round(score, 4)}}
            for arch, score in zip(architectures, accuracies, strict=True)
        ],
    }
