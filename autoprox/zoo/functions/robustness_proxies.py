"""Measures of how alike a network is to itself after perturbations."""

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from autoprox.statistics.collector import batch_cross_entropy
from autoprox.zoo.functions.function_proxy_registration import register_function
from autoprox.zoo.functions.shared_network_passes import SharedNetworkPasses

WEIGHT_STEP = 2.0  # β: the norm of a layer's perturbation relative to that of its weights
INPUT_STEP = 0.01  # ε: the step of the fast gradient sign method


@register_function(
    "croze",
    "Ha et al., Generalizable Lightweight Proxy for Robust NAS against Diverse Perturbations, "
    "NeurIPS 2023, eq. 3 to 10",
    "∑ₗ (1 + cos(zₗ, zₗ')) (1 + cos(θₗ, θₗ')) |cos(gₗ, gₗ')|",
    needs=("forward", "loss_gradients", "weight_gradients"),
)
def croze(passes: SharedNetworkPasses) -> float:
    """The consistency of features, weights and gradients under perturbations of weights and inputs.

    θ' = θ + β ‖θ‖ g / ‖g‖ for each linear layer of the blocks; the inputs x' = x + ε sign(∂L/∂x),
    of images or of the tokens' embeddings, raise the loss of the network with θ'. z are the outputs
    of a layer and g the gradients of the loss with respect to its weights; a prime marks those of
    the network with θ' for x'. β = 2, ε = 0.01 and weights without the training step of eq. 7 and 8
    are as in the published code. Unlike in that code, cosines are those of whole layers, not summed
    over positions; weights keep their sign; and inputs, which needn't be between 0 and 1, aren't
    clamped.
    """
    pairs = zip(passes.weight_names, passes.forward.layers, passes.weight_gradients, strict=True)
    perturbed = passes.changed(
        {name: _perturbed(layer.weight, gradient) for name, layer, gradient in pairs}
    )
    attacked = perturbed.changed({}, _attack(perturbed))
    perturbed.release(())  # the graph takes memory
    both = zip(passes.forward.layers, attacked.forward.layers, strict=True)
    gradients = zip(passes.weight_gradients, attacked.weight_gradients, strict=True)
    return sum(
        (1 + _cosine(clean.output, other.output))
        * (1 + _cosine(clean.weight, other.weight))
        * abs(_cosine(*pair))
        for (clean, other), pair in zip(both, gradients, strict=True)
    )


def _perturbed(weight: Tensor, gradient: Tensor) -> Tensor:
    """Return the weights after a step up the gradient; without a gradient they stay."""
    norm = gradient.norm()
    step = WEIGHT_STEP * weight.norm() / norm.masked_fill(norm == 0, torch.inf)
    moved: Tensor = weight + step * gradient
    return moved


def _attack(passes: SharedNetworkPasses) -> Tensor:
    """Return the source after a step that raises the loss: the fast gradient sign method."""
    with torch.enable_grad():
        loss = batch_cross_entropy(passes.forward.logits, passes.labels)
        (gradient,) = torch.autograd.grad(loss, passes.forward.source)
    return passes.forward.source.detach() + INPUT_STEP * gradient.sign()


def _cosine(x: Tensor, y: Tensor) -> float:
    """Return the cosine of two tensors as vectors; 0 if one of them is zero."""
    return float(cosine_similarity(x.flatten().double(), y.flatten().double(), dim=0))
