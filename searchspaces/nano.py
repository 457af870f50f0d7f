"""AutoFormer small enough to train in seconds on one CPU core.

The choices are AutoFormer's, but wider, for images of 16 x 16 pixels: 4 x 4 patches, 8 dimensions
a head, from one wide block to twelve narrow ones. Linear layers begin uniform by fan in: at these
widths the standard deviation of 0.02, meant for widths of 192 and more, makes them so weak that a
short training gets nowhere. Positions begin larger too, for the same reason.
"""

import torch

from autoprox.searchspaces.autoformer import AutoFormer, AutoFormerSpace
from autoprox.searchspaces.base import one, per_layer
from autoprox.searchspaces.blocks import fan_in_uniform_

POSITION_SCALE = 15  # times the published 0.02: about half of what patches are embedded as


class NanoFormer(AutoFormer):
    """AutoFormer with an initialisation for small widths."""

    linear_rule = staticmethod(fan_in_uniform_)

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Draw every parameter by AutoFormer's rule but for the scales of layers and positions."""
        super().initialise(seed)
        self.position.mul_(POSITION_SCALE)


class NanoSpace(AutoFormerSpace):
    """AutoFormer's geometry, scaled to small images."""

    input_shape = (3, 16, 16)
    patch = 4
    head_dim = 8
    entangled = True
    network_type = NanoFormer


AUTOFORMER_NANO = NanoSpace(
    "autoformer-nano",
    "AutoFormer for 16 x 16 images, vision transformers of 2 thousand to 3 M parameters",
    {
        "hidden_dim": one(16, 24, 32, 48, 64, 96, 128),
        "depth": one(*range(1, 13)),
        "mlp_ratio": per_layer(0.5, 1.0, 2.0, 4.0, 6.0),
        "num_heads": per_layer(1, 2, 3, 4, 6),
    },
)
