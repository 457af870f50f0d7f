"""Images that networks can learn a little from, as files."""

from pathlib import Path

import numpy as np


def save_images(path: Path, count: int = 96, classes: int = 3, side: int = 16) -> Path:
    """Classes of different brightness, and noise."""
    rng = np.random.default_rng(0)
    labels = np.arange(count) % classes
    images = rng.integers(0, 120, (count, side, side, 3)) + 60 * labels[:, None, None, None]
    np.savez(path, images=images.astype(np.uint8), labels=labels)
    return path
