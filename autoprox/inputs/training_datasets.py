"""Datasets to train on, images in the layouts of `inputs` or a text, with a held-out part.

A dataset at PATH is named after it. Its held-out images are those of a second part next to the
first, one of PART_NAMES (PATH/train and PATH/test, say) or NAME.test.npz next to NAME.npz; without
one, a fifth of the images of every class is held out, always the same ones. Of a text, the last
fifth is held out.

More images than fit in memory are decoded into a temporary file (of `$TMPDIR`), which is mapped
into memory and ends with the process.
"""

import hashlib
import math
import re
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from autoprox.inputs.batch import InputError
from autoprox.inputs.batch_loading import read_byte_tokens
from autoprox.inputs.image_dataset_files import IDX, Labels, detect_image_layout
from autoprox.searchspaces.language_model_bases import TokenSpace

HELD_OUT = 0.2
IN_MEMORY = 2**32  # bytes of an array of images; a larger one is in a file
PART_NAMES = (  # of training and of held-out images
    ("train", "test"),
    ("train", "val"),
    ("train.bin", "test.bin"),
    (IDX.format("train"), IDX.format("t10k")),
    (IDX.format("train") + ".gz", IDX.format("t10k") + ".gz"),
)


@dataclass(frozen=True)
class TrainingDataset(ABC):
    """Samples to train on, and a part that is held out."""

    name: str
    classes: int

    @property
    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """The numbers of samples to train on and of held-out samples."""

    @cached_property
    def digest(self) -> str:
        """A hash of the samples in their order."""
        content = hashlib.sha256(str(self.classes).encode())
        for tensor in (part for part in vars(self).values() if isinstance(part, Tensor)):
            content.update(str(tuple(tensor.shape)).encode())
            content.update(tensor.numpy().data)
        return content.hexdigest()


@dataclass(frozen=True)
class ImageDataset(TrainingDataset):
    """Images uint8 [n, height, width, 3] with labels [n] int64, in two parts."""

    images: Tensor
    labels: Tensor
    held_out_images: Tensor
    held_out_labels: Tensor
    passed_over: int = field(default=0, kw_only=True)  # files in its folders that aren't read

    @property
    def sizes(self) -> dict[str, int]:
        return {"images": len(self.labels), "held_out": len(self.held_out_labels)}


@dataclass(frozen=True)
class TextDataset(TrainingDataset):
    """The bytes of a text as tokens [n] of a vocabulary of `classes`, in two parts."""

    tokens: Tensor
    held_out: Tensor

    @property
    def sizes(self) -> dict[str, int]:
        return {"bytes": len(self.tokens), "held_out": len(self.held_out)}


def dataset_name(path: Path) -> str:
    """Return the name of the dataset at a path: the folder's, or the file's without its suffix."""
    path = path.resolve()
    return slugify_name(path.stem if path.is_file() else path.name)


def slugify_name(text: str) -> str:
    """Convert a text to a name that a benchmark or its datasets may have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:64] or "unnamed"


def load_text(path: Path, space: TokenSpace) -> TextDataset:
    """Load a text file, its bytes as tokens of the space.

    Bytes that aren't text are refused: a wrong file would give a table all the same.
    """
    if not path.is_file():
        got = "is none" if path.exists() else "does not exist"
        raise InputError(f"{path} must be a text file, but {got}")
    tokens = torch.from_numpy(read_byte_tokens(path, space))
    content = path.read_bytes()
    try:
        content.decode()
        wrong = content.find(0)
    except UnicodeDecodeError as error:
        wrong = error.start
    if wrong >= 0:
        got = f"byte {wrong} is {content[wrong]}"
        raise InputError(f"{path} must be a text in UTF-8 without zeros, but {got}")
    begin = len(tokens) - round(HELD_OUT * len(tokens))
    return TextDataset(dataset_name(path), space.vocabulary, tokens[:begin], tokens[begin:])


def load_images(path: Path, shape: Sequence[int], least: int = 1) -> ImageDataset:
    """Load all images at a path, in the size that a space sees; they must have `least` rows."""
    pairs = [(path / train, path / held_out) for train, held_out in PART_NAMES]
    pairs.append((path, path / "test_batch.bin"))
    if path.suffix == ".npz":
        pairs.append((path, path.with_suffix(".test.npz")))
    parts = next((pair for pair in pairs if all(part.exists() for part in pair)), None)
    train = parts[0] if parts else path
    images, labels, passed_over = _read(train, shape, least)
    if parts:
        held_out_images, held_out_labels, more = _read(parts[1], shape, least)
        passed_over += more
        _check_folders(*parts)
    else:
        kept, held_out = _split(labels, path)
        held_out_images, held_out_labels = _take(images, held_out), labels[held_out]
        images, labels = _take(images, kept), labels[kept]
    classes = int(labels.max()) + 1
    low, high = min(labels.min(), held_out_labels.min()), held_out_labels.max()
    if labels.min() == labels.max():
        rule = f"{path} must have images of at least two classes"
        raise InputError(f"{rule}, but all are of {labels[0]}")
    if low < 0 or classes > len(labels):
        rule = f"labels must be at least 0 and below {len(labels)}, the number of images"
        raise InputError(f"{path}: {rule}, but go from {low} to {classes - 1}")
    if high >= classes:
        rule = f"labels of held-out images must be below {classes}, as those to train on are"
        raise InputError(f"{path}: {rule}, but go up to {high}")
    arrays = (images, labels, held_out_images, held_out_labels)
    tensors = (torch.from_numpy(array) for array in arrays)
    return ImageDataset(dataset_name(path), classes, *tensors, passed_over=passed_over)


def _read(path: Path, shape: Sequence[int], least: int) -> tuple[NDArray[np.uint8], Labels, int]:
    image_set = detect_image_layout(path, dataset_name(path)).read(path)
    if not len(image_set.labels):
        raise InputError(f"{path} must have images, but has none")
    _, height, width = shape
    images = _empty((len(image_set.labels), height, width, 3))
    size = image_set.open(0).size
    if min(size) < least:
        rule = f"images must be at least {least} x {least} pixels, a patch of the space"
        raise InputError(f"{path}: {rule}, but are {size[0]} x {size[1]}")
    for i in range(len(images)):
        image = image_set.open(i)
        if image.size != size:
            got = f"image {i} has {image.size} and image 0 has {size}"
            raise InputError(f"{path}: all images must have the same size, but {got}")
        resized = image.convert("RGB")
        if size != (width, height):
            resized = resized.resize((width, height), Image.Resampling.BILINEAR)
        images[i] = np.asarray(resized)
    return images, image_set.labels.astype(np.int64), image_set.passed_over


def _empty(shape: tuple[int, ...]) -> NDArray[np.uint8]:
    if math.prod(shape) <= IN_MEMORY:
        return np.empty(shape, dtype=np.uint8)
    with tempfile.TemporaryFile() as file:  # the mapping remains
        return np.memmap(file, dtype=np.uint8, shape=shape)


def _take(images: NDArray[np.uint8], indices: Labels) -> NDArray[np.uint8]:
    return images.take(indices, axis=0, out=_empty((len(indices), *images.shape[1:])), mode="clip")


def _split(labels: Labels, path: Path) -> tuple[Labels, Labels]:
    """Split the indices: of each class the same share, at least one, is held out."""
    rng = np.random.default_rng(0)
    held_out = []
    for label in np.unique(labels):
        indices = rng.permutation(np.flatnonzero(labels == label))
        if len(indices) < 2:
            raise InputError(f"{path} must have at least 2 images of class {label}, but has 1")
        held_out.append(indices[: max(1, round(HELD_OUT * len(indices)))])
    chosen = np.sort(np.concatenate(held_out))
    return np.setdiff1d(np.arange(len(labels)), chosen), chosen


def _check_folders(*parts: Path) -> None:
    """Raise unless both parts have the same folders, in whose order classes are numbered."""
    if all(part.is_dir() for part in parts):
        one, other = ({p.name for p in part.iterdir() if p.is_dir()} for part in parts)
        if odd := ", ".join(sorted(one ^ other)):
            both = " and ".join(map(str, parts))
            raise InputError(f"{both} must have the same classes, but differ in {odd}")
