"""The structure of a model's blocks, as its layers and its outputs show it.

Exported proxies contain the functions of this file: they import nothing but torch.
"""

import torch
from torch import Tensor, nn

from autoprox.models.foreign import Foreign
from autoprox.models.layers import blocks, heads_of, is_transposed, weights


def widths(model: nn.Module, layers: dict[str, str]) -> list[int]:
    """The dimension of each block: what goes into its first layer."""
    matrices = weights(model)
    turned = {name for name, module in model.named_modules() if is_transposed(module)}
    firsts = [names[0] for names in blocks(layers).values()]
    return [matrices[name].shape[0 if name in turned else 1] for name in firsts]


def heads_of_blocks(model: nn.Module, layers: dict[str, str]) -> list[int]:
    """The number of attention heads of each block."""
    return [heads_of(model.get_submodule(block)) for block in blocks(layers)]


def tokens_of(model: nn.Module, layers: dict[str, str], inputs: Tensor) -> list[int]:
    """The number of tokens that leave each block for one of the inputs."""
    found: list[int] = []

    def count(module: nn.Module, given: object, output: Tensor | tuple[Tensor, ...]) -> None:
        first = output[0] if isinstance(output, tuple) else output
        found.append(first.numel() // first.shape[-1])

    handles = [model.get_submodule(block).register_forward_hook(count) for block in blocks(layers)]
    try:
        with torch.no_grad():
            Foreign(model)(inputs[:1])
    finally:
        for handle in handles:
            handle.remove()
    return found
