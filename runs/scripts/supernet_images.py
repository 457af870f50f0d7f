"""Prepares the images of the experiments:

    python runs/scripts/supernet_images.py SOURCE DATA [--images N]

SOURCE is filled as runs/nano-bench/README.md says. DATA gets cifar10.npz and fashion-mnist.npz in
their full size, the first N images to train on and the first 5,000 that are held out, and below
DATA/small the first 4,000 and 2,000 of these in 16 x 16 pixels.
"""

import argparse
from pathlib import Path

import numpy as np
from nano_bench_data import BATCHES, SIDE, Images, Labels, box, cifar10, fashion_mnist
from PIL import Image

HELD_OUT = 5_000
FEW, FEW_HELD_OUT = 4_000, 2_000


def save(path: Path, images: Images, labels: Labels) -> None:
    """Write images and labels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, images=images, labels=labels)


def main() -> None:
    """Read, cut and write both datasets."""
    Image.MAX_IMAGE_PIXELS = None  # a sheet of 10,000 images looks like a decompression bomb
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("data", type=Path)
    parser.add_argument("--images", type=int, default=20_000)
    given = parser.parse_args()
    batches = [f"data_batch_{batch}" for batch in range(1, BATCHES + 1)]
    parts = {
        "fashion-mnist.npz": fashion_mnist(given.source, "train"),
        "fashion-mnist.test.npz": fashion_mnist(given.source, "t10k"),
        "cifar10.npz": cifar10(given.source, batches, "train_lables"),
        "cifar10.test.npz": cifar10(given.source, ["test_batch"], "test_lables"),
    }
    for name, (images, labels) in parts.items():
        count, few = (HELD_OUT, FEW_HELD_OUT) if "test" in name else (given.images, FEW)
        save(given.data / name, images[:count], labels[:count])
        save(given.data / "small" / name, box(images[:few], SIDE), labels[:few])


if __name__ == "__main__":
    main()
