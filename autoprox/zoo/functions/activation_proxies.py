"""Measures of the activations of a forward pass.

The papers binarise the activations by whether ReLU lets them pass. Here these are the inputs of the
GELU in a block's MLP, the outputs of fc1 (and of further linear layers but the last), whose sign
GELU keeps.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from autoprox.zoo.functions.function_proxy_registration import register_function
from autoprox.zoo.functions.shared_network_passes import FunctionProxyError, SharedNetworkPasses

SERIANNI = (
    "Serianni and Kalita, Training-free Neural Architecture Search for RNNs and Transformers, "
    "ACL 2023"
)

# How many of a head's projections there are in a linear layer of this name.
PROJECTIONS = {"q": 1, "kv": 2, "qkv": 3, "input": 1, "weight": 1}
BITS = 64  # samples in a word of an activation pattern
VARIANCE_SHARE = 0.99  # of the principal components that count


def hidden_outputs(passes: SharedNetworkPasses) -> Iterator[Tensor]:
    """Yield what enters the GELU of each hidden layer of the MLPs: [samples, tokens, units]."""
    for block in passes.forward.blocks:
        *hidden, _ = [layer for layer in block if layer.domain == "mlp"]
        for layer in hidden:
            yield layer.output


def _active(passes: SharedNetworkPasses) -> Iterator[Tensor]:
    """Yield the active units of each hidden layer of the MLPs: [samples, tokens, units]."""
    return (output > 0 for output in hidden_outputs(passes))


@register_function(
    "naswot",
    "Mellor et al., Neural Architecture Search without Training, ICML 2021",
    "log |det K|, Kₘₙ = N_A - Hamming distance of cₘ and cₙ",
    trunk=True,
)
def naswot(passes: SharedNetworkPasses) -> float:
    """The diversity of the samples' codes: which of the N_A units of all tokens are active.

    As in the code of Auto-Prox, weights are redrawn from N(0, 1), and biases are 0.
    """
    passes.require_samples("naswot")
    kernel = torch.zeros(passes.samples, passes.samples, dtype=torch.float64)
    for active in _active(passes.redrawn()):
        signs = active.flatten(1).float().mul_(2).sub_(1)
        kernel += ((signs @ signs.mT).double() + signs.shape[1]).cpu() / 2
    return float(torch.linalg.slogdet(kernel).logabsdet)


@register_function(
    "activation_distance",
    f"{SERIANNI}, after Mellor et al., Neural Architecture Search without Training, ICML 2021",
    "∑ₗ ∑ₜₛ N_A - Hamming distance of cₗₜ and cₗₛ",
    needs=("forward",),
    trunk=True,
)
def activation_distance(passes: SharedNetworkPasses) -> float:
    """The similarity of the tokens' codes: which of a hidden layer's N_A units are active.

    As in the published code, it is a sum over all pairs of tokens t and s of a sequence, including
    each token with itself. Here it is the mean over the samples; the published code takes only the
    first sample.
    """
    total = 0.0
    for active in _active(passes):
        count = active.sum(1, dtype=torch.float64)  # of a unit active in n of N tokens, pairs that
        others = active.shape[1] - count  # agree are n^2 + (N - n)^2
        total += float((count.square() + others.square()).sum())
    return total / passes.samples


def sample_wise_patterns(passes: SharedNetworkPasses) -> int:
    """Count the different activation patterns: in which samples a unit of a token is active."""
    layers = [_pattern_words(active.flatten(1)) for active in _active(passes)]
    found = torch.zeros(sum(words.shape[1] for words in layers), dtype=torch.int64)
    for word in torch.cat(layers, 1):
        _, codes = torch.unique(word, return_inverse=True)
        _, found = torch.unique(found * len(codes) + codes, return_inverse=True)
    return int(found.max()) + 1


def _pattern_words(active: Tensor) -> Tensor:
    """Return the column of each unit of active units [samples, units] as words [words, units]."""
    words = torch.zeros(math.ceil(len(active) / BITS), active.shape[1], dtype=torch.int64)
    for sample, row in enumerate(active.cpu()):
        words[sample // BITS] |= row.long() << sample % BITS
    return words


@register_function(
    "swap",
    "Peng et al., SWAP-NAS: Sample-Wise Activation Patterns for Ultra-fast NAS, ICLR 2024",
    "|{(1[fᵤ(xₙ) > 0])ₙ : u}|, u over the hidden units of all tokens, n over the samples",
    needs=("forward",),
    trunk=True,
)
def swap(passes: SharedNetworkPasses) -> float:
    """The number of different sample-wise activation patterns of the units.

    The paper's regularisation, a bell curve over the number of parameters whose centre and width
    are chosen for each search, is left out. N samples have at most 2^N patterns, so with few
    samples the networks that reach all of them tie.
    """
    passes.require_samples("swap")
    return float(sample_wise_patterns(passes))


def principal_variances(features: Tensor) -> Tensor:
    """Return the variances of features [tokens, features] along their components, largest first.

    They are sums of squares in float64, not divided by the number of tokens.
    """
    deviations = features.double() - features.mean(0, dtype=torch.float64)
    if len(deviations) > deviations.shape[1]:
        deviations = deviations.mT
    ascending: Tensor = torch.linalg.eigvalsh(deviations @ deviations.mT)
    return ascending.clamp_(min=0).flip(0)


@register_function(
    "w-pca",
    "Wang, W-PCA Based Gradient-Free Proxy for Efficient Search of Lightweight Language Models, "
    "ICLR 2025, eq. 6 to 8",
    "P ∑ₗ min{k : ∑ᵢ₌₁..ₖ λₗᵢ ≥ 0.99 ∑ᵢ λₗᵢ}, λₗ the variances of hidden layer l's principal "
    "components, P the number of parameters",
    needs=("forward",),
)
def weighted_pca(passes: SharedNetworkPasses) -> float:
    """The dimensions that the inputs of the MLPs' GELU span, times the number of parameters.

    The dimensions of a layer are the principal components with 99 % of the variance over all tokens
    of all samples, the share that the paper uses. All parameters count, including those of
    embeddings and head.
    """
    dimensions = 0
    for output in hidden_outputs(passes):
        cumulated = principal_variances(output.flatten(0, 1)).cumsum(0)
        dimensions += 1 + int((cumulated < VARIANCE_SHARE * cumulated[-1]).sum())
    return float(dimensions * sum(p.numel() for p in passes.network.parameters()))


@register_function(
    "meco",
    "Jiang et al., MeCo: Zero-Shot NAS with One Data and Single Forward Pass via Minimum "
    "Eigenvalue of Correlation, NeurIPS 2023",
    "∑ₗ λ_min(P(fₗ)), P the Pearson correlations of a feature map's rows",
    needs=("forward",),
    trunk=True,
)
def meco(passes: SharedNetworkPasses) -> float:
    """The independence of the first sample's tokens in the output of each linear layer.

    A feature map is the output of a linear layer, and its rows are the tokens. The published code
    compares these too; there are more features than tokens, so features would always be dependent.
    As in that code, a token whose features are all equal has no correlation with others.
    """
    total = 0.0
    for layer in passes.forward.layers:
        correlations = torch.corrcoef(layer.output[0].double()).nan_to_num(0.0)
        total += float(torch.linalg.eigvalsh(correlations)[0])
    return total


@register_function(
    "head_confidence",
    f"{SERIANNI}, after Voita et al., Analyzing Multi-Head Self-Attention: Specialized Heads Do "
    "the Heavy Lifting, the Rest Can Be Pruned, ACL 2019",
    "∑ₗ E max_t fₗₜ, fₗ the queries, the keys or the values of all heads in a block",
    needs=("forward",),
    trunk=True,
)
def head_confidence(passes: SharedNetworkPasses) -> float:
    """The confidence of the heads: the mean over their features of the maximum over tokens.

    This is what the published code computes and what gives the published correlation; the code also
    has the confidence of the softmax, which is lower. A linear layer for all queries, keys and
    values counts as three. If heads mix tokens by a transform, the input of the transform is
    measured.
    """
    named = [layer for layer in passes.forward.layers if layer.name in PROJECTIONS]
    if not named:
        raise FunctionProxyError(
            f"head_confidence needs linear layers named {', '.join(PROJECTIONS)}, "
            f"but this {type(passes.network).__name__} has none"
        )
    means = (layer.output.amax(1).mean(dtype=torch.float64) for layer in named)
    parts = (PROJECTIONS[layer.name] for layer in named)
    return sum(part * float(mean) for part, mean in zip(parts, means, strict=True))
