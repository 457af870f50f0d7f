"""Tiny networks, and the noise that they see."""

import torch

from autoprox.inputs.batch import Batch
from autoprox.inputs.images import load_batch
from autoprox.searchspaces import Architecture, get_space

torch.set_num_threads(1)

SPACE = get_space("autoformer-nano")


def tiny(width: int, *blocks: tuple[int, float]) -> Architecture:
    """A network of this width with (heads, MLP ratio) of each block."""
    heads, ratios = zip(*blocks, strict=True)
    choices = {"hidden_dim": width, "depth": len(blocks), "num_heads": heads, "mlp_ratio": ratios}
    return Architecture(SPACE.name, choices)


def noise(classes: int, size: int = 2, seed: int = 0) -> Batch:
    return load_batch("noise", SPACE.input_shape, size, seed, classes=classes)
