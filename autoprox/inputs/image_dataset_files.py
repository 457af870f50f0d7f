"""Reads image datasets in files, in the layouts of LAYOUTS.

Each reader returns all the labels, and opens only the images that are chosen.
"""

import gzip
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast
from zipfile import ZipFile

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field

from autoprox.errors import one_line
from autoprox.files.json_documents import FieldRule, PartialJSONDocument, read_json, validate_json
from autoprox.inputs.batch import InputError
from autoprox.inputs.dataset_class_counts import DATASET_CLASSES
from autoprox.inputs.isolated_reading import read_arrays

IMAGE_SUFFIXES = {".bmp", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"}
IMAGE_FORMATS = ("BMP", "JPEG", "PNG", "PPM", "TIFF", "WEBP")  # others call programs, as EPS does
UNPACKED, RATIO = 2**26, 32  # bytes that any file may unpack to, and more for each of its own
MAX_SIDE = 2**16  # pixels
CIFAR_PIXELS = 3 * 32 * 32  # planes of red, green and blue
IDX = "{}-images-idx3-ubyte"
IDX_FILES = [IDX.format(part) + end for part in ("train", "t10k") for end in ("", ".gz")]

Labels = NDArray[np.int64]


class LabelledImages(NamedTuple):
    """The labels of all images of a dataset, and a way to open one of them."""

    labels: Labels
    open: Callable[[int], Image.Image]
    passed_over: int = 0  # files among the images that aren't read


class ImageFileLayout(NamedTuple):
    """A way to lay out images in files; `dataset` if only one dataset has it."""

    name: str
    matches: Callable[[Path], bool]
    read: Callable[[Path], LabelledImages]
    dataset: str | None = None


def detect_image_layout(path: Path, dataset: str) -> ImageFileLayout:
    """Return the layout of the files at a path, which must be one that the dataset may have."""
    if not path.exists():
        raise InputError(f"{path} must be a file or folder of images, but does not exist")
    layout = next((layout for layout in IMAGE_LAYOUTS if layout.matches(path)), None)
    if layout is None:
        names = "; ".join(layout.name for layout in IMAGE_LAYOUTS)
        raise InputError(f"{path} must have one of the layouts {names}, but has none of them")
    if layout.dataset not in (None, dataset) and dataset in DATASET_CLASSES:
        raise InputError(f"{path} must hold images of {dataset}, but is {layout.name}")
    return layout


@contextmanager
def _must_be(rule: str, path: Path) -> Iterator[None]:
    """Name the file and the rule: on corrupt content a decoder may raise anything."""
    try:
        yield
    except Exception as error:
        raise InputError(f"{path} must be {rule}, but got: {one_line(error)}") from error


def _check_unpacked(size: int, path: Path) -> None:
    """Refuse a small file that would fill the memory: it isn't images."""
    if size > (most := UNPACKED + RATIO * path.stat().st_size):
        raise ValueError(f"{size} bytes, more than the {most} that such a file may unpack to")


def _open_image(path: Path) -> Image.Image:
    if not path.is_file():  # a pipe would be waited for
        raise InputError(f"{path} must be a readable image, but is no file")
    with _must_be("a readable image", path), Image.open(path, formats=IMAGE_FORMATS) as image:
        _check_unpacked(3 * image.width * image.height, path)
        return image.convert("RGB")


def _image_set(
    labels: Any,
    images: Sequence[Path] | NDArray[np.uint8],
    path: Path,
    show: Callable[[Any], Image.Image],
) -> LabelledImages:
    labels = np.asarray(labels)
    if labels.ndim != 1 or labels.dtype.kind not in "iu":
        got = f"{labels.dtype} {labels.shape}"
        raise InputError(f"{path}: the labels must be a list of integers, but are {got}")
    if len(labels) != len(images):
        got = f"{len(labels)} and {len(images)}"
        raise InputError(f"{path} must have as many labels as images, but has {got}")
    if isinstance(images, np.ndarray) and not all(0 < n <= MAX_SIDE for n in images.shape[1:3]):
        rule = f"images must be of 1 to {MAX_SIDE} pixels a side"
        raise InputError(f"{path}: {rule}, but are {list(images.shape[1:3])}")
    return LabelledImages(labels.astype(np.int64), lambda i: show(images[i]))


def _first_file(path: Path, *names: str) -> Path:
    """Return the path if it is a file, or the first of these files in the folder."""
    for file in (path, *(path / name for name in names)):
        if file.is_file():
            return file
    raise InputError(f"{path} must be a file, or a folder with one of {', '.join(names)}")


def _folders(path: Path) -> list[Path]:
    return sorted(p for p in path.iterdir() if p.is_dir() and not p.name.startswith("."))


def _image_files(folder: Path) -> list[Path]:
    files = (p for p in (folder.iterdir() if folder.is_dir() else ()) if not p.name.startswith("."))
    return sorted(p for p in files if p.suffix.lower() in IMAGE_SUFFIXES)


def _read_npz(path: Path) -> LabelledImages:
    arrays: list[NDArray[Any]] = []
    with (
        _must_be("an .npz file with the arrays images and labels", path),
        path.open("rb") as file,  # which np.load leaves open on a corrupt one
        np.load(file, allow_pickle=False) as archive,
    ):
        for name in ("images", "labels"):
            members = cast(ZipFile, archive.zip)  # which is open
            size = members.getinfo(f"{name}.npy").file_size
            _check_unpacked(size, path)
            with members.open(f"{name}.npy") as member:
                readers = {
                    1: npy_format.read_array_header_1_0,
                    2: npy_format.read_array_header_2_0,
                }
                shape, _, dtype = readers[npy_format.read_magic(member)[0]](member)
            if math.prod(shape) * dtype.itemsize > size:
                raise ValueError(f"{name} of shape {list(shape)} in {size} bytes")
            arrays.append(archive[name])
    images, labels = arrays
    if images.dtype != np.uint8 or not (images.ndim == 3 or images.shape[3:] == (3,)):
        rule = "images must be uint8 [n, height, width, 3], or [n, height, width] for grey"
        raise InputError(f"{path}: {rule}, but are {images.dtype} {list(images.shape)}")
    return _image_set(labels, images, path, Image.fromarray)


def _read_idx(path: Path) -> LabelledImages:
    path = _first_file(path, *IDX_FILES)
    images = _read_idx_array(path, 3)
    labels = _read_idx_array(path.with_name(path.name.replace("images-idx3", "labels-idx1")), 1)
    return _image_set(labels, images, path, Image.fromarray)


def _read_idx_array(path: Path, axes: int) -> NDArray[np.uint8]:
    """Read MNIST's format: two zeros, 8 for bytes, the number of axes, each length, the bytes."""
    open_ = gzip.open if path.suffix == ".gz" else open
    with _must_be(f"an IDX file of bytes with {axes} axes", path), open_(path, "rb") as file:
        header = file.read(4 + 4 * axes)
        if header[:4] != bytes([0, 0, 8, axes]):
            raise ValueError(f"a file that starts with {header[:4].hex(' ') or 'nothing'}")
        shape = np.frombuffer(header, dtype=">u4", count=axes, offset=4).astype(np.int64)
        size = math.prod(shape.tolist())
        _check_unpacked(size, path)
        return np.frombuffer(file.read(size + 1), dtype=np.uint8).reshape(shape)


def _cifar_set(pixels: NDArray[np.uint8], labels: Any, path: Path) -> LabelledImages:
    images = pixels.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return _image_set(labels, images, path, lambda image: Image.fromarray(image.copy()))


def _cifar_records(path: Path, name: str, labels: int) -> NDArray[np.uint8]:
    """Map a file of records, each with this number of labels and an image."""
    size, length = path.stat().st_size, labels + CIFAR_PIXELS
    if not size or size % length:
        rule = f"must be whole {name} records of {length} bytes"
        raise InputError(f"{path} {rule}, but has {size} bytes")
    return np.memmap(path, dtype=np.uint8, mode="r").reshape(-1, length)


def _read_cifar10(path: Path) -> LabelledImages:
    files = [path] if path.is_file() else sorted(path.glob("data_batch_*.bin"))
    records = np.concatenate([_cifar_records(file, "CIFAR-10", 1) for file in files])
    return _cifar_set(records[:, 1:], records[:, 0], path)


def _read_cifar100_binary(path: Path) -> LabelledImages:
    path = _first_file(path, "train.bin", "test.bin")
    records = _cifar_records(path, "CIFAR-100", 2)  # coarse and fine labels
    return _cifar_set(records[:, 2:], records[:, 1], path)


def _read_cifar100_pickle(path: Path) -> LabelledImages:
    path = _first_file(path, "train", "test")
    with _must_be("a CIFAR-100 pickle", path):
        arrays = read_arrays("cifar", path)
        pixels = arrays["data"].astype(np.uint8, casting="no").reshape(-1, CIFAR_PIXELS)
    return _cifar_set(pixels, arrays["labels"], path)


def _read_flowers(path: Path) -> LabelledImages:
    source = path / "imagelabels.mat"
    with _must_be("the labels of Flowers-102", source):
        labels = read_arrays("flowers", source)["labels"].ravel().astype(np.int64) - 1
    return _image_set(labels, _image_files(path / "jpg"), source, _open_image)


class ChaoyangImage(PartialJSONDocument):
    """An entry of Chaoyang's list of images."""

    name: str
    label: Annotated[
        int, Field(ge=0, lt=DATASET_CLASSES["chaoyang"]), FieldRule("an integer from 0 to 3")
    ]


def _read_chaoyang(path: Path) -> LabelledImages:
    source = _first_file(path, "train.json", "test.json")
    document = read_json(source)
    entries = validate_json(document, list[ChaoyangImage])
    files = [path / entry.name for entry in entries]
    for index, file in enumerate(files):
        try:
            below = file.resolve().is_relative_to(path.resolve())
        except ValueError:  # no file has such a name: a zero is in it, or half a character
            below = False
        if not below:
            raise document.at(index, "name").error(f"must be a file below {path}")
    return _image_set([entry.label for entry in entries], files, source, _open_image)


def _read_folder(path: Path) -> LabelledImages:
    folders = _folders(path)
    classes = [_image_files(folder) for folder in folders]
    for folder, images in zip(folders, classes, strict=True):
        if not images:
            raise InputError(f"{folder} must have the images of one class, but has none")
    files = [file for images in classes for file in images]
    labels = [label for label, images in enumerate(classes) for _ in images]
    listed = [p for folder in folders for p in folder.iterdir() if not p.name.startswith(".")]
    passed_over = len(listed) - len(files) + len(_image_files(path))
    return _image_set(labels, files, path, _open_image)._replace(passed_over=passed_over)


def _has(*names: str) -> Callable[[Path], bool]:
    return lambda path: any((path / name).is_file() for name in names)


IMAGE_LAYOUTS = (
    ImageFileLayout("npz (images, labels)", lambda path: path.suffix == ".npz", _read_npz),
    ImageFileLayout(
        "IDX (train-images-idx3-ubyte)",
        lambda path: "images-idx3" in path.name or _has(*IDX_FILES)(path),
        _read_idx,
    ),
    ImageFileLayout(
        "CIFAR-10 binary (data_batch_1.bin)",
        lambda path: path.match("*_batch*.bin") or _has("data_batch_1.bin")(path),
        _read_cifar10,
    ),
    ImageFileLayout(
        "CIFAR-100 binary (train.bin)",
        lambda path: path.suffix == ".bin" or _has("train.bin", "test.bin")(path),
        _read_cifar100_binary,
        "cifar100",
    ),
    ImageFileLayout(
        "CIFAR-100 python (train)",
        lambda path: (path.is_file() and not path.suffix) or _has("train", "test")(path),
        _read_cifar100_pickle,
        "cifar100",
    ),
    ImageFileLayout(
        "Flowers-102 (imagelabels.mat, jpg)", _has("imagelabels.mat"), _read_flowers, "flowers"
    ),
    ImageFileLayout(
        "Chaoyang (train.json)", _has("train.json", "test.json"), _read_chaoyang, "chaoyang"
    ),
    ImageFileLayout(
        "image folder", lambda path: path.is_dir() and bool(_folders(path)), _read_folder
    ),
)
