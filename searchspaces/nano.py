"""AutoFormer small enough to train in seconds on one CPU core.

The choices are AutoFormer's, for images of 32 x 32 pixels: 8 x 8 patches, 16 dimensions a head.
Linear layers begin uniform by fan in: at these widths the standard deviation of 0.02, meant for
widths of 192 and more, makes them so weak that a short training gets nowhere.
"""

from autoprox.searchspaces.autoformer import AutoFormer, AutoFormerSpace
from autoprox.searchspaces.base import one, per_layer
from autoprox.searchspaces.blocks import fan_in_uniform_


class NanoFormer(AutoFormer):
    """AutoFormer with the initialisation of PyTorch's own linear layers."""

    linear_rule = staticmethod(fan_in_uniform_)


class NanoSpace(AutoFormerSpace):
    """AutoFormer's geometry, scaled to small images."""

    input_shape = (3, 32, 32)
    patch = 8
    head_dim = 16
    entangled = True
    network_type = NanoFormer


AUTOFORMER_NANO = NanoSpace(
    "autoformer-nano",
    "AutoFormer for 32 x 32 images, vision transformers of up to 0.3 M parameters",
    {
        "hidden_dim": one(16, 24, 32, 48, 64),
        "depth": one(1, 2, 3, 4, 5),
        "mlp_ratio": per_layer(1.0, 2.0, 3.0, 4.0),
        "num_heads": per_layer(1, 2, 3, 4),
    },
)
