"""The FlexiBERT space of NAS-Bench-BERT: Serianni and Kalita, "Training-free Neural Architecture
Search for RNNs and Transformers", ACL 2023.

It is a part of the space of Tuli et al., "FlexiBERT: Are Current Transformer Architectures too
Homogeneous and Rigid?", JAIR 2022: each encoder layer mixes its tokens in its own way and has its
own feed-forward layers. The geometry is that of the published networks, ELECTRA's discriminator
(Clark et al., ICLR 2020) with 128 embedding dimensions, and of each operation:

- ``sdp``, ``wma``: self-attention by the scaled dot product; in the second (weighted
  multiplicative) the queries pass one more linear layer, without bias.
- ``dft``, ``dct``: a linear layer, then the real part of the two-dimensional Fourier transform, or
  the cosine transform (type II), of each head's tokens x dimensions; neither is normalised.
- ``dsc5``, ``dsc9``: ConvBERT's dynamic span-based convolution (Jiang et al., NeurIPS 2020) over 5
  or 9 tokens, for one half of the heads, and attention for the other half.

Each of them is followed by an output projection, the residual sum and its normalisation, as in the
published training code; the network of the published measurements leaves these out after ``dft``
and ``dct``. One or three feed-forward layers of the feed-forward dimension, each followed by GELU,
and a linear layer back to the hidden size complete the layer.

ELECTRA trains this encoder to find replaced tokens. That needs a second network, which makes the
replacements. Here the encoder predicts masked tokens instead, with the head of that second network,
whose decoder is the embedding. All initial weights are normal with standard deviation 0.02, and
biases are zero.
"""

import math
from dataclasses import dataclass
from statistics import fmean

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.searchspaces.space import Architecture, one, per_layer_field
from autoprox.searchspaces.t_razor_bert import (
    BERT_CONTEXT,
    BERT_VOCABULARY,
    EPS,
    Bert,
    MaskedLMSpace,
)
from autoprox.searchspaces.transformer import (
    BlockSpec,
    Linear,
    TransformerBlock,
    Uninitialised,
    multi_head_attention,
    normal_,
    split_heads,
)

D_EMBED = 128
ATTENTIONS = ("sdp", "wma")
TRANSFORMS = ("dft", "dct")
CONVOLUTIONS = ("dsc5", "dsc9")
TOKEN_MIXERS = (*ATTENTIONS, *TRANSFORMS, *CONVOLUTIONS)


@dataclass(frozen=True)
class FlexiBlockSpec(BlockSpec):
    """The structure of one encoder layer, with `stack` feed-forward layers of size `hidden`."""

    operation: str
    stack: int

    @property
    def kernel(self) -> int:
        """The number of tokens that the convolution spans; only of `dsc`."""
        return int(self.operation.removeprefix("dsc"))

    @property
    def linears(self) -> list[tuple[int, int]]:
        """The inputs and outputs of every linear layer with a bias."""
        width, half, hidden = self.width, self.width // 2, self.hidden
        if self.operation in TRANSFORMS:
            mixing = [(width, width)]
        elif self.operation in ATTENTIONS:
            mixing = [(width, 3 * width)]
        else:
            kernels = self.heads // 2 * self.kernel
            mixing = [(width, 3 * half), (width, half), (half, kernels), (width, half)]
        feed_forward = [(width, hidden), *[(hidden, hidden)] * (self.stack - 1), (hidden, width)]
        return [*mixing, (width, width), *feed_forward]

    @property
    def unbiased(self) -> int:
        """The number of weights without a bias: of queries in `wma`, of convolutions in `dsc`."""
        if self.operation in CONVOLUTIONS:
            return self.width * self.kernel
        return self.width**2 if self.operation == "wma" else 0

    @property
    def params(self) -> int:
        """The number of parameters."""
        norms = 4 * self.width
        return norms + sum((a + 1) * b for a, b in self.linears) + self.unbiased

    @property
    def macs(self) -> int:
        """Multiply-accumulates: linear layers, convolutions, products of attention.

        The Fourier and cosine transforms are not counted.
        """
        per_token = sum(a * b for a, b in self.linears) + self.unbiased
        attention = 2 * self.tokens * self.width  # of all heads
        if self.operation in ATTENTIONS:
            per_token += attention
        elif self.operation in CONVOLUTIONS:
            per_token += attention // 2 + self.width // 2 * self.kernel
        return self.tokens * per_token


class FlexiBertAttention(nn.Module):
    """Self-attention, for `wma` with one more weight between queries and keys."""

    def __init__(self, spec: FlexiBlockSpec) -> None:
        super().__init__()
        self.heads = spec.heads
        self.qkv = Linear(spec.width, 3 * spec.width)
        weighted = spec.operation == "wma"
        self.weight = Linear(spec.width, spec.width, bias=False) if weighted else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(x).chunk(3, -1)
        return multi_head_attention(self.weight(query), key, value, self.heads)


class Fourier(nn.Module):
    """The Fourier or cosine transform of each head over its tokens and dimensions."""

    def __init__(self, spec: FlexiBlockSpec) -> None:
        super().__init__()
        self.heads = spec.heads
        self.cosine = spec.operation == "dct"
        self.input = Linear(spec.width, spec.width)

    def forward(self, x: Tensor) -> Tensor:
        x = split_heads(self.input(x), self.heads)
        x = dct(dct(x, -1), -2) if self.cosine else torch.fft.fft2(x).real
        return x.transpose(1, 2).flatten(2)


def dct(x: Tensor, dim: int) -> Tensor:
    """The cosine transform of type II: 2 sum_n x[n] cos(pi k (2n + 1) / 2N)."""
    x = x.movedim(dim, -1)
    n = x.shape[-1]
    turn = torch.arange(n, dtype=x.dtype, device=x.device) * (-math.pi / (2 * n))
    transformed = torch.fft.rfft(x, 2 * n)[..., :n] * torch.polar(torch.ones_like(turn), turn)
    real: Tensor = transformed.real
    return 2 * real.movedim(-1, dim)


class UninitialisedConv1d(Uninitialised, nn.Conv1d):
    """`nn.Conv1d` with unset parameters."""


class SpanConvolution(nn.Module):
    """Attention of one half of the heads, and a convolution by the other half.

    The kernel of the convolution is made of each token's neighbours.
    """

    def __init__(self, spec: FlexiBlockSpec) -> None:
        super().__init__()
        width, kernel, half = spec.width, spec.kernel, spec.width // 2
        self.heads, self.kernel = spec.heads // 2, kernel
        self.qkv = Linear(width, 3 * half)
        self.depthwise = UninitialisedConv1d(
            width, width, kernel, padding="same", groups=width, bias=False
        )
        self.pointwise = Linear(width, half)
        self.kernels = Linear(half, self.heads * kernel)
        self.convolved = Linear(width, half)

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(x).chunk(3, -1)
        span = self.pointwise(self.depthwise(x.mT).mT)
        batch, tokens, _ = x.shape
        kernels = self.kernels(span * query).view(batch, tokens, self.heads, -1).softmax(-1)
        padded = functional.pad(self.convolved(x), (0, 0, self.kernel // 2, self.kernel // 2))
        windows = padded.unfold(1, self.kernel, 1)  # [batch, tokens, heads * dim, kernel]
        windows = windows.reshape(batch, tokens, self.heads, -1, self.kernel)
        convolved = (windows @ kernels[..., None]).flatten(2)
        attended = multi_head_attention(query, key, value, self.heads)
        return torch.cat([attended, convolved], -1)


class FlexiBlock(TransformerBlock):
    """An encoder layer: an operation that mixes tokens, then feed-forward layers; post-norm."""

    def __init__(self, spec: FlexiBlockSpec) -> None:
        super().__init__()
        self.heads = spec.heads
        if spec.operation in ATTENTIONS:
            self.mixer: nn.Module = FlexiBertAttention(spec)
        else:
            self.mixer = Fourier(spec) if spec.operation in TRANSFORMS else SpanConvolution(spec)
        self.proj = Linear(spec.width, spec.width)
        self.norm1 = nn.LayerNorm(spec.width, eps=EPS)
        sizes = [spec.width, *[spec.hidden] * spec.stack]
        self.hidden = nn.ModuleList(map(Linear, sizes, sizes[1:]))
        self.output = Linear(spec.hidden, spec.width)
        self.norm2 = nn.LayerNorm(spec.width, eps=EPS)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x + self.proj(self.mixer(x)))
        hidden = x
        for layer in self.hidden:
            hidden = functional.gelu(layer(hidden))
        normed: Tensor = self.norm2(x + self.output(hidden))
        return normed

    def linears(self) -> list[tuple[str, nn.Linear]]:
        mixing = [module for module in self.mixer.modules() if isinstance(module, nn.Linear)]
        feed_forward = [layer for layer in self.hidden if isinstance(layer, nn.Linear)]
        return [
            *(("msa", layer) for layer in (*mixing, self.proj)),
            *(("mlp", layer) for layer in (*feed_forward, self.output)),
        ]


class FlexiBert(Bert):
    """BERT of layers that mix their tokens in different ways."""

    block_type = FlexiBlock
    convolution_rule = staticmethod(normal_)


class FlexiBertSpace(MaskedLMSpace):
    """Width and depth of the network; operation, heads and feed-forward layers of each layer."""

    def blocks(self, arch: Architecture) -> tuple[FlexiBlockSpec, ...]:
        width: int = arch["hidden_size"]
        names = ("num_operation_heads", "feed_forward_dimension", "operation", "num_feed_forward")
        return tuple(
            FlexiBlockSpec(width, BERT_CONTEXT, heads, width, hidden, operation, stack)
            for heads, hidden, operation, stack in zip(*(arch[n] for n in names), strict=True)
        )

    def params(self, arch: Architecture, classes: int = 1000) -> int:
        outside = self.params_outside_blocks(arch["hidden_size"], D_EMBED)
        return outside + sum(block.params for block in self.blocks(arch))

    def flops(self, arch: Architecture, classes: int = 1000) -> int:
        """Multiply-accumulates for BERT_CONTEXT tokens; the Fourier transforms are not counted."""
        width: int = arch["hidden_size"]
        project = 0 if width == D_EMBED else D_EMBED * width
        outside = BERT_CONTEXT * (project + (width + BERT_VOCABULARY) * D_EMBED)
        return outside + sum(block.macs for block in self.blocks(arch))

    def network(self, arch: Architecture, classes: int) -> FlexiBert:
        return FlexiBert(self.blocks(arch), D_EMBED)

    def features(self, arch: Architecture) -> tuple[float, ...]:
        """The choices for a regression: depth and width, and by halves of the depth all others.

        These are the share of each operation, the heads, the feed-forward dimension, the number of
        feed-forward layers, and the mean of the last two's product. All but the shares are
        logarithms, because sizes multiply.
        """
        blocks = self.blocks(arch)
        middle = len(blocks) // 2
        features = [math.log(len(blocks)), math.log(blocks[0].width)]
        for half in (blocks[:middle], blocks[middle:]):
            features += [fmean(b.operation == name for b in half) for name in TOKEN_MIXERS]
            sizes = ((b.heads, b.hidden, b.stack, b.hidden * b.stack) for b in half)
            features += [math.log(fmean(column)) for column in zip(*sizes, strict=True)]
        return tuple(features)


FLEXIBERT = FlexiBertSpace(
    "flexibert",
    "FlexiBERT, encoders of 4 to 16 M parameters with attention, Fourier mixing or convolution",
    {
        "hidden_size": one(128, 256),
        "depth": one(2, 4),
        "operation": per_layer_field(*TOKEN_MIXERS),
        "num_operation_heads": per_layer_field(2, 4),
        "feed_forward_dimension": per_layer_field(512, 1024),
        "num_feed_forward": per_layer_field(1, 3),
    },
)
