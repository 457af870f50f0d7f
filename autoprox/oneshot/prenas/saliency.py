"""How salient the parts of one random supernet are: SNIP of every subnet from one measurement.

The settings are those of PreNAS's released code: Gaussian images, the sum of all outputs as loss,
stochastic depth. A subnet's parameters are the first entries of the supernet's, and so its SNIP
(Lee et al., "SNIP: Single-Shot Network Pruning", ICLR 2019) is a sum of first entries of |w g|.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from autoprox.inputs.images import MEAN, STD
from autoprox.oneshot.prenas.released import draw_released
from autoprox.oneshot.supernet.slices import Supernet, first_entries
from autoprox.oneshot.supernet.stochastic_depth import drop_rates, kept_branches, weighted_branches
from autoprox.parallel.threads import one_thread
from autoprox.searchspaces import Architecture, SearchSpace, TransformerNetwork
from autoprox.searchspaces.autoformer import SupernetSpace

AT_ONCE = 8  # images; the gradient of a sum is the sum of gradients
DROP_PATH = 0.1


@dataclass(frozen=True)
class Saliency:
    """|w g| of every parameter of a supernet, and the products of the sums of |w| and of |g|.

    `places` says which block has a parameter; those outside are of the block after the last.
    """

    space: SearchSpace
    classes: int
    products: Mapping[str, Tensor]
    magnitudes: Mapping[str, float]
    places: Mapping[str, int]
    depth: int

    def sums(self, arch: Architecture) -> dict[str, float]:
        """Of each parameter of a subnet, the sum of |w g|."""
        with torch.device("meta"):
            network = self.space.network(arch, self.classes)
        return {
            name: float(first_entries(self.products[name], own).sum())
            for name, own in network.named_parameters()
        }


@one_thread()
def measure_saliency(
    space: SearchSpace, classes: int = 1000, images: int = 64, seed: int = 0, released: bool = False
) -> Saliency:
    """Pass Gaussian images through a random supernet, forward and back.

    Where it is `released`, the weights of AutoFormer's supernets are those that the authors' code
    draws, and so are images and dropped branches, from the same generator after them.
    """
    supernet, generator = Supernet(space, classes, seed), torch.Generator().manual_seed(seed)
    network = supernet.network.train()
    if released and isinstance(space, SupernetSpace):
        draw_released(supernet, space, generator)
    inputs = torch.empty(images, *space.input_shape)
    for channel, (mean, std) in enumerate(zip(MEAN.tolist(), STD.tolist(), strict=True)):
        inputs[:, channel].normal_(mean, std, generator=generator)
    kept = kept_branches(network, drop_rates(network, DROP_PATH), images, generator)
    for some in torch.split(torch.arange(images), AT_ONCE):
        with weighted_branches({branch: own[some] for branch, own in kept.items()}):
            network(inputs[some]).sum().backward()
    pairs = {
        name: (parameter.detach().double().abs(), supernet.gradient(name).double().abs())
        for name, parameter in supernet.parameters.items()
    }
    return Saliency(
        space,
        classes,
        {name: weight * gradient for name, (weight, gradient) in pairs.items()},
        {name: float(weight.sum() * gradient.sum()) for name, (weight, gradient) in pairs.items()},
        _places(network),
        len(network.transformer_blocks),
    )


def _places(network: TransformerNetwork) -> dict[str, int]:
    blocks = network.transformer_blocks
    owners = {id(p): place for place, block in enumerate(blocks) for p in block.parameters()}
    return {name: owners.get(id(p), len(blocks)) for name, p in network.named_parameters()}
