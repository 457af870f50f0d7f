"""A folder with what documented commands work on, made small."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

from helpers.images import save_images
from helpers.tables import table

CHOICES = {"hidden_dim": 16, "depth": 1, "mlp_ratio": [1.0], "num_heads": [2]}
MODULE = """
import torch
from torch import nn


def model():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    network = nn.Sequential(encoder, nn.Flatten(), nn.Linear(40, 3))
    return network, torch.randn(2, 5, 8), torch.tensor([0, 2])
"""


def furnish(folder: Path) -> None:
    """A table, images as files and as an array, a text, a module and an architecture."""
    mine = {**table(30), "name": "my-vits", "datasets": {"photos": {"classes": 2}}}
    for entry in mine["architectures"]:
        entry["scores"] = {"photos": entry["scores"]["wide"]}
    (folder / "my-vits.json").write_text(json.dumps(mine))
    save_images(folder / "photos.npz")
    rng = np.random.default_rng(0)
    for number in range(120):
        file = folder / "photos" / f"class{number % 2}" / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        noise = rng.integers(0, 230, (16, 16, 3)) + 25 * (number % 2)  # one class is brighter
        Image.fromarray(noise.astype(np.uint8)).save(file)
    (folder / "book.txt").write_text("It was a bright cold day in November. " * 200)
    (folder / "mine.py").write_text(MODULE)
    arch = {"space": "autoformer-nano", "choices": CHOICES}
    (folder / "best.json").write_text(json.dumps(arch))
