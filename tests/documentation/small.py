"""What documented commands work on, made small: a table, images, a text, a module and a space."""

import json
from pathlib import Path

from helpers.images import save_images
from helpers.tables import table

from autoprox.searchspaces import get_space

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
    """Put them all into a folder."""
    (folder / "my-vits.json").write_text(json.dumps({**table(40), "name": "my-vits"}))
    save_images(folder / "photos.npz")
    (folder / "book.txt").write_text("It was a bright cold day in November. " * 200)
    (folder / "mine.py").write_text(MODULE)
    arch = {"space": "autoformer-nano", "choices": CHOICES}
    (folder / "best.json").write_text(json.dumps(arch))
    assert get_space("autoformer-nano").params
