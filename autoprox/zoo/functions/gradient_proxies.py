"""Measures of the loss's derivatives by the weights.

The weights are those of the blocks' linear layers, the layers of which T-Razor and ETAS take such
proxies; in the papers below they are those of convolutions. The loss is the cross-entropy of the
batch or, where gradients of samples are compared, of each sample by itself.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from autoprox.zoo.functions.activation_proxies import sample_wise_patterns
from autoprox.zoo.functions.function_proxy_registration import register_function
from autoprox.zoo.functions.shared_network_passes import SharedNetworkPasses


@register_function(
    "grasp",
    "Wang et al., Picking Winning Tickets Before Training by Preserving Gradient Flow, ICLR 2020; "
    "as a score: Abdelfattah et al., Zero-Cost Proxies for Lightweight NAS, ICLR 2021",
    "-∑ θ ⊙ H ∂L/∂θ",
)
def grasp(passes: SharedNetworkPasses) -> float:
    """The rate at which half the squared gradient norm falls as all weights grow in proportion.

    H is the Hessian of the loss with respect to the weights θ; its product with the gradient is
    exact.
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

    Each sample is a mini-batch; the variance is the population's. As in the published code, weights
    without variance are left out, and so are layers that have no others.
    """
    passes.require_samples("zico")
    return sum(_log(mean.div_(spread)) for mean, spread in _gradient_sizes(passes))


def _gradient_sizes(passes: SharedNetworkPasses) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield the mean and the standard deviation of each layer's gradient sizes over the samples.

    A standard deviation of zero is replaced by infinity: what it divides becomes zero.
    """
    for gradients in passes.sample_gradients():
        size = gradients.abs_()
        mean = size.mean(0)
        spread = size.sub_(mean).square_().mean(0).sqrt_()
        yield mean, spread.masked_fill_(spread == 0, torch.inf)


def _log(ratios: Tensor) -> float:
    """Return the logarithm of the sum, and 0 for a layer without variance."""
    total = float(ratios.sum(dtype=torch.float64))
    return math.log(total) if total else 0.0


@register_function(
    "l-swag",
    "Casarin et al., L-SWAG: Layer-Sample Wise Activation with Gradients Information for Zero-Shot "
    "NAS on Vision Transformers, CVPR 2025, eq. 1, 7 and 8",
    "Ψ ∑ₗ log ∑ₖ 1 / √Var|∂Lₙ/∂θₖ|, k over the weights of layer l, Ψ the score of swap",
    needs=("forward", "loss_gradients"),
)
def l_swag(passes: SharedNetworkPasses) -> float:
    """The steadiness of the samples' gradients, times the number of activation patterns.

    The samples and weights are those of `zico`, and the units those of `swap`. The paper restricts
    both to a range of layers that a plot of the gradients of 1,000 networks shows for a benchmark;
    here all layers count. Its combination LIBRA chooses proxies by the true scores of the
    benchmark, so it isn't a zero-cost proxy.
    """
    passes.require_samples("l-swag")
    steadiness = sum(_log(spread.reciprocal()) for _, spread in _gradient_sizes(passes))
    return steadiness * sample_wise_patterns(passes)


@register_function(
    "prenas",
    "Wang et al., PreNAS: Preferred One-Shot Learning Towards Efficient Neural Architecture "
    "Search, ICML 2023, eq. 13",
    "∑ₗ ‖θₗ ⊙ ∂L/∂θₗ‖₁ / (‖θₗ‖₁ ‖∂L/∂θₗ‖₁)",
    needs=("forward", "loss_gradients", "weight_gradients"),
)
def relative_snip(passes: SharedNetworkPasses) -> float:
    """SNIP, with each layer relative to the size of its weights and gradients.

    PreNAS takes both sizes from the largest network of a supernet, whose layers contain those of
    the candidate; here they are the sizes of the network's own weights and gradients.
    """
    total = 0.0
    for layer, gradient in zip(passes.forward.layers, passes.weight_gradients, strict=True):
        parts = (layer.weight * gradient, layer.weight, gradient)
        both, weight, size = (float(part.abs().sum(dtype=torch.float64)) for part in parts)
        total += both / (weight * size) if weight * size else math.nan
    return total


@register_function(
    "lpzero-released",
    "Dong et al., LPZero: Language Model Zero-cost Proxy Search from Zero, Findings of EMNLP 2024, "
    "the tree that its code calls the best so far",
    "1/L ∑ₗ E[θₗ²] + E[softmax(∂L/∂θₗ)²], E the mean over the weights of layer l",
    needs=("forward", "loss_gradients", "weight_gradients"),
)
def squared_weights_and_softmax(passes: SharedNetworkPasses) -> float:
    """The mean square of weights and of the softmax of their gradients, averaged over layers.

    Another version of the same file has a tree of weights and activations instead. The softmax is
    over the outputs of a layer, the first dimension of a weight in PyTorch. The code takes the
    linear layers of the attention modules; here they are those of whole blocks.
    """
    layers = passes.forward.layers
    total = 0.0
    for layer, gradient in zip(layers, passes.weight_gradients, strict=True):
        for values in (layer.weight, gradient.softmax(0)):
            total += float(values.square().mean(dtype=torch.float64))
    return total / len(layers)
