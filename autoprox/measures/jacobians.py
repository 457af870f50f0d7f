"""Measures of the outputs' derivatives by the input.

The input of a language model are the embeddings of its tokens.
"""

import math

import torch
from torch import Tensor

from autoprox.measures.activations import SERIANNI
from autoprox.measures.passes import Passes
from autoprox.measures.registry import register

K = 1e-5  # keeps an eigenvalue of zero finite
POINTS = 4  # on the curve


@register(
    "jacobian",
    f"{SERIANNI}, after the first version of Mellor et al., Neural Architecture Search without "
    "Training (arXiv, 2020)",
    "-∑ᵢ log(vᵢ + k) + 1 / (vᵢ + k), v the eigenvalues of the correlations of ∂f(xₙ)/∂xₙ",
    needs=("forward", "logit_gradients"),
)
def jacobian(passes: Passes) -> float:
    """How uncorrelated the samples' derivatives are, f being the sum of a sample's logits."""
    passes.require_samples("jacobian")
    correlations = torch.corrcoef(passes.logit_gradients[1].flatten(1).double())
    if not correlations.isfinite().all():
        return math.nan
    shifted = torch.linalg.eigvalsh(correlations) + K
    return -float((shifted.log() + 1 / shifted).sum())


@register(
    "ld",
    "Chen et al., Auto-scaling Vision Transformers without Training, ICLR 2022",
    "∫ ‖∂z(h(φ))/∂φ‖ dφ / ∫ ‖∂h(φ)/∂φ‖ dφ, h(φ) = √N r (u₁ cos φ + u₂ sin φ)",
)
def ld(passes: Passes) -> float:
    """Length distortion: how much longer a circle of inputs gets on its way through the blocks.

    u are orthonormal directions in the N dimensions of one sample, drawn by the seed, and r is the
    root of the mean square of the batch, so that the circle has the size of what the network is
    made for. z is the output of the final block. As-ViT leaves out the norms of the network, which
    here stay.
    """
    source = passes.source
    radius = source.double().square().mean().sqrt().item()
    points, tangents = _circle(source[0].numel(), passes.seed)
    length = 0.0
    for place, direction in zip(
        points.split(passes.samples), tangents.split(passes.samples), strict=True
    ):
        shape = (len(place), *source.shape[1:])
        primal = (place * radius).reshape(shape).to(source)
        tangent = direction.reshape(shape).to(source)
        with torch.no_grad():
            _, speed = torch.func.jvp(passes.features, (primal,), (tangent,))
        length += speed.flatten(1).norm(dim=1, dtype=torch.float64).sum().item()
    return length / POINTS / math.sqrt(points.shape[1])


def _circle(dimensions: int, seed: int) -> tuple[Tensor, Tensor]:
    """Points [POINTS, dimensions] of root mean square 1 on a circle, and their derivatives."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(dimensions, 2, generator=generator, dtype=torch.float64)
    plane = torch.linalg.qr(drawn).Q.mT * math.sqrt(dimensions)
    angle = torch.arange(POINTS, dtype=torch.float64)[:, None] * (2 * math.pi / POINTS)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat([cos, sin], 1) @ plane, torch.cat([-sin, cos], 1) @ plane
