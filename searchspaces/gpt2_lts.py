"""The GPT-2 spaces of LiteTransformerSearch (LTS): Javaheripi et al., "LiteTransformerSearch:
Training-free Neural Architecture Search for Efficient Language Models", NeurIPS 2022.

Details that aren't in the paper are from its code (github.com/microsoft/archai, MIT), whose logs
contain 200 random networks for each of two datasets. They are GPT-2 networks of one width with an
adaptive embedding and an adaptive softmax (Baevski and Auli, "Adaptive Input Representations for
Neural Language Modeling", ICLR 2019; Dai et al., "Transformer-XL", ACL 2019). The vocabulary is
divided into clusters, each of rarer tokens than the one before; the vectors of cluster i have
`d_embed / div_val^i` numbers, and a matrix for each cluster maps them to `d_model`; with `div_val`
1 it is one matrix for all, and none if `d_embed` is `d_model`. The embedding is multiplied by
sqrt(d_model). The softmax is over the first cluster and one entry for each other cluster, and then
within the cluster. Its weights are the embedding's. The matrices before it are the embedding's too,
except for the first cluster's.

`gpt2-lts` has the networks for WikiText-103, of 192 tokens and clusters from tokens 0, 19997 and
39997; `gpt2-lts-lm1b` those for LM1B, of 32 tokens. Its first cluster was meant to end at token
59997, beyond the vocabulary, so it is the only one, and `d_embed` is `d_model`: `div_val` 2 and 4
make the same networks.

The files say `pre_lnorm: false`, which the code of GPT-2 doesn't read: blocks are pre-norm, with a
norm after the last. The counts in the files agree for WikiText-103 to the last parameter. Those for
LM1B are counts of Transformer-XL with the same choices. Its attention has 5 d^2 + 2 d parameters
for each layer (GPT-2: 4 d^2 + 4 d), and it has no last norm and no position embeddings. But the
logs have the same perplexity with and without memory, and the GPT-2 of the code doesn't accept
memory, so GPT-2 was trained.

The initial weights are GPT-2's; matrices of the embedding and of the softmax have a standard
deviation of 0.01 (`proj_init_std`), biases are zero.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.searchspaces.gpt2 import GPT2Block, scale_residual_layers
from autoprox.searchspaces.language_model_bases import LanguageNetwork, TokenSpace
from autoprox.searchspaces.space import Architecture, one, per_layer_field
from autoprox.searchspaces.transformer import BlockSpec, Embedding, Linear

VOCABULARY = 50264
PROJECTION_STD = 0.01


class LTSNetwork(LanguageNetwork):
    """GPT-2 with an adaptive embedding, which is also the weight of its adaptive softmax.

    `clusters` are the tokens and the width of each cluster, the most frequent first. `embedding`
    has the first cluster, `tails` the others. `shared` says whether one matrix is of all clusters.
    """

    def __init__(
        self,
        blocks: Sequence[BlockSpec],
        clusters: Sequence[tuple[int, int]],
        projected: bool,
        shared: bool,
        context: int,
    ) -> None:
        tokens, widths = zip(*clusters, strict=True)
        super().__init__(tokens[0], widths[0])
        width = blocks[0].width
        self.bounds = (0, *(sum(tokens[: i + 1]) for i in range(len(tokens))))
        self.shared = shared
        self.tails = nn.ModuleList(Embedding(*cluster) for cluster in clusters[1:])
        own = widths[:1] if shared else widths
        self.projections = nn.ModuleList(Linear(w, width, bias=False) for w in own if projected)
        self.head_projection = Linear(width, widths[0], bias=False) if projected else nn.Identity()
        self.token_bias = nn.Parameter(torch.empty(sum(tokens)))
        if self.tails:
            self.cluster_weight = nn.Parameter(torch.empty(len(self.tails), widths[0]))
            self.cluster_bias = nn.Parameter(torch.empty(len(self.tails)))
        self.position = nn.Parameter(torch.empty(context, width))
        self.blocks = nn.Sequential(*map(GPT2Block, blocks))
        self.norm = nn.LayerNorm(width)

    def embed(self, tokens: Tensor) -> Tensor:
        """Look every token up in its cluster: [batch, length] to [batch, length, width]."""
        width = self.position.shape[1]
        embedded = torch.zeros(*tokens.shape, width, device=tokens.device)
        for i, (table, (low, high)) in enumerate(
            zip((self.embedding, *self.tails), pairwise(self.bounds), strict=True)
        ):
            vectors = table((tokens - low).clamp(0, high - low - 1))
            if (projection := self._projection(i)) is not None:
                vectors = projection(vectors)
            own = (tokens >= low) & (tokens < high)
            embedded = torch.where(own[..., None], vectors, embedded)
        scaled: Tensor = embedded * width**0.5
        return scaled

    def encode(self, embedded: Tensor) -> Tensor:
        hidden: Tensor = self.norm(self.blocks(embedded + self.position[: embedded.shape[1]]))
        return hidden

    def predict(self, hidden: Tensor) -> Tensor:
        """Map the last hidden state to logits whose softmax is the adaptive softmax.

        Those of a tail are its log-probabilities plus the logit of its cluster, so that they take
        part in the softmax as the cluster does.
        """
        weight, bias = self.embedding.weight, self.token_bias[: self.bounds[1]]
        if self.tails:
            weight = torch.cat([weight, self.cluster_weight])
            bias = torch.cat([bias, self.cluster_bias])
        first = functional.linear(self.head_projection(hidden), weight, bias)
        logits = [first[..., : self.bounds[1]]]
        for i, (table, (low, high)) in enumerate(
            zip(self.tails, pairwise(self.bounds[1:]), strict=True)
        ):
            projection = self._projection(i + 1)
            narrow = hidden if projection is None else hidden @ projection.weight
            tail: Tensor = table.weight  # type: ignore[assignment]  # plain if it is replaced
            own = functional.linear(narrow, tail, self.token_bias[low:high])
            cluster = first[..., self.bounds[1] + i, None]
            logits.append(own.log_softmax(-1) + cluster)
        return torch.cat(logits, -1)

    def ones(self, inputs: Tensor) -> Tensor:
        return torch.ones(1, inputs.shape[1], self.position.shape[1], device=inputs.device)

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Draw every parameter by GPT-2's rule, but for the scale of projections and for biases."""
        super().initialise(seed)
        scale_residual_layers(self)
        for layer in (*self.projections, self.head_projection):
            if isinstance(layer, Linear):
                layer.weight.mul_(PROJECTION_STD / 0.02)
        self.token_bias.zero_()
        if self.tails:
            self.cluster_bias.zero_()

    def _projection(self, cluster: int) -> Linear | None:
        if not self.projections:
            return None
        found: Linear = self.projections[0 if self.shared else cluster]  # type: ignore[assignment]
        return found


class LTSSpace(TokenSpace):
    """Depth, width and embedding of the network; inner width and heads of each block."""

    vocabulary = VOCABULARY
    context = 192
    objective = "causal"
    sliced = True
    independent = frozenset({"d_inner", "n_head"})
    cutoffs: ClassVar[tuple[int, ...]] = (19997, 39997)  # where clusters begin but the first

    def d_embed(self, arch: Architecture) -> int:
        """The width of the first cluster's vectors."""
        width: int = arch["d_embed"]
        return width

    def clusters(self, arch: Architecture) -> list[tuple[int, int]]:
        """The number of tokens of each cluster, and the width of their vectors."""
        ends = pairwise((0, *self.cutoffs, self.vocabulary))
        width, divisor = self.d_embed(arch), arch["div_val"]
        return [(high - low, width // divisor**i) for i, (low, high) in enumerate(ends)]

    def projections(self, arch: Architecture) -> list[int]:
        """The widths of vectors that matrices map to the blocks' width, of each cluster."""
        plain = arch["div_val"] == 1 and self.d_embed(arch) == arch["d_model"]
        return [] if plain else [width for _, width in self.clusters(arch)]

    def blocks(self, arch: Architecture) -> tuple[BlockSpec, ...]:
        width: int = arch["d_model"]
        return tuple(
            BlockSpec(width, self.context, heads, inner=width, hidden=hidden)
            for hidden, heads in zip(arch["d_inner"], arch["n_head"], strict=True)
        )

    def still_relevant(self, chosen: Sequence[str]) -> Sequence[str]:
        """Of the single fields, blocks depend on the width alone."""
        done = len(chosen) == sum(not field.listed for field in self.fields.values())
        return ["d_model"] if done else chosen

    def embedding_params(self, arch: Architecture) -> int:
        """The parameters of the adaptive embedding and of the positions."""
        tables = sum(tokens * width for tokens, width in self.clusters(arch))
        projected = self.projections(arch)[: 1 if arch["div_val"] == 1 else None]
        width: int = arch["d_model"]
        return tables + width * (sum(projected) + self.context)

    def softmax_params(self, arch: Architecture) -> int:
        """The parameters that the adaptive softmax has besides those of the embedding."""
        width, tails = self.d_embed(arch), len(self.cutoffs)
        projection: int = arch["d_model"] * width if self.projections(arch) else 0
        return self.vocabulary + tails * (width + 1) + projection

    def params(self, arch: Architecture, classes: int = 1000) -> int:
        blocks = sum(block.params for block in self.blocks(arch))
        norm: int = 2 * arch["d_model"]
        return self.embedding_params(arch) + blocks + norm + self.softmax_params(arch)

    def flops(self, arch: Architecture, classes: int = 1000) -> int:
        """Multiply-accumulates for one sequence; each token is looked up in all clusters."""
        clusters, tails = self.clusters(arch), len(self.cutoffs)
        softmax = sum(tokens * width for tokens, width in clusters) + tails * clusters[0][1]
        projections = 2 * arch["d_model"] * sum(self.projections(arch))
        token: int = softmax + projections
        return self.context * token + sum(block.macs for block in self.blocks(arch))

    def network(self, arch: Architecture, classes: int) -> LTSNetwork:
        projected, shared = bool(self.projections(arch)), arch["div_val"] == 1
        clusters = self.clusters(arch)
        return LTSNetwork(self.blocks(arch), clusters, projected, shared, self.context)

    def features(self, arch: Architecture) -> tuple[float, ...]:
        """The choices for a regression: those of every space, and of the embedding."""
        embedding = self.d_embed(arch), arch["div_val"]
        return (*super().features(arch), *map(math.log, embedding))


class LTSLM1BSpace(LTSSpace):
    """The networks for LM1B: the embedding is as wide as the blocks, and has one cluster."""

    context = 32
    cutoffs = ()

    def d_embed(self, arch: Architecture) -> int:
        width: int = arch["d_model"]
        return width


_EMBEDDING = {"div_val": one(1, 2, 4)}
_LAYERS = {
    "d_inner": per_layer_field(*range(512, 2049), count="n_layer"),
    "n_head": per_layer_field(2, 4, 8, count="n_layer"),
}
GPT2_LTS = LTSSpace(
    "gpt2-lts",
    "GPT-2 with an adaptive embedding, the random networks of LTS on WikiText-103",
    {
        "n_layer": one(*range(2, 17)),
        "d_model": one(64, 128, 256, 512),
        "d_embed": one(128, 256, 512),
        **_EMBEDDING,
        **_LAYERS,
    },
)
GPT2_LTS_LM1B = LTSLM1BSpace(
    "gpt2-lts-lm1b",
    "GPT-2 for sequences of 32 tokens, the random networks of LTS on LM1B",
    {
        "n_layer": one(*range(2, 17)),
        "d_model": one(128, 256, 512),
        **_EMBEDDING,
        **_LAYERS,
    },
)
