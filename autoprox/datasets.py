"""Whole image datasets to train on: the layouts of `--images`, two more, and the held-out part.

A dataset at PATH is named after it. Its held-out images are those of a second part beside the first,
one of PARTS (PATH/train and PATH/test, say), or NAME.test.npz beside NAME.npz; a PATH without one
gives up a fifth of its images, of every class, the same ones each time.
"""

import gzip
import hashlib
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from autoprox.inputs import LAYOUTS, ImageSet, InputError, Layout

HELD_OUT = 0.2
IDX = "{}-images-idx3-ubyte"
PARTS = (  # of training and of held-out images
    ("train", "test"),
    ("train", "val"),
    ("train.bin", "test.bin"),
    ("data_batch", "test_batch.bin"),
    (IDX.format("train"), IDX.format("t10k")),
    (IDX.format("train") + ".gz", IDX.format("t10k") + ".gz"),
)
CIFAR10_RECORD = 1 + 3 * 32 * 32  # label, planes of red, green and blue
NAME = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Dataset:
    """Images uint8 [n, height, width, 3] with labels [n] int64, to train on and to hold out."""

    name: str
    classes: int
    images: Tensor
    labels: Tensor
    held_out_images: Tensor
    held_out_labels: Tensor

    @cached_property
    def digest(self) -> str:
        """A hash of the content: the same images in the same order, the same digest."""
        content = hashlib.sha256(str(self.classes).encode())
        for tensor in (self.images, self.labels, self.held_out_images, self.held_out_labels):
            content.update(str(tuple(tensor.shape)).encode())
            content.update(tensor.numpy().tobytes())
        return content.hexdigest()


def dataset_name(path: Path) -> str:
    """The name of the dataset at a path: the folder's, or the file's without its suffix."""
    path = path.resolve()
    return NAME.sub("-", path.stem if path.is_file() else path.name).strip("-._")[:64] or "images"


def load_dataset(path: Path, shape: Sequence[int]) -> Dataset:
    """All images at a path, in the size that a space sees."""
    parts = _parts(path)
    images, labels = _read(parts[0], shape)
    if len(parts) == 2:
        held_out = _read(parts[1], shape)
        _check_folders(*parts)
    else:
        kept, apart = _split(labels, parts[0])
        held_out = images[apart], labels[apart]
        images, labels = images[kept], labels[kept]
    classes = int(labels.max()) + 1
    _check_labels(labels, held_out[1], classes, path)
    tensors = (torch.from_numpy(array) for array in (images, labels, *held_out))
    return Dataset(dataset_name(path), classes, *tensors)


def _parts(path: Path) -> tuple[Path, ...]:
    if not path.exists():
        raise InputError(f"{path} must be a file or folder of images, but does not exist")
    test = path.with_suffix(".test.npz")
    if path.suffix == ".npz" and test.exists():
        return path, test
    if path.is_dir():
        for train, test in PARTS:
            first = path if train == "data_batch" else path / train
            if first.exists() and (path / test).exists():
                return first, path / test
    return (path,)


def _read(path: Path, shape: Sequence[int]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    layouts = (*OWN_LAYOUTS, *LAYOUTS)
    layout = next((layout for layout in layouts if layout.matches(path)), None)
    if layout is None:
        names = "; ".join(layout.name for layout in layouts)
        raise InputError(f"{path} must have one of the layouts {names}, but has none of them")
    found = layout.read(path)
    if not len(found.labels):
        raise InputError(f"{path} must have images, but has none")
    _, height, width = shape
    images = np.empty((len(found.labels), height, width, 3), dtype=np.uint8)
    size = found.open(0).size
    for i in range(len(images)):
        image = found.open(i)
        if image.size != size:
            got = f"image {i} has {image.size} and image 0 has {size}"
            raise InputError(f"{path}: all images must have the same size, but {got}")
        resized = image.convert("RGB")
        if size != (width, height):
            resized = resized.resize((width, height), Image.Resampling.BILINEAR)
        images[i] = np.asarray(resized)
    return images, found.labels.astype(np.int64)


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
    low = min(labels.min(), held_out.min())
    if low < 0:
        raise InputError(f"{path}: labels must be 0 or more, but go down to {low}")
    if labels.min() == labels.max():
        raise InputError(f"{path} must have images of at least two classes, but all are of {low}")
    if held_out.max() >= classes:
        raise InputError(
            f"{path}: labels of held-out images must be below {classes}, as those to train on are, "
            f"but go up to {held_out.max()}"
        )


def _check_folders(train: Path, test: Path) -> None:
    """Classes are numbered in the order of their folders, which must be the same in both parts."""
    if train.is_dir() and test.is_dir():
        one, other = ({p.name for p in part.iterdir() if p.is_dir()} for part in (train, test))
        if one != other:
            odd = ", ".join(sorted(one ^ other))
            raise InputError(f"{train} and {test} must have the same classes, but differ in {odd}")


def _read_idx(path: Path) -> ImageSet:
    images = _idx_array(path, 3)
    labels_path = path.with_name(path.name.replace("images-idx3", "labels-idx1"))
    if not labels_path.exists():
        raise InputError(f"{path} must have its labels in {labels_path}, which does not exist")
    labels = _idx_array(labels_path, 1)
    if len(labels) != len(images):
        got = f"{len(labels)} and {len(images)}"
        raise InputError(f"{path} must have as many labels as images, but has {got}")
    return ImageSet(labels.astype(np.int64), lambda i: Image.fromarray(images[i]))


def _idx_array(path: Path, axes: int) -> NDArray[np.uint8]:
    """The format of MNIST: two zeros, 8 for bytes, the number of axes, each length, the data."""
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} must be a readable IDX file, but got: {error}") from error
    start = 4 + 4 * axes
    if content[:4] != bytes([0, 0, 8, axes]) or len(content) < start:
        rule = f"must be an IDX file of bytes with {axes} axes"
        raise InputError(f"{path} {rule}, but starts with {content[:4].hex(' ') or 'nothing'}")
    shape = np.frombuffer(content, dtype=">u4", count=axes, offset=4).astype(np.int64)
    if len(content) - start != shape.prod():
        size = " x ".join(map(str, shape))
        raise InputError(f"{path} must have {size} bytes of data, but has {len(content) - start}")
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(shape)


def _read_cifar10(path: Path) -> ImageSet:
    files = [path] if path.is_file() else sorted(path.glob("data_batch_*.bin"))
    sizes = {file: file.stat().st_size for file in files}
    for file, size in sizes.items():
        if not size or size % CIFAR10_RECORD:
            rule = f"must be whole CIFAR-10 records of {CIFAR10_RECORD} bytes"
            raise InputError(f"{file} {rule}, but has {size} bytes")
    records = np.concatenate([np.fromfile(file, dtype=np.uint8) for file in files])
    records = records.reshape(-1, CIFAR10_RECORD)
    pixels = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return ImageSet(
        records[:, 0].astype(np.int64),
        lambda i: Image.fromarray(np.ascontiguousarray(pixels[i])),
    )


OWN_LAYOUTS = (
    Layout("IDX (train-images-idx3-ubyte)", lambda path: "images-idx3" in path.name, _read_idx),
    Layout(
        "CIFAR-10 binary (data_batch_1.bin)",
        lambda path: path.name == "test_batch.bin"
        or path.match("data_batch_*.bin")
        or (path / "data_batch_1.bin").is_file(),
        _read_cifar10,
    ),
)
