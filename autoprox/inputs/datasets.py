"""Whole datasets to train on, images in the layouts of `inputs` or a text, with a held-out part.

A dataset at PATH is named after it. Its held-out images are those of a second part beside the
first, one of PARTS (PATH/train and PATH/test, say) or NAME.test.npz beside NAME.npz; a PATH without
one gives up a fifth of its images, of every class, the same ones each time. A text always gives up
its last fifth.

More images than fit in memory are decoded into a temporary file (of `$TMPDIR`), which goes with the
process, and which the system reads as it is asked for.
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
from autoprox.inputs.layouts import IDX, find_layout
from autoprox.inputs.text import read_bytes
from autoprox.searchspaces.language_models import TokenSpace

HELD_OUT = 0.2
IN_MEMORY = 2**32  # bytes of an array of images; a larger one is in a file
PARTS = (  # of training and of held-out images
    ("train", "test"),
    ("train", "val"),
    ("train.bin", "test.bin"),
    (IDX.format("train"), IDX.format("t10k")),
    (IDX.format("train") + ".gz", IDX.format("t10k") + ".gz"),
)


@dataclass(frozen=True)
class Dataset(ABC):
    """What networks are trained on, with a part that is held out."""

    name: str
    classes: int

    @property
    @abstractmethod
    def sizes(self) -> dict[str, int]:
        """How much there is to train on, and how much is held out."""

    @cached_property
    def digest(self) -> str:
        """A hash of the content: the same samples in the same order, the same digest."""
        content = hashlib.sha256(str(self.classes).encode())
        for tensor in (part for part in vars(self).values() if isinstance(part, Tensor)):
            content.update(str(tuple(tensor.shape)).encode())
            content.update(tensor.numpy().data)
        return content.hexdigest()


@dataclass(frozen=True)
class Images(Dataset):
    """Images uint8 [n, height, width, 3] with labels [n] int64, to train on and to hold out."""

    images: Tensor
    labels: Tensor
    held_out_images: Tensor
    held_out_labels: Tensor
    passed_over: int = field(default=0, kw_only=True)  # files in its folders that aren't read

    @property
    def sizes(self) -> dict[str, int]:
        return {"images": len(self.labels), "held_out": len(self.held_out_labels)}


@dataclass(frozen=True)
class Text(Dataset):
    """The bytes of a text as tokens [n] of a vocabulary of `classes`, in two parts."""

    tokens: Tensor
    held_out: Tensor

    @property
    def sizes(self) -> dict[str, int]:
        return {"bytes": len(self.tokens), "held_out": len(self.held_out)}


def dataset_name(path: Path) -> str:
    """The name of the dataset at a path: the folder's, or the file's without its suffix."""
    path = path.resolve()
    return slug(path.stem if path.is_file() else path.name)


def slug(text: str) -> str:
    """The text as a name that a benchmark or its datasets may have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-._")[:64] or "unnamed"


def load_text(path: Path, space: TokenSpace) -> Text:
    """A text file, its bytes as tokens of the space."""
    if not path.is_file():
        found = "is none" if path.exists() else "does not exist"
        raise InputError(f"{path} must be a text file, but {found}")
    tokens = torch.from_numpy(read_bytes(path, space))
    _check_text(path)
    begin = len(tokens) - round(HELD_OUT * len(tokens))
    return Text(dataset_name(path), space.vocabulary, tokens[:begin], tokens[begin:])


def load_images(path: Path, shape: Sequence[int], least: int = 1) -> Images:
    """All images at a path, in the size that a space sees; they must have `least` rows."""
    train, *test = _parts(path)
    images, labels, passed_over = _read(train, shape, least)
    if test:
        held_images, held_labels, more = _read(test[0], shape, least)
        passed_over += more
        _check_folders(train, test[0])
    else:
        kept, apart = _split(labels, train)
        held_images, held_labels = _chosen(images, apart), labels[apart]
        images, labels = _chosen(images, kept), labels[kept]
    classes = int(labels.max()) + 1
    _check_labels(labels, held_labels, classes, path)
    arrays = (images, labels, held_images, held_labels)
    tensors = (torch.from_numpy(array) for array in arrays)
    return Images(dataset_name(path), classes, *tensors, passed_over=passed_over)


def _check_text(path: Path) -> None:
    """Bytes that aren't text are refused: a wrong file would give a table all the same."""
    content = path.read_bytes()
    try:
        content.decode()
        wrong = content.find(0)
    except UnicodeDecodeError as error:
        wrong = error.start
    if wrong >= 0:
        got = f"byte {wrong} is {content[wrong]}"
        raise InputError(f"{path} must be a text in UTF-8 without zeros, but {got}")


def _parts(path: Path) -> tuple[Path, ...]:
    pairs = [(path / train, path / held_out) for train, held_out in PARTS]
    pairs.append((path, path / "test_batch.bin"))
    if path.suffix == ".npz":
        pairs.append((path, path.with_suffix(".test.npz")))
    return next((pair for pair in pairs if all(part.exists() for part in pair)), (path,))


def _read(
    path: Path, shape: Sequence[int], least: int
) -> tuple[NDArray[np.uint8], NDArray[np.int64], int]:
    found = find_layout(path, dataset_name(path)).read(path)
    if not len(found.labels):
        raise InputError(f"{path} must have images, but has none")
    _, height, width = shape
    images = _room((len(found.labels), height, width, 3))
    size = found.open(0).size
    if min(size) < least:
        rule = f"images must be at least {least} x {least} pixels, a patch of the space"
        raise InputError(f"{path}: {rule}, but are {size[0]} x {size[1]}")
    for i in range(len(images)):
        image = found.open(i)
        if image.size != size:
            got = f"image {i} has {image.size} and image 0 has {size}"
            raise InputError(f"{path}: all images must have the same size, but {got}")
        resized = image.convert("RGB")
        if size != (width, height):
            resized = resized.resize((width, height), Image.Resampling.BILINEAR)
        images[i] = np.asarray(resized)
    return images, found.labels.astype(np.int64), found.passed_over


def _room(shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """An array that isn't set."""
    if math.prod(shape) <= IN_MEMORY:
        return np.empty(shape, dtype=np.uint8)
    with tempfile.TemporaryFile() as file:  # what is mapped stays
        return np.memmap(file, dtype=np.uint8, shape=shape)


def _chosen(images: NDArray[np.uint8], places: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Those at these places, which there are."""
    return images.take(places, axis=0, out=_room((len(places), *images.shape[1:])), mode="clip")


def _split(labels: NDArray[np.int64], path: Path) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The indices to train on and to hold out: of each class the same share, at least one."""
    rng = np.random.default_rng(0)
    apart = []
    for label in np.unique(labels):
        own = rng.permutation(np.flatnonzero(labels == label))
        if len(own) < 2:
            raise InputError(f"{path} must have at least 2 images of class {label}, but has 1")
        apart.append(own[: max(1, round(HELD_OUT * len(own)))])
    chosen = np.sort(np.concatenate(apart))
    return np.setdiff1d(np.arange(len(labels)), chosen), chosen


def _check_labels(
    labels: NDArray[np.int64], held_out: NDArray[np.int64], classes: int, path: Path
) -> None:
    low, high = min(labels.min(), held_out.min()), held_out.max()
    if labels.min() == labels.max():
        rule = f"{path} must have images of at least two classes"
        raise InputError(f"{rule}, but all are of {labels[0]}")
    if low < 0 or classes > len(labels):
        rule = f"labels must be at least 0 and below {len(labels)}, the number of images"
        raise InputError(f"{path}: {rule}, but go from {low} to {classes - 1}")
    if high >= classes:
        rule = f"labels of held-out images must be below {classes}, as those to train on are"
        raise InputError(f"{path}: {rule}, but go up to {high}")


def _check_folders(*parts: Path) -> None:
    """Classes are numbered in the order of their folders, which must be the same in both parts."""
    if all(part.is_dir() for part in parts):
        one, other = ({p.name for p in part.iterdir() if p.is_dir()} for part in parts)
        if odd := ", ".join(sorted(one ^ other)):
            both = " and ".join(map(str, parts))
            raise InputError(f"{both} must have the same classes, but differ in {odd}")
