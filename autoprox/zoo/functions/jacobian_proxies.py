"""Measures of the outputs' derivatives by the input or the weights: the neural tangent kernel.

The input of a language model are the embeddings of its tokens. The kernel's function is the sum of
a sample's logits, as in TE-NAS's published code; its parameters are the weights of the blocks'
linear layers.
"""

import math

import torch
from torch import Tensor

from autoprox.zoo.functions.activation_proxies import SERIANNI
from autoprox.zoo.functions.function_proxy_registration import register_function
from autoprox.zoo.functions.shared_network_passes import SharedNetworkPasses

K = 1e-5  # keeps an eigenvalue of zero finite
CORNERS = 8  # of the polygon that stands for a curve
KERNEL_PASSES = ("forward", "logit_gradients", "kernel")


@register_function(
    "jacobian",
    f"{SERIANNI}, after the first version of Mellor et al., Neural Architecture Search without "
    "Training (arXiv, 2020)",
    "-∑ᵢ log(vᵢ + k) + 1 / (vᵢ + k), v the eigenvalues of the correlations of ∂f(xₙ)/∂xₙ",
    needs=("forward", "logit_gradients"),
)
def jacobian_covariance(passes: SharedNetworkPasses) -> float:
    """The lack of correlation of the samples' derivatives; f is the sum of a sample's logits."""
    passes.require_samples("jacobian")
    correlations = torch.corrcoef(passes.logit_gradients[1].flatten(1).double())
    if not correlations.isfinite().all():
        return math.nan
    shifted = torch.linalg.eigvalsh(correlations) + K
    return -float((shifted.log() + 1 / shifted).sum())


@register_function(
    "ld",
    "Chen et al., Auto-scaling Vision Transformers without Training, ICLR 2022",
    "∫ ‖∂z(h(φ))/∂φ‖ dφ / ∫ ‖∂h(φ)/∂φ‖ dφ, h(φ) = √N r (u₁ cos φ + u₂ sin φ)",
    trunk=True,
)
def length_distortion(passes: SharedNetworkPasses) -> float:
    """Length distortion: how much longer a circle of inputs gets on its way through the blocks.

    u are orthonormal directions in the N dimensions of one sample, drawn by the seed, and r is the
    root of the mean square of the batch, so the circle has the size of typical inputs. z is the
    output of the final block. Both lengths are those of polygons with 8 corners, whereas As-ViT
    sums derivatives at 500 points. As-ViT also leaves out the norms, which are kept here.
    """
    source = passes.source
    radius = source.double().square().mean().sqrt()
    corners = radius.cpu() * _circle(source[0].numel(), passes.seed)
    inputs = corners.reshape(CORNERS, *source.shape[1:]).to(source)
    outputs = torch.cat([passes.features(part) for part in torch.split(inputs, passes.samples)])
    return _length(outputs) / _length(inputs)


@register_function(
    "te-nas",
    "Chen et al., Neural Architecture Search on ImageNet in Four GPU Hours: A Theoretically "
    "Inspired Perspective, ICLR 2021",
    "-λ_max(Θ) / λ_min(Θ), Θₘₙ = ⟨∂f(xₘ)/∂θ, ∂f(xₙ)/∂θ⟩",
    needs=KERNEL_PASSES,
)
def ntk_condition_number(passes: SharedNetworkPasses) -> float:
    """The negative condition number of the kernel: how evenly the samples can be learnt.

    TE-NAS adds the rank of the number of linear regions, which networks with GELU don't have; the
    code of Auto-Prox uses this number alone.
    """
    passes.require_samples("te-nas")
    if not passes.kernel.isfinite().all():
        return math.nan
    eigenvalues = torch.linalg.eigvalsh(passes.kernel)
    low, high = eigenvalues[0].item(), eigenvalues[-1].item()
    return -high / low if low > 0 else -math.inf


@register_function(
    "ntk-trace",
    "Shu et al., NASI: Label- and Data-agnostic Neural Architecture Search at Initialization, "
    "ICLR 2022; as a score: Shu et al., Unifying and Boosting Gradient-Based Training-Free Neural "
    "Architecture Search, NeurIPS 2022",
    "√(tr Θ / N), Θₘₙ = ⟨∂f(xₘ)/∂θ, ∂f(xₙ)/∂θ⟩",
    needs=KERNEL_PASSES,
)
def ntk_trace(passes: SharedNetworkPasses) -> float:
    """The distance that one step of gradient descent moves the outputs of the N samples."""
    return math.sqrt(float(passes.kernel.trace()) / passes.samples)


@register_function(
    "mgm",
    "Xu et al., KNAS: Green Neural Architecture Search, ICML 2021",
    "∑ₘₙ Θₘₙ / N², Θₘₙ = ⟨∂f(xₘ)/∂θ, ∂f(xₙ)/∂θ⟩",
    needs=KERNEL_PASSES,
)
def mean_gram_matrix(passes: SharedNetworkPasses) -> float:
    """The mean of the Gram matrix of the samples' gradients."""
    return float(passes.kernel.mean())


def _circle(dimensions: int, seed: int) -> Tensor:
    """Points [CORNERS, dimensions] of root mean square 1, evenly spaced on a circle."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(dimensions, 2, generator=generator, dtype=torch.float64)
    plane: Tensor = torch.linalg.qr(drawn).Q.mT * math.sqrt(dimensions)
    angles = torch.arange(CORNERS, dtype=torch.float64)[:, None] * (2 * math.pi / CORNERS)
    return torch.cat([angles.cos(), angles.sin()], 1) @ plane


def _length(corners: Tensor) -> float:
    """The length of the closed polygon through these points."""
    sides = (corners.roll(-1, 0) - corners).flatten(1)
    return float(torch.linalg.vector_norm(sides, dim=1, dtype=torch.float64).sum())
