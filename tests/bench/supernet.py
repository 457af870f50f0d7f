"""What training by slices costs: steps, memory, extraction.

    python tests/bench/supernet.py [--space autoformer-nano] [--batch 64] [--repeats 20]

A sandwich step is compared to the bare steps of its four subnets, plain networks of their own with
an optimizer each; both alternate, and the medians count. Memory is the peak of a process that does
nothing else, above what it had before the first step. Ratios and times must stay below the limits.
"""

import argparse
import multiprocessing
import random
import resource
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from autoprox.inputs.training_datasets import ImageDataset
from autoprox.oneshot.supernet.inherited_accuracy import inherited_accuracies
from autoprox.oneshot.supernet.shared_weights import Supernet
from autoprox.oneshot.supernet.training import SupernetRecipe, SupernetTraining
from autoprox.searchspaces import Architecture, get_space

CLASSES = 10
SANDWICH, MEMORY, SECONDS = 1.15, 1.2, 300
EVALUATED, HELD_OUT = 1000, 500


def noise(space: str, count: int, held_out: int = 2) -> ImageDataset:
    """Images of a space, made up."""
    _, height, width = get_space(space).input_shape
    generator = torch.Generator().manual_seed(0)
    parts: list[Tensor] = []
    for number in (count, held_out):
        size = (number, height, width, 3)
        parts.append(torch.randint(256, size, generator=generator, dtype=torch.uint8))
        parts.append(torch.randint(CLASSES, (number,), generator=generator))
    return ImageDataset("noise", CLASSES, *parts)


def recipe(batch: int) -> SupernetRecipe:
    """Without what bare steps haven't either."""
    return SupernetRecipe(batch_size=batch, drop_path=0.0)


def bare_step(space: str, arch: Architecture, data: ImageDataset, batch: int) -> Callable[[], None]:
    """A step of a network of its own."""
    network = get_space(space).build(arch, CLASSES).train()
    optimizer = torch.optim.AdamW(network.parameters(), fused=True)
    generator, how = torch.Generator().manual_seed(0), recipe(batch)

    def step() -> None:
        images, labels = how.prepare(data, torch.arange(batch), generator)
        loss = functional.cross_entropy(network(images), labels, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def timed(call: Callable[[], object]) -> float:
    """The seconds of this process that a call takes."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


def sandwich_ratio(name: str, batch: int, repeats: int) -> float:
    """A sandwich step of training, by the sum of the bare steps of the same subnets."""
    space, data = get_space(name), noise(name, batch)
    training = SupernetTraining(Supernet(space, CLASSES), data, recipe(batch), "sandwich")
    ratios = []
    for number in range(repeats + 2):
        rng = random.Random(f"0 {number}")  # as the training draws
        drawn = [space.largest(), space.smallest(), space.sample(rng), space.sample(rng)]
        steps = [bare_step(name, arch, data, batch) for arch in drawn]
        for step in steps:
            step()
        bare = sum(map(timed, steps))
        ratios.append(timed(training.train_epoch) / bare)
    return statistics.median(ratios[2:])


def growth(supernet: bool, name: str, batch: int) -> int:
    """By how much the peak of memory grows in steps of the largest network, or of a sandwich."""
    data, space = noise(name, batch), get_space(name)
    bare_step(name, space.smallest(), data, batch)()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if supernet:
        training = SupernetTraining(Supernet(space, CLASSES), data, recipe(batch), "sandwich")
        for _ in range(4):
            training.train_epoch()
    else:
        step = bare_step(name, space.largest(), data, batch)
        for _ in range(4):
            step()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before


def evaluation_seconds(name: str) -> float:
    """For as many subnets as the limit is of, their accuracies on held-out images."""
    space, data, rng = get_space(name), noise(name, 2, HELD_OUT), random.Random(0)
    supernet = Supernet(space, CLASSES)
    architectures = [space.sample(rng) for _ in range(EVALUATED)]
    return timed(lambda: inherited_accuracies(supernet, data, architectures))


def extraction_seconds(name: str) -> float:
    """To take the same subnets out."""
    space, rng = get_space(name), random.Random(0)
    supernet = Supernet(space, CLASSES)
    architectures = [space.sample(rng) for _ in range(EVALUATED)]
    return timed(lambda: [supernet.extract(arch) for arch in architectures])


def main() -> None:
    """Print a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--space", default="autoformer-nano")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=20)
    given = parser.parse_args()
    torch.set_num_threads(1)
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        alone, together = (
            pool.apply(growth, (supernet, given.space, given.batch)) for supernet in (False, True)
        )
    print(f"memory by the largest alone  {together / alone:.2f}  (at most {MEMORY})")
    ratio = sandwich_ratio(given.space, given.batch, given.repeats)
    print(f"sandwich by bare steps       {ratio:.2f}  (at most {SANDWICH})")
    extracted, evaluated = extraction_seconds(given.space), evaluation_seconds(given.space)
    limit = f"(together at most {SECONDS})"
    print(f"extract {EVALUATED} subnets         {extracted:.0f} s")
    print(f"evaluate them on {HELD_OUT} images  {evaluated:.0f} s  {limit}")


if __name__ == "__main__":
    main()
