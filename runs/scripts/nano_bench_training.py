"""Trains the architectures of the nano tables, training by training.

    python runs/scripts/nano_bench_training.py DATA [--workers 2] [--pids FILE]

DATA is what nano_bench_data.py wrote. For each finished training a line is appended to
runs/nano-bench/parts/SPACE.jsonl; a training whose line is there isn't repeated, so a stopped run
goes on where it was, on another machine too. The architectures are drawn once, into
runs/nano-bench/architectures/SPACE.json.
"""

import argparse
import hashlib
import json
import math
import multiprocessing
import os
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.searchspaces import Architecture, SearchSpace, get_space

FOLDER = Path(__file__).resolve().parents[1] / "nano-bench"
CLASSES = 10  # of both image datasets
DRAWS = 1_000_000
EVALUATION_BATCH = 500
SEED_ROUNDS = ((0, 1), (2,), (3,))
FIRST = 64  # architectures that are trained on both datasets before any of the others

Bands = Sequence[tuple[float, float]]
Batch = tuple[Tensor, Tensor]  # what goes in, and the class or the next token of each


@dataclass(frozen=True)
class Recipe:
    """How every network of a table is trained: by AdamW.

    The learning rate rises linearly, stays, and falls linearly to nothing at the end: it stays so
    long because deep networks, slow at first, would otherwise be ranked by how they begin.
    """

    steps: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.05
    warmup: float = 0.05  # of all steps
    decay: float = 0.25  # of all steps
    clip: float = 1.0  # the greatest norm of the gradient
    average: float = 0.05  # of all steps, the last: the scored weights are their mean
    length: int = 0  # of the sequences of a text
    held_out: int = 10_000  # images or sequences to score

    def factor(self, step: int) -> float:
        """What the learning rate is multiplied by at a step."""
        warm = (step + 1) / (self.warmup * self.steps)
        return min(1, warm, (self.steps - step) / (self.decay * self.steps))


@dataclass(frozen=True)
class Plan:
    """A table: which architectures, on which datasets, by which recipe."""

    space: str
    low: float  # of the number of parameters
    high: float
    datasets: tuple[str, ...]
    recipe: Recipe
    bands: int = 8
    count: int = 128


IMAGE_SETS, TEXTS = ("cifar10", "fashion-mnist"), ("python-sources", "english-docs")
PLAIN = Recipe(steps=2400, batch_size=32, learning_rate=4e-3)
PYRAMID = Recipe(steps=1800, batch_size=32, learning_rate=4e-3)
TEXT = Recipe(steps=1000, batch_size=16, learning_rate=5e-3, length=64, held_out=2000)
PLANS = (
    Plan("autoformer-nano", 12e3, 48e3, IMAGE_SETS, PLAIN),
    Plan("pit-nano", 12e3, 48e3, IMAGE_SETS, PYRAMID),
    Plan("gpt2-nano", 25e3, 100e3, TEXTS, TEXT),
)


@dataclass(frozen=True)
class Job:
    """One training: an architecture on a dataset, with a seed."""

    plan: Plan
    dataset: str
    seed: int
    arch: Architecture
    recipe_hash: str

    @property
    def key(self) -> str:
        """What tells this training from all others."""
        return f"{self.recipe_hash} {self.dataset} {self.seed} {self.arch.digest}"


class Images:
    """Images, normalised by those to train on."""

    def __init__(self, path: Path) -> None:
        self.inputs, self.labels = _read_images(path)
        self.held_out = _read_images(path.with_suffix(".test.npz"))
        mean = self.inputs.mean((0, 2, 3), keepdim=True)
        deviation = self.inputs.std((0, 2, 3), keepdim=True)
        for images in (self.inputs, self.held_out[0]):
            images.sub_(mean).div_(deviation)

    def batches(self, recipe: Recipe, generator: torch.Generator) -> Iterator[Batch]:
        """Batches without end: every image once before any comes again."""
        while True:
            order = torch.randperm(len(self.labels), generator=generator)
            for chosen in torch.split(order, recipe.batch_size):
                if len(chosen) == recipe.batch_size:
                    yield self.inputs[chosen], self.labels[chosen]

    def held_out_batches(self, recipe: Recipe) -> Iterable[Batch]:
        """The first of the held-out images."""
        inputs, labels = (part[: recipe.held_out] for part in self.held_out)
        pairs = (torch.split(part, EVALUATION_BATCH) for part in (inputs, labels))
        return zip(*pairs, strict=True)


class Text:
    """The bytes of a text, the last fifth held out."""

    def __init__(self, path: Path) -> None:
        tokens = torch.from_numpy(np.frombuffer(path.read_bytes(), dtype=np.uint8).astype(np.int64))
        held_out = len(tokens) // 5
        self.tokens, self.held_out = tokens[:-held_out], tokens[-held_out:]

    def batches(self, recipe: Recipe, generator: torch.Generator) -> Iterator[Batch]:
        """Batches without end, of sequences that begin anywhere."""
        count = len(self.tokens) - recipe.length
        while True:
            begins = torch.randint(count, (recipe.batch_size,), generator=generator)
            yield _windows(self.tokens, begins, recipe.length)

    def held_out_batches(self, recipe: Recipe) -> Iterator[Batch]:
        """Sequences that begin at equal distances in the held-out part."""
        last = len(self.held_out) - recipe.length - 1
        begins = torch.linspace(0, last, recipe.held_out, dtype=torch.float64).long()
        parts = torch.split(begins, EVALUATION_BATCH)
        return (_windows(self.held_out, part, recipe.length) for part in parts)


def _read_images(path: Path) -> tuple[Tensor, Tensor]:
    with np.load(path) as content:
        images = torch.from_numpy(content["images"]).permute(0, 3, 1, 2).float()
        return images.contiguous(), torch.from_numpy(content["labels"])


def _windows(tokens: Tensor, begins: Tensor, length: int) -> Batch:
    windows = tokens[begins[:, None] + torch.arange(length + 1)]
    return windows[:, :-1], windows[:, 1:]


@lru_cache(maxsize=4)
def load(data: Path, dataset: str) -> Images | Text:
    """A dataset, read once in each process."""
    text = data / f"{dataset}.txt"
    return Text(text) if text.exists() else Images(data / f"{dataset}.npz")


def size_bands(low: float, high: float, count: int) -> Bands:
    """So many bands of numbers of parameters, of equal width in their logarithm."""
    edges = [low * (high / low) ** (i / count) for i in range(count + 1)]
    return list(pairwise(edges))


def sample_bands(
    space: SearchSpace, bands: Bands, count: int, rng: random.Random
) -> list[Architecture]:
    """Different architectures, as many from each band of sizes, in turn from each.

    Within a band they are as the space's own sampling gives them. The bands must follow one
    another, and `count` be a multiple of their number.
    """
    each = count // len(bands)
    found: list[dict[Architecture, None]] = [{} for _ in bands]
    for _ in range(DRAWS):
        arch = space.sample(rng)
        params = space.params(arch, CLASSES)
        band = next((i for i, (low, high) in enumerate(bands) if low <= params < high), None)
        if band is not None and len(found[band]) < each:
            found[band][arch] = None
        if all(len(own) == each for own in found):
            return [arch for row in zip(*found, strict=True) for arch in row]
    raise ValueError(f"{space.name} has too few architectures in some of the bands {bands}")


def architectures(plan: Plan) -> list[Architecture]:
    """Those of the table, drawn if they haven't been."""
    space, path = get_space(plan.space), FOLDER / "architectures" / f"{plan.space}.json"
    if not path.exists():
        bands = size_bands(plan.low, plan.high, plan.bands)
        drawn = sample_bands(space, bands, plan.count, random.Random(0))
        write(path, [arch.to_json()["choices"] for arch in drawn])
    return [space.architecture(choices) for choices in json.loads(path.read_text())]


def beginning(plan: Plan) -> float:
    """What changes with the rule by which the networks of a space begin: a sum of weights."""
    network = get_space(plan.space).build(architectures(plan)[0], CLASSES)
    return round(sum(p.abs().sum(dtype=torch.float64).item() for p in network.parameters()), 2)


def train(network: nn.Module, recipe: Recipe, batches: Iterator[Batch]) -> float:
    """Train in place to the mean of the last weights; returns the mean of the last losses."""
    parameters = list(network.parameters())
    rate, decay = recipe.learning_rate, recipe.weight_decay
    optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=decay, fused=True)
    last = max(1, round(recipe.average * recipe.steps))
    sums, losses = [torch.zeros_like(p) for p in parameters], 0.0
    for step, batch in zip(range(recipe.steps), batches, strict=False):
        for group in optimizer.param_groups:
            group["lr"] = rate * recipe.factor(step)
        loss = cross_entropy(network, batch)
        network.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(parameters, recipe.clip)
        optimizer.step()
        if step >= recipe.steps - last:
            torch._foreach_add_(sums, [p.detach() for p in parameters])
            losses += loss.item()
    with torch.no_grad():
        for parameter, total in zip(parameters, sums, strict=True):
            parameter.copy_(total / last)
    return losses / last


def cross_entropy(network: nn.Module, batch: Batch) -> Tensor:
    """The mean over a batch, for images or for the next tokens."""
    inputs, labels = batch
    return functional.cross_entropy(network(inputs).flatten(0, -2), labels.flatten())


@torch.no_grad()
def score(network: nn.Module, batches: Iterable[Batch], text: bool) -> dict[str, float]:
    """What a trained network is worth on what was held out."""
    total, right, count = 0.0, 0, 0
    for inputs, labels in batches:
        logits, expected = network(inputs).flatten(0, -2), labels.flatten()
        total += functional.cross_entropy(logits, expected, reduction="sum").item()
        right += int((logits.argmax(1) == expected).sum())
        count += len(expected)
    scores = {"cross_entropy": total / count, "accuracy": 100 * right / count}
    return {**scores, "perplexity": math.exp(total / count)} if text else scores


def run(job: Job, data: Path) -> dict[str, Any]:
    """Train and score one network."""
    space, recipe, content = get_space(job.plan.space), job.plan.recipe, load(data, job.dataset)
    begin = time.process_time()
    network = space.build(job.arch, CLASSES, job.seed)
    generator = torch.Generator().manual_seed(job.seed)
    loss = train(network, recipe, content.batches(recipe, generator))
    scores = score(network, content.held_out_batches(recipe), isinstance(content, Text))
    return {
        "dataset": job.dataset,
        "seed": job.seed,
        "arch": job.arch.to_json()["choices"],
        "params": space.params(job.arch, CLASSES),
        "flops": space.flops(job.arch, CLASSES),
        "train_loss": round(loss, 6),
        **{name: round(value, 6) for name, value in scores.items()},
        "seconds": round(time.process_time() - begin, 2),
        "recipe": job.recipe_hash,
        "key": job.key,
    }


def plan_jobs(recipe_hashes: dict[str, str]) -> list[Job]:
    """All trainings in their order: of each architecture two seeds, the spaces by turns."""
    most = max(plan.count for plan in PLANS)
    drawn = {plan: architectures(plan) for plan in PLANS}
    return [
        Job(plan, plan.datasets[dataset], seed, drawn[plan][index], recipe_hashes[plan.space])
        for seeds in SEED_ROUNDS
        for indices in (range(FIRST), range(FIRST, most))
        for dataset in range(2)
        for index in indices
        for plan in PLANS
        if index < plan.count
        for seed in seeds
    ]


def finished(folder: Path) -> set[str]:
    """The keys of the trainings that are done; a line cut off by a kill doesn't count."""
    keys = set()
    for path in folder.glob("*.jsonl"):
        content = path.read_bytes()
        if content and not content.endswith(b"\n"):
            append(path, b"\n")
        for line in content.splitlines():
            try:
                keys.add(json.loads(line)["key"])
            except (json.JSONDecodeError, KeyError):
                continue
    return keys


def append(path: Path, content: bytes) -> None:
    """Add to the end of a file in one write, so that processes don't mix their lines."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(descriptor, content)
    finally:
        os.close(descriptor)


def write(path: Path, content: Any) -> None:
    """Write JSON, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(content, indent=1) + "\n")
    partial.replace(path)


def recipes(data: Path) -> dict[str, str]:
    """Write recipe.json; returns for each space the hash of all that its numbers depend on."""
    names = sorted({dataset for plan in PLANS for dataset in plan.datasets})
    files = {name: sorted(data.glob(f"{name}.*")) for name in names}
    digests = {n: {f.name: _digest(f.read_bytes()) for f in own} for n, own in files.items()}
    hashes = {}
    for plan in PLANS:
        used = [digests[name] for name in plan.datasets]
        parts = [plan.space, asdict(plan.recipe), used, beginning(plan)]
        hashes[plan.space] = _digest(json.dumps(parts).encode())[:12]
    plans = [{**asdict(plan), "recipe_hash": hashes[plan.space]} for plan in PLANS]
    packages = json.loads((FOLDER / "packages.json").read_text())
    versions = {"torch": torch.__version__, "numpy": np.__version__}
    content = {"plans": plans, "sha256": digests, "packages": packages, "versions": versions}
    write(FOLDER / "recipe.json", content)
    return hashes


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def work(jobs: Sequence[Job], data: Path, folder: Path) -> None:
    """Do one training after the other."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    for job in jobs:
        line = json.dumps(run(job, data)) + "\n"
        append(folder / f"{job.plan.space}.jsonl", line.encode())


def main() -> None:
    """Share what is to be done among the workers, and wait for them."""
    parser = argparse.ArgumentParser(description="Train the architectures of the nano tables.")
    parser.add_argument("data", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--pids", type=Path, help="where to write the workers' process ids")
    options = parser.parse_args()
    folder = FOLDER / "parts"
    folder.mkdir(exist_ok=True)
    jobs = plan_jobs(recipes(options.data))
    done = finished(folder)
    todo = [job for job in jobs if job.key not in done]
    print(f"{len(todo)} of {len(jobs)} trainings to do", flush=True)
    context = multiprocessing.get_context("spawn")
    workers = [
        context.Process(target=work, args=(todo[i :: options.workers], options.data, folder))
        for i in range(options.workers)
    ]
    for worker in workers:
        worker.start()
    if options.pids:
        options.pids.write_text("".join(f"{worker.pid}\n" for worker in workers))
    for worker in workers:
        worker.join()
    if any(worker.exitcode for worker in workers):
        raise SystemExit("a worker was ended; start again to go on")


if __name__ == "__main__":
    main()
