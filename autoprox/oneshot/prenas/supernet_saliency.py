"""SNIP of every subnet from one backward pass through a random supernet.

The settings are those of PreNAS's released code: Gaussian images, the sum of all outputs as loss,
stochastic depth. A subnet's parameters are leading slices of the supernet's, and so its SNIP (Lee
et al., "SNIP: Single-Shot Network Pruning", ICLR 2019) is a sum over leading slices of |w g|.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from autoprox.inputs.batch_loading import IMAGENET_MEAN, IMAGENET_STD
from autoprox.oneshot.supernet.regularisation import (
    draw_branch_weights,
    drop_path_rates,
    weighted_branches,
)
from autoprox.oneshot.supernet.shared_weights import Supernet, leading_slice
from autoprox.parallel.threads import single_torch_thread
from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.searchspaces.autoformer import (
    POSITION_ROWS,
    SUPERNET_HEAD_DIM,
    AutoFormerSupernetSpace,
)
from autoprox.searchspaces.transformer import CHANNELS

BACKWARD_BATCH = 8  # images; the gradient of a sum is the sum of gradients
DROP_PATH = 0.1
INITIAL_STD = 0.02


@dataclass(frozen=True)
class SupernetSaliency:
    """|w g| of every parameter of a supernet, and the products of the sums of |w| and of |g|.

    `blocks` has the index of each parameter's block, which is `depth` outside of the blocks.
    """

    space: SearchSpace
    classes: int
    products: Mapping[str, Tensor]
    magnitudes: Mapping[str, float]
    blocks: Mapping[str, int]
    depth: int

    def sums(self, arch: Architecture) -> dict[str, float]:
        """Return the sum of |w g| of each parameter of a subnet."""
        with torch.device("meta"):
            network = self.space.network(arch, self.classes)
        return {
            name: float(leading_slice(self.products[name], parameter).sum())
            for name, parameter in network.named_parameters()
        }


@single_torch_thread()
def measure_saliency(
    space: SearchSpace, classes: int = 1000, images: int = 64, seed: int = 0, released: bool = False
) -> SupernetSaliency:
    """Pass Gaussian images through a random supernet, forward and back.

    If it is `released`, the weights of AutoFormer's supernets are those that the authors' code
    draws, and so are images and dropped branches, from the same generator after them.
    """
    supernet, generator = Supernet(space, classes, seed), torch.Generator().manual_seed(seed)
    network = supernet.network.train()
    if released and isinstance(space, AutoFormerSupernetSpace):
        set_released_weights(supernet, space, generator)
    inputs = torch.empty(images, *space.input_shape)
    statistics = zip(IMAGENET_MEAN.tolist(), IMAGENET_STD.tolist(), strict=True)
    for channel, (mean, std) in enumerate(statistics):
        inputs[:, channel].normal_(mean, std, generator=generator)
    weights = draw_branch_weights(network, drop_path_rates(network, DROP_PATH), images, generator)
    for some in torch.split(torch.arange(images), BACKWARD_BATCH):
        with weighted_branches({branch: weight[some] for branch, weight in weights.items()}):
            network(inputs[some]).sum().backward()
    pairs = {
        name: (parameter.detach().double().abs(), supernet.gradient(name).double().abs())
        for name, parameter in supernet.parameters.items()
    }
    blocks = network.transformer_blocks
    owners = {id(p): index for index, block in enumerate(blocks) for p in block.parameters()}
    return SupernetSaliency(
        space,
        classes,
        {name: weight * gradient for name, (weight, gradient) in pairs.items()},
        {name: float(weight.sum() * gradient.sum()) for name, (weight, gradient) in pairs.items()},
        {name: owners.get(id(p), len(blocks)) for name, p in supernet.parameters.items()},
        len(blocks),
    )


def set_released_weights(
    supernet: Supernet, space: AutoFormerSupernetSpace, generator: torch.Generator
) -> None:
    """Set the weights that PreNAS's released code draws if its global generator has this state.

    The authors' supernet is as wide as all of its heads together, the widest subnet a slice of it,
    and the rows of its qkv alternate between queries, keys and values.
    """
    drawn = dict(_released_weights(space, supernet.classes, generator))
    network = space.network(space.largest(), supernet.classes)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name in drawn:
                parameter.copy_(leading_slice(drawn[name], parameter))
            else:  # biases, and the scales of norms
                parameter.fill_("norm" in name and name.endswith("weight"))
        for block in network.transformer_blocks:
            block.reorder(True)
        for name, parameter in network.named_parameters():
            supernet.parameters[name].copy_(parameter)


def _released_weights(
    space: AutoFormerSupernetSpace, classes: int, generator: torch.Generator
) -> Iterator[tuple[str, Tensor]]:
    """Draw, in the released code's order, the parameters that don't begin with constants.

    Every layer is first drawn by PyTorch's rule, most of them then by Xavier's, and in the end all
    linear ones by AutoFormer's.
    """
    largest = space.largest()
    width = SUPERNET_HEAD_DIM * max(largest["num_heads"])
    hidden = int(width * max(largest["mlp_ratio"]))
    blocks = [f"blocks.{number}" for number in range(largest["depth"])]
    shapes = {
        "qkv": (3 * width, width),
        "proj": (width, width),
        "fc1": (hidden, width),
        "fc2": (width, hidden),
    }

    def discard(name: str) -> None:
        """Draw a linear layer's first values: weight and bias, then Xavier's, except for qkv."""
        rows, columns = shapes.get(name, (classes, width))
        twice = name != "qkv"
        torch.empty(rows * columns * (1 + twice) + rows).uniform_(generator=generator)

    def normal(*shape: int) -> Tensor:
        """Invert the error function, truncated at 2, which is a hundred standard deviations."""
        edge = math.erf(2 / INITIAL_STD / math.sqrt(2))
        numbers = torch.empty(shape).uniform_(-edge, edge, generator=generator)
        return numbers.erfinv_().mul_(INITIAL_STD * math.sqrt(2)).clamp_(-2, 2)

    bound = 1 / math.sqrt(CHANNELS * space.patch**2)
    kernels = torch.empty(width, CHANNELS, space.patch, space.patch)
    for name, values in (("weight", kernels), ("bias", torch.empty(width))):
        yield f"patches.{name}", values.uniform_(-bound, bound, generator=generator)
    for block in blocks:
        discard("qkv")
        for positions in ("key_positions", "value_positions"):
            for _ in range(2):
                torch.randn(POSITION_ROWS, SUPERNET_HEAD_DIM, generator=generator)
            for axis in ("vertical", "horizontal"):
                yield f"{block}.{positions}.{axis}.weight", normal(POSITION_ROWS, SUPERNET_HEAD_DIM)
        for name in ("proj", "fc1", "fc2"):
            discard(name)
    yield "position", normal(1, 1 + space.patches, width)
    yield "class_token", normal(1, 1, width)
    discard("head")
    for block in blocks:
        for name, shape in shapes.items():
            weight = normal(*shape)
            if name == "qkv":
                weight = torch.cat([weight[first::3] for first in range(3)])
            yield f"{block}.{name}.weight", weight
    yield "head.weight", normal(classes, width)
