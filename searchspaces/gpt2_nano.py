"""GPT-2 small enough to train in seconds on one CPU core.

The choices are the GPT-2 space's, but wider, for sequences of 64 bytes: one wide block to twelve
narrow ones, an MLP from half as wide as its block to six times. Linear layers begin uniform by fan
in, embeddings normal with standard deviation 1 / sqrt(d_embed): from the published 0.02, meant for
widths of 768 and more, the deeper of these networks learn hardly anything in a short training.
"""

import torch

from autoprox.searchspaces.base import Architecture, one, per_layer
from autoprox.searchspaces.blocks import fan_in_uniform_
from autoprox.searchspaces.gpt2 import GPT2Network, GPT2Space


class GPT2NanoNetwork(GPT2Network):
    """GPT-2 with an initialisation for small widths."""

    linear_rule = staticmethod(fan_in_uniform_)

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Draw every parameter by GPT-2's rule but for the scales of linear layers and tokens."""
        super().initialise(seed)
        weight = self.embedding.weight
        weight.div_(0.02 * weight.shape[1] ** 0.5)


class GPT2NanoSpace(GPT2Space):
    """GPT-2's geometry, scaled to short sequences of bytes."""

    vocabulary = 256
    context = 64

    def network(self, arch: Architecture, classes: int) -> GPT2NanoNetwork:
        """The network with its parameters unset."""
        return GPT2NanoNetwork(self.blocks(arch), arch["d_embed"], self.vocabulary, self.context)


GPT2_NANO = GPT2NanoSpace(
    "gpt2-nano",
    "GPT-2 for sequences of 64 bytes, language models of 7 thousand to 0.8 M parameters",
    {
        "n_layer": one(*range(1, 13)),
        "d_embed": one(16, 24, 32, 48, 64, 96),
        "d_model": per_layer(16, 24, 32, 48, 64, count="n_layer"),
        "d_inner": per_layer(
            *(16, 32, 64, 96, 128, 192, 256, 384),
            count="n_layer",
            where=lambda inner, layer: 0.5 <= inner / layer["d_model"] <= 6,
        ),
        "n_head": per_layer(1, 2, 4, 8, count="n_layer"),
    },
)
