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
from autoprox.parallel.threads import one_thread
from autoprox.searchspaces import Architecture, SearchSpace, TransformerNetwork
from autoprox.supernet.slices import Supernet, first_entries
from autoprox.supernet.stochastic_depth import drop_branches, drop_rates

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


def measure_saliency(
    space: SearchSpace, classes: int = 1000, images: int = 64, seed: int = 0
) -> Saliency:
    """Pass Gaussian images through a random supernet, forward and back."""
    supernet = Supernet(space, classes, seed)
    network, generator = supernet.network.train(), torch.Generator().manual_seed(seed)
    drop_branches(network, drop_rates(network, DROP_PATH), generator)
    noise = torch.randn(images, *space.input_shape, generator=generator)
    mean, std = (torch.from_numpy(values)[:, None, None] for values in (MEAN, STD))
    with one_thread():
        for some in torch.split(noise * std + mean, AT_ONCE):
            network(some).sum().backward()
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
