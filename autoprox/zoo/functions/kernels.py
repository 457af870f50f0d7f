"""Measures of the neural tangent kernel.

Its function is the sum of a sample's logits, as in TE-NAS's published code; its parameters are the
weights of the blocks' linear layers.
"""

import math

import torch

from autoprox.zoo.functions.passes import Passes
from autoprox.zoo.functions.registry import register

NEEDS = ("forward", "logit_gradients", "kernel")


@register(
    "te-nas",
    "Chen et al., Neural Architecture Search on ImageNet in Four GPU Hours: A Theoretically "
    "Inspired Perspective, ICLR 2021",
    "-λ_max(Θ) / λ_min(Θ), Θₘₙ = ⟨∂f(xₘ)/∂θ, ∂f(xₙ)/∂θ⟩",
    needs=NEEDS,
)
def te_nas(passes: Passes) -> float:
    """How evenly the samples can be learnt: the kernel's condition number, negative.

    TE-NAS adds the rank of the number of linear regions, which networks with GELU don't have; this
    number alone is what the code of Auto-Prox compares with.
    """
    passes.require_samples("te-nas")
    if not passes.kernel.isfinite().all():
        return math.nan
    eigenvalues = torch.linalg.eigvalsh(passes.kernel)
    low, high = eigenvalues[0].item(), eigenvalues[-1].item()
    return -high / low if low > 0 else -math.inf


@register(
    "ntk-trace",
    "Shu et al., NASI: Label- and Data-agnostic Neural Architecture Search at Initialization, "
    "ICLR 2022; as a score: Shu et al., Unifying and Boosting Gradient-Based Training-Free Neural "
    "Architecture Search, NeurIPS 2022",
    "√(tr Θ / N), Θₘₙ = ⟨∂f(xₘ)/∂θ, ∂f(xₙ)/∂θ⟩",
    needs=NEEDS,
)
def ntk_trace(passes: Passes) -> float:
    """How far one step of gradient descent moves the outputs of the N samples."""
    return math.sqrt(float(passes.kernel.trace()) / passes.samples)


@register(
    "mgm",
    "Xu et al., KNAS: Green Neural Architecture Search, ICML 2021",
    "∑ₘₙ Θₘₙ / N², Θₘₙ = ⟨∂f(xₘ)/∂θ, ∂f(xₙ)/∂θ⟩",
    needs=NEEDS,
)
def mgm(passes: Passes) -> float:
    """The mean of the Gram matrix of the samples' gradients."""
    return float(passes.kernel.mean())
