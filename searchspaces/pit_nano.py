"""PiT small enough to train in seconds on one CPU core.

The choices are PiT's, but wider, for images of 16 x 16 pixels: overlapping 4 x 4 patches at stride
3, three stages with 5 x 5, 3 x 3 and 2 x 2 patch tokens. Positions begin larger than by the
published 0.02, from which a short training learns them too late.
"""

import torch

from autoprox.searchspaces.base import one, per_stage
from autoprox.searchspaces.pit import PiT, PiTSpace

POSITION_SCALE = 15  # times the published 0.02: about half of what patches are embedded as


class PiTNano(PiT):
    """PiT with an initialisation for small widths."""

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Draw every parameter by PiT's rule but for the scale of positions."""
        super().initialise(seed)
        self.position.mul_(POSITION_SCALE)


class PiTNanoSpace(PiTSpace):
    """PiT's geometry, scaled to small images."""

    input_shape = (3, 16, 16)
    patch = 4
    stride = 3
    sides = (5, 3, 2)
    network_type = PiTNano


PIT_NANO = PiTNanoSpace(
    "pit-nano",
    "PiT for 16 x 16 images, pyramids of three stages of 3 thousand to 5 M parameters",
    {
        "base_dim": one(8, 12, 16, 24),
        "mlp_ratio": one(0.5, 1, 2, 4, 6),
        "depth": per_stage((1, 2, 3), (1, 2, 3, 4, 6), (1, 2, 3, 4, 6)),
        "num_heads": per_stage((1, 2, 4), (1, 2, 4), (1, 2, 4, 8)),
    },
)
