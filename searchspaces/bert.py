"""The BERT space of T-Razor: Zhou et al., "Training-Free Transformer Architecture Search With
Zero-Cost Proxy Guided Evolution", TPAMI 2024.

The network is the masked language model of Devlin et al., "BERT: Pre-training of Deep Bidirectional
Transformers for Language Understanding", NAACL 2019: post-norm blocks, learnt positions and token
types, a head whose decoder is the embedding. All tokens are of the first type. With 12 blocks of 12
heads and 3072 MLP units it is BERT-base, 109.5 M parameters. Heads share the 768 dimensions, so
that their number changes no parameter. The published rule of initialisation is normal with standard
deviation 0.02, biases zero.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.searchspaces.base import Architecture, one, per_layer
from autoprox.searchspaces.blocks import Block, EncoderBlock, Linear, TransformerBlock
from autoprox.searchspaces.tokens import LanguageNetwork, TokenSpace

VOCABULARY = 30522
CONTEXT = 512
COUNTED = 128  # tokens for which T-Razor's table IV counts FLOPs
TOKEN_TYPES = 2
MASK = 103
WIDTH = 768
EPS = 1e-12


class BertBlock(EncoderBlock):
    """A post-norm transformer block: each residual sum is normalised."""

    def __init__(self, shape: Block) -> None:
        super().__init__(shape)
        self.norm1 = nn.LayerNorm(shape.width, eps=EPS)
        self.norm2 = nn.LayerNorm(shape.width, eps=EPS)

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens [batch, tokens, width] to tokens of the same shape."""
        x = self.norm1(x + self.attend(x))
        normed: Tensor = self.norm2(x + self.fc2(functional.gelu(self.fc1(x))))
        return normed


class Prediction(nn.Module):
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

    def __init__(self, blocks: Sequence[Block], d_embed: int) -> None:
        super().__init__(VOCABULARY, d_embed)
        self.position = nn.Parameter(torch.empty(CONTEXT, d_embed))
        self.token_type = nn.Parameter(torch.empty(TOKEN_TYPES, d_embed))
        self.norm = nn.LayerNorm(d_embed, eps=EPS)
        width = blocks[0].width
        self.project = nn.Identity() if width == d_embed else Linear(d_embed, width)
        self.blocks = nn.Sequential(*map(self.block_type, blocks))
        self.prediction = Prediction(width, self.embedding)

    def encode(self, embedded: Tensor) -> Tensor:
        """Map embeddings [batch, length, d_embed] to the last hidden state, [..., width]."""
        positions = self.position[: embedded.shape[1]]
        hidden: Tensor = self.blocks(
            self.project(self.norm(embedded + positions + self.token_type[0]))
        )
        return hidden

    def predict(self, hidden: Tensor) -> Tensor:
        """Map the last hidden state to logits."""
        logits: Tensor = self.prediction(hidden, self.embedding.weight)
        return logits


def params_around(width: int, d_embed: int) -> int:
    """The parameters of `Bert` outside its blocks."""
    embeddings = (VOCABULARY + CONTEXT + TOKEN_TYPES + 2) * d_embed
    project = 0 if width == d_embed else (d_embed + 1) * width
    prediction = (width + 1 + 2) * d_embed + VOCABULARY
    return embeddings + project + prediction


class MaskedSpace(TokenSpace):
    """What spaces of BERT-like networks have in common: WordPiece tokens, some of them masked."""

    vocabulary = VOCABULARY
    context = CONTEXT
    objective = "masked"
    mask = MASK


class BertSpace(MaskedSpace):
    """Number of blocks; MLP size and number of heads of each block."""

    separate = frozenset({"mlp_size", "num_heads"})

    def blocks(self, arch: Architecture) -> tuple[Block, ...]:
        """The structure of the transformer blocks, in depth order."""
        return tuple(
            Block(WIDTH, CONTEXT, heads, inner=WIDTH, hidden=hidden)
            for heads, hidden in zip(arch["num_heads"], arch["mlp_size"], strict=True)
        )

    def origins(self, arch: Architecture) -> tuple[int, ...]:
        """The first blocks."""
        return tuple(range(arch["depth"]))

    def params(self, arch: Architecture, classes: int = 1000) -> int:
        """The number of parameters, from the choices alone; the decoder is the embedding."""
        return params_around(WIDTH, WIDTH) + sum(block.params for block in self.blocks(arch))

    counts_macs = False

    def flops(self, arch: Architecture, classes: int = 1000) -> int:
        """Operations of the blocks for COUNTED tokens, as in T-Razor's table IV.

        A multiply-accumulate counts as two, unlike in the other spaces.
        """
        return 2 * sum(replace(block, tokens=COUNTED).macs for block in self.blocks(arch))

    def network(self, arch: Architecture, classes: int) -> Bert:
        """The network with its parameters unset."""
        return Bert(self.blocks(arch), WIDTH)


BERT = BertSpace(
    "bert",
    "BERT, masked language models of 43 to 110 M parameters (T-Razor)",
    {
        "depth": one(6, 8, 10, 12),
        "mlp_size": per_layer(512, 768, 1024, 3072),
        "num_heads": per_layer(4, 8, 12, 16),
    },
)
