"""What subnets are worth with the weights that they inherit."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm

from autoprox.benchmarks.table import FORMAT
from autoprox.inputs.datasets import Images
from autoprox.parallel.threads import run_threads
from autoprox.searchspaces import Architecture, TransformerNetwork
from autoprox.supernet.slices import Supernet
from autoprox.training.images import accuracy, normalise

CALIBRATION, CALIBRATION_BATCH = 1024, 128  # images


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
    """The percentages of the first held-out images that each subnet knows; records new ones."""
    images, labels = data.held_out_images[:limit], data.held_out_labels[:limit]
    found, lock = dict(known or {}), Lock()

    def evaluate(number: int) -> None:
        network = supernet.subnet(architectures[number])
        value = accuracy(calibrated(network, data.images), images, labels)
        with lock:
            found[number] = value
            record(number, value)

    todo = (number for number in range(len(architectures)) if number not in found)
    run_threads(workers, (partial(evaluate, number) for number in todo))
    return [found[number] for number in range(len(architectures))]


def batch_norms(network: nn.Module) -> list[BatchNorm]:
    """The modules that know means and variances of images."""
    return [module for module in network.modules() if isinstance(module, BatchNorm)]


@torch.no_grad()
def calibrated(network: TransformerNetwork, images: Tensor) -> TransformerNetwork:
    """A subnet in evaluation mode, its batch norms those of some training images if it has any.

    As in Yu et al., "BigNAS", ECCV 2020: what was averaged in training was of many subnets.
    """
    norms = batch_norms(network)
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over all batches
    if norms:
        network.train()
        spread = images[:: max(1, len(images) // CALIBRATION)]
        for some in torch.split(spread[:CALIBRATION], CALIBRATION_BATCH):
            network(normalise(some).to(network.device))
    network.eval()
    return network


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
