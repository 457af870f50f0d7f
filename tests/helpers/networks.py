"""Tiny networks, and the noise that they see."""

import random
from collections.abc import Iterator

import numpy as np
import torch

from autoprox.inputs.batch import Batch
from autoprox.inputs.batch_loading import load_image_batch
from autoprox.searchspaces import Architecture, TransformerNetwork, get_space

torch.set_num_threads(1)

SPACE = get_space("autoformer-nano")


def tiny(width: int, *blocks: tuple[int, float]) -> Architecture:
    """A network of this width with (heads, MLP ratio) of each block."""
    heads, ratios = zip(*blocks, strict=True)
    choices = {"hidden_dim": width, "depth": len(blocks), "num_heads": heads, "mlp_ratio": ratios}
    return Architecture(SPACE.name, choices)


def noise(classes: int, size: int = 2, seed: int = 0) -> Batch:
    return load_image_batch("noise", SPACE.input_shape, size, seed, classes=classes)


def everything(network: TransformerNetwork) -> Iterator[object]:
    """All of a network's state, and of the random generators, that a pass might change."""
    for name, module in network.named_modules():
        yield name, module.training
        for hooks in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks"):
            yield tuple(getattr(module, hooks))
    for name, parameter in network.named_parameters():
        yield name, id(parameter), parameter.requires_grad, parameter._version, id(parameter.grad)
        yield parameter.detach().numpy().tobytes()
        yield None if parameter.grad is None else parameter.grad.numpy().tobytes()
    yield torch.is_grad_enabled()
    yield torch.get_rng_state().numpy().tobytes()
    yield repr(np.random.get_state())
    yield random.getstate()


def prepared(network: TransformerNetwork) -> TransformerNetwork:
    """A network that someone is in the middle of using."""
    network.train()
    mlp = [layer for domain, layer in network.layers() if domain == "mlp"]
    network.transformer_blocks[0].eval()
    mlp[0].weight.requires_grad_(False)
    mlp[2].weight.grad = torch.ones_like(mlp[2].weight)
    mlp[3].register_forward_hook(lambda *seen: None)
    return network
