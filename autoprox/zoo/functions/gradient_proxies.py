"""Measures of the loss's derivatives by the weights.

The weights are those of the blocks' linear layers, the layers of which T-Razor and ETAS take such
proxies; in the papers below they are those of convolutions. The loss is the cross-entropy of the
batch or, where gradients of samples are compared, of each sample by itself.
"""

import math

import torch

from autoprox.zoo.functions.function_proxy_registration import register_function
from autoprox.zoo.functions.shared_network_passes import SharedNetworkPasses


@register_function(
    "grasp",
    "Wang et al., Picking Winning Tickets Before Training by Preserving Gradient Flow, ICLR 2020; "
    "as a score: Abdelfattah et al., Zero-Cost Proxies for Lightweight NAS, ICLR 2021",
    "-∑ θ ⊙ H ∂L/∂θ",
)
def grasp(passes: SharedNetworkPasses) -> float:
    """The rate at which half the squared gradient norm falls as all weights grow alike.

    H is the Hessian of the loss by the weights θ; its product with the gradient is exact.
    """
    with torch.enable_grad():
        weights = passes.weights()
        leaves = list(weights.values())
        gradients = torch.autograd.grad(passes.loss(weights), leaves, create_graph=True)
        product = torch.stack([(g.detach() * g).sum() for g in gradients]).sum()
        hessian_gradients = torch.autograd.grad(product, leaves)
    pairs = zip(leaves, hessian_gradients, strict=True)
    return -sum(float((w.detach() * hg).sum(dtype=torch.float64)) for w, hg in pairs)


@register_function(
    "gradsign",
    "Zhang and Jia, GradSign: Model Performance Inference with Theoretical Insights, ICLR 2022",
    "∑ₖ |∑ₙ sign(∂Lₙ/∂θₖ)|",
    needs=("forward", "loss_gradients"),
)
def gradsign(passes: SharedNetworkPasses) -> float:
    """The agreement of the samples on the direction of each weight's step."""
    passes.require_samples("gradsign")
    agreements = (g.sign_().sum(0).abs_() for g in passes.sample_gradients())
    return sum(float(agreement.sum(dtype=torch.float64)) for agreement in agreements)


@register_function(
    "zico",
    "Li et al., ZiCo: Zero-shot NAS via Inverse Coefficient of Variation on Gradients, ICLR 2023",
    "∑ₗ log ∑ₖ E|∂Lₙ/∂θₖ| / √Var|∂Lₙ/∂θₖ|, k over the weights of layer l",
    needs=("forward", "loss_gradients"),
)
def zico(passes: SharedNetworkPasses) -> float:
    """The size of the samples' gradients relative to their spread.

    Each sample is a mini-batch; the variance is the population's. Weights without variance are left
    out, and layers that have no others, as in the published code.
    """
    passes.require_samples("zico")
    total = 0.0
    for gradients in passes.sample_gradients():
        size = gradients.abs_()
        mean = size.mean(0)
        spread = size.sub_(mean).square_().mean(0).sqrt_()
        ratios = mean.div_(spread.masked_fill_(spread == 0, torch.inf))
        layer = float(ratios.sum(dtype=torch.float64))
        total += math.log(layer) if layer else 0.0
    return total


@register_function(
    "prenas",
    "Wang et al., PreNAS: Preferred One-Shot Learning Towards Efficient Neural Architecture "
    "Search, ICML 2023, eq. 13",
    "∑ₗ ‖θₗ ⊙ ∂L/∂θₗ‖₁ / (‖θₗ‖₁ ‖∂L/∂θₗ‖₁)",
    needs=("forward", "loss_gradients", "weight_gradients"),
)
def relative_snip(passes: SharedNetworkPasses) -> float:
    """SNIP, each layer's relative to the size of its weights and of its gradients.

    PreNAS takes both sizes from the largest network of a supernet, of which a candidate's layers
    are parts; here a network stands alone, and they are its own.
    """
    total = 0.0
    for layer, gradient in zip(passes.forward.layers, passes.weight_gradients, strict=True):
        parts = (layer.weight * gradient, layer.weight, gradient)
        both, weight, size = (float(part.abs().sum(dtype=torch.float64)) for part in parts)
        total += both / (weight * size) if weight * size else math.nan
    return total
