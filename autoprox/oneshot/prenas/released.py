"""The random supernet of PreNAS's released code: its weights, drawn in its order.

The authors' supernet is as wide as all of its heads together, of which the widest subnet is a
slice, and the rows of qkv take turns: a query's, a key's, a value's. Every layer is drawn by
PyTorch's rule first, most of them by Xavier's next, and all linear ones by AutoFormer's in the end.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from autoprox.oneshot.supernet.slices import Supernet, first_entries
from autoprox.searchspaces.autoformer import POSITION_ROWS, SUPERNET_HEAD_DIM, SupernetSpace
from autoprox.searchspaces.transformer import CHANNELS

STD = 0.02


def draw_released(supernet: Supernet, space: SupernetSpace, generator: torch.Generator) -> None:
    """Set the parameters as the released code does where its global generator has this state."""
    drawn = dict(_drawn(space, supernet.classes, generator))
    network = space.network(space.largest(), supernet.classes)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name in drawn:
                parameter.copy_(first_entries(drawn[name], parameter))
            else:  # biases, and the scales of norms
                parameter.fill_("norm" in name and name.endswith("weight"))
        for block in network.transformer_blocks:
            block.reorder(True)
        for name, parameter in network.named_parameters():
            supernet.parameters[name].copy_(parameter)


def _drawn(
    space: SupernetSpace, classes: int, generator: torch.Generator
) -> Iterator[tuple[str, Tensor]]:
    """The parameters that don't begin with constants, by their names in the network."""
    largest = space.largest()
    width = SUPERNET_HEAD_DIM * max(largest["num_heads"])
    hidden = int(width * max(largest["mlp_ratio"]))
    blocks = [f"blocks.{number}" for number in range(largest["depth"])]
    of_block = {
        "qkv": (3 * width, width),
        "proj": (width, width),
        "fc1": (hidden, width),
        "fc2": (width, hidden),
    }

    def forget(name: str) -> None:
        """A linear layer's first values: weight and bias, then Xavier's, but for qkv."""
        rows, columns = of_block.get(name, (classes, width))
        twice = name != "qkv"
        torch.empty(rows * columns * (1 + twice) + rows).uniform_(generator=generator)

    bound = 1 / math.sqrt(CHANNELS * space.patch**2)
    kernels = torch.empty(width, CHANNELS, space.patch, space.patch)
    for name, values in (("weight", kernels), ("bias", torch.empty(width))):
        yield f"patches.{name}", values.uniform_(-bound, bound, generator=generator)
    for block in blocks:
        forget("qkv")
        for of in ("key_positions", "value_positions"):
            for _ in range(2):
                torch.randn(POSITION_ROWS, SUPERNET_HEAD_DIM, generator=generator)
            for axis in ("vertical", "horizontal"):
                yield (
                    f"{block}.{of}.{axis}.weight",
                    _normal(generator, POSITION_ROWS, SUPERNET_HEAD_DIM),
                )
        for name in ("proj", "fc1", "fc2"):
            forget(name)
    yield "position", _normal(generator, 1, 1 + space.patches, width)
    yield "class_token", _normal(generator, 1, 1, width)
    forget("head")
    for block in blocks:
        for name, shape in of_block.items():
            weight = _normal(generator, *shape)
            if name == "qkv":
                weight = torch.cat([weight[first::3] for first in range(3)])
            yield f"{block}.{name}.weight", weight
    yield "head.weight", _normal(generator, classes, width)


def _normal(generator: torch.Generator, *shape: int) -> Tensor:
    """Truncated at 2, a hundred deviations: uniform numbers through the inverse of the error."""
    edge = math.erf(2 / STD / math.sqrt(2))
    numbers = torch.empty(shape).uniform_(-edge, edge, generator=generator)
    return numbers.erfinv_().mul_(STD * math.sqrt(2)).clamp_(-2, 2)
