"""The BERT space of T-Razor: Zhou et al., "Training-Free Transformer Architecture Search With
Zero-Cost Proxy Guided Evolution", TPAMI 2024.

The network is the masked language model of Devlin et al., "BERT: Pre-training of Deep Bidirectional
Transformers for Language Understanding", NAACL 2019: post-norm blocks, learnt positions and token
types, a head whose decoder is the embedding. All tokens are of the first type. With 12 blocks of 12
heads and 3072 MLP units it is BERT-base, 109.5 M parameters. The heads share the 768 dimensions, so
their number doesn't change the parameter count. The published initialisation is normal with
standard deviation 0.02, with biases of zero.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.searchspaces.language_model_bases import LanguageNetwork, TokenSpace
from autoprox.searchspaces.space import Architecture, one, per_layer_field
from autoprox.searchspaces.transformer import BlockSpec, EncoderBlock, Linear, TransformerBlock

BERT_VOCABULARY = 30522
BERT_CONTEXT = 512
BERT_WIDTH = 768
FLOPS_TOKENS = 128  # for which T-Razor's table IV counts FLOPs
TOKEN_TYPES = 2
EPS = 1e-12


class BertBlock(EncoderBlock):
    """A post-norm transformer block: each residual sum is normalised."""

    eps = EPS

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x + self.attend(x))
        normed: Tensor = self.norm2(x + self.mlp(x))
        return normed


class MaskedLMHead(nn.Module):
    """The masked language model's head: a transform, then the embedding as decoder, plus a bias."""

    def __init__(self, width: int, embedding: nn.Embedding) -> None:
        super().__init__()
        self.transform = Linear(width, embedding.embedding_dim)
        self.norm = nn.LayerNorm(embedding.embedding_dim, eps=EPS)
        self.bias = nn.Parameter(torch.zeros(embedding.num_embeddings))

    def forward(self, hidden: Tensor, decoder: Tensor) -> Tensor:
        """Map the last hidden state to logits, with the decoder [vocabulary, d_embed]."""
        transformed = self.norm(functional.gelu(self.transform(hidden)))
        return functional.linear(transformed, decoder, self.bias)


class Bert(LanguageNetwork):
    """BERT around blocks of one width; embeddings of another are projected to it, as in ELECTRA."""

    block_type: type[TransformerBlock] = BertBlock

    def __init__(self, blocks: Sequence[BlockSpec], d_embed: int) -> None:
        super().__init__(BERT_VOCABULARY, d_embed)
        self.position = nn.Parameter(torch.empty(BERT_CONTEXT, d_embed))
        self.token_type = nn.Parameter(torch.empty(TOKEN_TYPES, d_embed))
        self.norm = nn.LayerNorm(d_embed, eps=EPS)
        width = blocks[0].width
        self.project = nn.Identity() if width == d_embed else Linear(d_embed, width)
        self.blocks = nn.Sequential(*map(self.block_type, blocks))
        self.prediction = MaskedLMHead(width, self.embedding)

    def encode(self, embedded: Tensor) -> Tensor:
        positions = self.position[: embedded.shape[1]]
        hidden = self.norm(embedded + positions + self.token_type[0])
        encoded: Tensor = self.blocks(self.project(hidden))
        return encoded

    def predict(self, hidden: Tensor) -> Tensor:
        logits: Tensor = self.prediction(hidden, self.embedding.weight)
        return logits


class MaskedLMSpace(TokenSpace):
    """A space of BERT-like networks, which read WordPiece tokens, some of them masked."""

    vocabulary = BERT_VOCABULARY
    context = BERT_CONTEXT
    objective = "masked"
    mask = 103

    @staticmethod
    def params_outside_blocks(width: int, d_embed: int) -> int:
        """The parameters of `Bert` outside its blocks; the decoder is the embedding."""
        embeddings = (BERT_VOCABULARY + BERT_CONTEXT + TOKEN_TYPES + 2) * d_embed
        project = 0 if width == d_embed else (d_embed + 1) * width
        return embeddings + project + (width + 1 + 2) * d_embed + BERT_VOCABULARY


class BertSpace(MaskedLMSpace):
    """Number of blocks; MLP size and number of heads of each block."""

    sliced = True
    counts_macs = False
    independent = frozenset({"mlp_size", "num_heads"})

    def blocks(self, arch: Architecture) -> tuple[BlockSpec, ...]:
        return tuple(
            BlockSpec(BERT_WIDTH, BERT_CONTEXT, heads, inner=BERT_WIDTH, hidden=hidden)
            for heads, hidden in zip(arch["num_heads"], arch["mlp_size"], strict=True)
        )

    def params(self, arch: Architecture, classes: int = 1000) -> int:
        outside = self.params_outside_blocks(BERT_WIDTH, BERT_WIDTH)
        return outside + sum(block.params for block in self.blocks(arch))

    def flops(self, arch: Architecture, classes: int = 1000) -> int:
        """Operations of the blocks for FLOPS_TOKENS tokens, as in T-Razor's table IV.

        A multiply-accumulate counts as two, unlike in the other spaces.
        """
        return 2 * sum(replace(block, tokens=FLOPS_TOKENS).macs for block in self.blocks(arch))

    def network(self, arch: Architecture, classes: int) -> Bert:
        return Bert(self.blocks(arch), BERT_WIDTH)


BERT = BertSpace(
    "bert",
    "BERT, masked language models of 43 to 110 M parameters (T-Razor)",
    {
        "depth": one(6, 8, 10, 12),
        "mlp_size": per_layer_field(512, 768, 1024, 3072),
        "num_heads": per_layer_field(4, 8, 12, 16),
    },
)
