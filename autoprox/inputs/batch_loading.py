"""Loads the mini-batches that networks of a space see: images or tokens, real or random."""

from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from autoprox.errors import nearest
from autoprox.inputs.batch import IGNORED_LABEL, Batch, InputError
from autoprox.inputs.dataset_class_counts import DATASET_CLASSES
from autoprox.inputs.image_dataset_files import Labels, detect_image_layout
from autoprox.models.model_loading import TokenInput
from autoprox.searchspaces import SearchSpace
from autoprox.searchspaces.language_model_bases import TokenSpace
from autoprox.shortfalls import Shortfall

IMAGENET_MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
IMAGENET_STD = np.array([0.229, 0.224, 0.225], dtype=np.float32)
DEFAULT_LENGTH = 64  # of sequences: gradients need no more
BYTES = 256
MAX_TEXT_BYTES = 2**28  # of a file, whose tokens take eight times as much
MASKED_SHARE = 0.15  # of the tokens that a masked language model must predict, as BERT's

Tokens = NDArray[np.int64]
TokenReader: TypeAlias = TokenSpace | TokenInput


def load_batches(
    space: SearchSpace,
    classes: Mapping[str, int],
    *,
    batch_size: int,
    seed: int,
    images: Path | None = None,
    text: Path | None = None,
    length: int | None = None,
) -> dict[str, Batch]:
    """Load a batch for each dataset: real images or text if a path is given, else noise.

    Language models see the same tokens for every dataset.
    """
    if isinstance(space, TokenSpace):
        _refuse(space, "tokens", images=images)
        tokens = min(DEFAULT_LENGTH, space.context) if length is None else length
        return dict.fromkeys(classes, load_token_batch(space, batch_size, tokens, seed, text))
    _refuse(space, "images", text=text, length=length)
    paths = dataset_paths(images, list(classes)) if images else {}
    return {
        name: load_image_batch(name, space.input_shape, batch_size, seed, paths.get(name), count)
        for name, count in classes.items()
    }


def _refuse(space: SearchSpace, kind: str, **options: object) -> None:
    for name, value in options.items():
        if value is not None:
            raise InputError(f"{space.name} takes {kind}, which {name} {value} is not for")


def batch_shortfalls(asked: int, batches: Mapping[str, Batch]) -> list[Shortfall]:
    """Compare the samples of batches with the number asked for, once for each source."""
    sizes = {batch.source: len(batch.inputs) for batch in batches.values()}
    return [
        Shortfall("batch_size", asked, used, f"is all that {source} has")
        for source, used in sizes.items()
    ]


def dataset_paths(images: Path, datasets: Sequence[str]) -> dict[str, Path]:
    """Return the folder or .npz file of each dataset below `images`, or `images` for one alone."""
    paths = {}
    for dataset in datasets:
        below = (images / dataset, images / f"{dataset}.npz")
        paths[dataset] = next((path for path in below if path.exists()), images)
        if paths[dataset] == images and len(datasets) > 1:
            rule = f"{images} must have a folder for each dataset, {', '.join(datasets)}"
            raise InputError(f"{rule}, but has no {dataset}")
    return paths


def load_image_batch(
    dataset: str,
    shape: Sequence[int],
    batch_size: int,
    seed: int,
    images: Path | None = None,
    classes: int | None = None,
) -> Batch:
    """Load a batch of a dataset's images at a path, or of noise if there is none.

    Noise is the same for every dataset of one seed; only the labels depend on the class count.
    Images are drawn by the seed, spread over the classes as evenly as possible; if there are fewer
    than `batch_size`, all of them are the batch.
    """
    if batch_size < 1 or seed < 0:
        got = f"(batch_size={batch_size}, seed={seed})"
        raise InputError(f"`batch_size >= 1` and `seed >= 0` must hold, but got {got}")
    if classes is None and dataset not in DATASET_CLASSES:
        raise InputError(f"unknown dataset {dataset!r}{nearest(dataset, DATASET_CLASSES)}")
    classes = DATASET_CLASSES[dataset] if classes is None else classes
    rng = np.random.default_rng(seed)
    if images is None:
        noise = rng.standard_normal((batch_size, *shape), dtype=np.float32)
        labels = torch.from_numpy(rng.integers(classes, size=batch_size))
        return Batch(torch.from_numpy(noise), labels, classes, "gaussian noise")
    layout = detect_image_layout(images, dataset)
    image_set = layout.read(images)
    if not len(image_set.labels):
        raise InputError(f"{images} must have images, but has none")
    low, high = image_set.labels.min(), image_set.labels.max()
    if low < 0 or high >= classes:
        rule = f"the labels of {dataset} must be from 0 to {classes - 1}"
        raise InputError(f"{images}: {rule}, but go from {low} to {high}")
    if low == high:
        raise InputError(f"{images} must have images of at least two classes, but all are of {low}")
    chosen = _spread(image_set.labels, batch_size, rng)
    pixels = torch.from_numpy(np.stack([_pixels(image_set.open(i), shape) for i in chosen]))
    labels = torch.from_numpy(image_set.labels[chosen])
    return Batch(pixels, labels, classes, f"{layout.name}: {images}")


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
    normalised: NDArray[np.float32] = (scaled - IMAGENET_MEAN) / IMAGENET_STD
    return normalised.transpose(2, 0, 1)


def load_token_batch(
    space: TokenReader, batch_size: int, length: int, seed: int, text: Path | None = None
) -> Batch:
    """Load sequences with the tokens to predict, of a text file or random.

    A causal model predicts every next token, a masked one those that are hidden by the space's mask
    token, at least one in each sequence. Random tokens are uniform over the vocabulary; a text's
    sequences are drawn by the seed from its consecutive pieces, and if there are fewer than
    `batch_size`, all of them are the batch.
    """
    if batch_size < 1 or seed < 0 or length < 2:
        got = f"(batch_size={batch_size}, seed={seed}, length={length})"
        rule = "`batch_size >= 1`, `seed >= 0` and `length >= 2` must hold"
        raise InputError(f"{rule}, but got {got}")
    if length > space.context:
        rule = f"length must be at most the context of {space.name}, {space.context}"
        raise InputError(f"{rule}, but got {length}")
    rng = np.random.default_rng(seed)
    needed = length + (space.objective == "causal")
    if text is None:
        tokens, source = rng.integers(space.vocabulary, size=(batch_size, needed)), "random tokens"
    else:
        content, source = read_byte_tokens(text, space), f"bytes: {text}"
        available = len(content) // needed
        if not available:
            rule = f"must have at least {needed} bytes for a sequence"
            raise InputError(f"{text} {rule}, but has {len(content)}")
        pieces = content[: available * needed].reshape(available, needed)
        tokens = pieces[rng.permutation(available)[:batch_size]]
    inputs, labels = tokens[:, :length], tokens[:, 1:]
    if space.mask is not None:
        hidden = rng.random(tokens.shape) < MASKED_SHARE
        hidden[np.arange(len(tokens)), rng.integers(tokens.shape[1], size=len(tokens))] = True
        inputs = np.where(hidden, space.mask, tokens)
        labels = np.where(hidden, tokens, IGNORED_LABEL)
    inputs, labels = np.ascontiguousarray(inputs), np.ascontiguousarray(labels)
    return Batch(torch.from_numpy(inputs), torch.from_numpy(labels), space.vocabulary, source)


def read_byte_tokens(text: Path, space: TokenReader) -> Tokens:
    """Read a text's bytes as tokens from 0 on, or after a mask token below 256."""
    try:
        if text.exists() and (not text.is_file() or text.stat().st_size > MAX_TEXT_BYTES):
            raise OSError(None, f"no file of at most {MAX_TEXT_BYTES} bytes")
        content = np.frombuffer(text.read_bytes(), dtype=np.uint8)
    except OSError as error:
        rule = f"{text} must be a readable text file"
        raise InputError(f"{rule}, but got: {error.strerror}") from error
    first = 0 if space.mask is None or space.mask >= BYTES else space.mask + 1
    if space.vocabulary < first + BYTES:
        rule = f"a text needs a vocabulary of at least {first + BYTES} tokens"
        raise InputError(f"{rule}, but {space.name} has {space.vocabulary}")
    return content.astype(np.int64) + first
