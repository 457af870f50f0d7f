"""The batch of images that the networks see: a real one from the user's files, or seeded noise."""

from collections.abc import Sequence
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from autoprox.errors import nearest
from autoprox.inputs.batch import Batch, InputError
from autoprox.inputs.classes import CLASSES
from autoprox.inputs.layouts import Labels, find_layout

MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)  # of ImageNet's channels
STD = np.array([0.229, 0.224, 0.225], dtype=np.float32)


def load_batch(
    dataset: str,
    shape: Sequence[int],
    batch_size: int,
    seed: int,
    images: Path | None = None,
    classes: int | None = None,
) -> Batch:
    """A batch for a dataset: from its images at a path, or noise if there is none.

    Noise is the same for every dataset of one seed; only the labels depend on the class count.
    Images are chosen by the seed, spread over the classes as evenly as there are images; where
    there are fewer than `batch_size`, all of them are the batch.
    """
    if batch_size < 1 or seed < 0:
        got = f"(batch_size={batch_size}, seed={seed})"
        raise InputError(f"`batch_size >= 1` and `seed >= 0` must hold, but got {got}")
    if classes is None and dataset not in CLASSES:
        raise InputError(f"unknown dataset {dataset!r}{nearest(dataset, CLASSES)}")
    classes = CLASSES[dataset] if classes is None else classes
    rng = np.random.default_rng(seed)
    if images is None:
        noise = rng.standard_normal((batch_size, *shape), dtype=np.float32)
        labels = torch.from_numpy(rng.integers(classes, size=batch_size))
        return Batch(torch.from_numpy(noise), labels, classes, "gaussian noise")
    layout = find_layout(images, dataset)
    found = layout.read(images)
    _check_labels(found.labels, images, dataset, classes)
    chosen = _spread(found.labels, batch_size, rng)
    pixels = torch.from_numpy(np.stack([_pixels(found.open(i), shape) for i in chosen]))
    labels = torch.from_numpy(found.labels[chosen])
    return Batch(pixels, labels, classes, f"{layout.name}: {images}")


def images_of(images: Path, datasets: Sequence[str]) -> dict[str, Path]:
    """The folder or .npz file of each dataset below `images`; one alone may be `images` itself."""
    paths = {}
    for dataset in datasets:
        below = (images / dataset, images / f"{dataset}.npz")
        paths[dataset] = next((path for path in below if path.exists()), images)
        if paths[dataset] == images and len(datasets) > 1:
            rule = f"{images} must have a folder for each dataset, {', '.join(datasets)}"
            raise InputError(f"{rule}, but has no {dataset}")
    return paths


def _check_labels(labels: Labels, path: Path, dataset: str, classes: int) -> None:
    if not len(labels):
        raise InputError(f"{path} must have images, but has none")
    low, high = labels.min(), labels.max()
    if low < 0 or high >= classes:
        rule = f"the labels of {dataset} must be from 0 to {classes - 1}"
        raise InputError(f"{path}: {rule}, but go from {low} to {high}")
    if low == high:
        raise InputError(f"{path} must have images of at least two classes, but all are of {low}")


def _spread(labels: Labels, size: int, rng: np.random.Generator) -> list[int]:
    """Take one image of each class in turn, classes and images in random order."""
    queues: dict[int, list[int]] = {label: [] for label in rng.permutation(np.unique(labels))}
    for i in rng.permutation(len(labels)):
        queues[labels[i]].append(int(i))
    turns = chain.from_iterable(zip_longest(*queues.values()))
    return [i for i in turns if i is not None][:size]


def _pixels(image: Image.Image, shape: Sequence[int]) -> NDArray[np.float32]:
    _, height, width = shape
    resized = image.convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
    scaled = np.asarray(resized, dtype=np.float32) / np.float32(255)
    normalised: NDArray[np.float32] = (scaled - MEAN) / STD
    return normalised.transpose(2, 0, 1)
