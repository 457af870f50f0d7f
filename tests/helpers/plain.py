"""Statistics by plain PyTorch."""

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from autoprox.language import STATISTICS, Statistic
from autoprox.searchspaces import TransformerNetwork
from helpers.networks import tiny

ARCH = tiny(9, (2, 2.0), (1, 1.0))


SINGLE = [s for s in STATISTICS.values() if s.domain != "all"]


def plainly(
    network: TransformerNetwork,
    loss_of: Callable[[Tensor, Tensor], Tensor],
    images: Tensor,
    absolute: bool = False,
) -> dict[str, list[Tensor]]:
    """The six quantities; the loss is a function of the logits and the last block's output."""
    network = copy.deepcopy(network)
    if absolute:
        for parameter in network.parameters():
            parameter.data.abs_()
    blocks = list(network.blocks)
    outputs: list[Tensor] = []

    def keep(module: nn.Module, inputs: object, output: Tensor) -> None:
        output.retain_grad()
        outputs.append(output)

    for block in blocks:
        block.fc1.register_forward_hook(keep)
        block.fc2.register_forward_hook(keep)
    last: list[Tensor] = []
    blocks[-1].register_forward_hook(lambda module, inputs, output: last.append(output))
    loss_of(network(images), last[0]).backward()
    msa = [layer for block in blocks for layer in (block.qkv, block.proj)]
    mlp = [layer for block in blocks for layer in (block.fc1, block.fc2)]
    return {
        "msa.weight": [layer.weight.detach() for layer in msa],
        "msa.grad": [layer.weight.grad for layer in msa],
        "mlp.weight": [layer.weight.detach() for layer in mlp],
        "mlp.grad": [layer.weight.grad for layer in mlp],
        "mlp.act": [out.detach().reshape(-1, out.shape[-1]) for out in outputs],
        "mlp.act_grad": [out.grad.reshape(-1, out.shape[-1]) for out in outputs],
    }


def assert_same(
    found: dict[Statistic, list[Tensor]], probe: str, plain: dict[str, list[Tensor]]
) -> None:
    for name, expected in plain.items():
        matrices = found[STATISTICS[f"{probe}{name}"]]
        assert len(matrices) == len(expected) == 4
        for matrix, value in zip(matrices, expected, strict=True):
            assert matrix.shape == value.shape
            assert matrix.dtype == torch.float32
            assert value.norm() > 0
            assert (matrix - value).norm() <= 1e-5 * value.norm(), name
