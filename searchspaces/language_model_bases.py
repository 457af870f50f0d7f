"""Language models: the networks and search spaces that read tokens and predict tokens."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from autoprox.searchspaces.space import Architecture, ChoiceField, SearchSpace
from autoprox.searchspaces.transformer import Embedding, TransformerNetwork


class LanguageNetwork(TransformerNetwork):
    """A transformer over tokens, whose head is its embedding."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.embedding = Embedding(vocabulary, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens [batch, length], or their embeddings, to logits [batch, length, vocabulary].

        The embeddings are [batch, length, width].
        """
        embedded = tokens if tokens.is_floating_point() else self.embed(tokens)
        return self.predict(self.encode(embedded))

    def embed(self, tokens: Tensor) -> Tensor:
        """Map tokens [batch, length] to their embeddings [batch, length, width]."""
        return self.embedding(tokens)

    @abstractmethod
    def encode(self, embedded: Tensor) -> Tensor:
        """Add positions to embeddings [batch, length, width] and run the blocks."""

    def embedding_parameters(self) -> Iterator[nn.Parameter]:
        """The vectors of tokens, and of positions and token types if they are learned."""
        names = ("embedding", "position", "token_type")
        return (p for name, p in self.named_parameters() if name.split(".")[0] in names)

    def predict(self, hidden: Tensor) -> Tensor:
        """Map the last hidden state [batch, length, width] to logits."""
        return hidden @ self.embedding.weight.T

    def reset_head(self, classes: int, seed: int) -> None:
        """Do nothing: the classes of a language model are its vocabulary, whatever the data."""

    def ones(self, inputs: Tensor) -> Tensor:
        """The embeddings of a single sequence, all ones."""
        return torch.ones(1, inputs.shape[1], self.embedding.embedding_dim, device=inputs.device)


class TokenSpace(SearchSpace):
    """A space of language models, for which `classes` has no meaning.

    The `tokens` of blocks and the FLOPs are for a sequence of `context` tokens, the longest.
    """

    vocabulary: ClassVar[int]
    context: ClassVar[int]
    objective: ClassVar[Literal["causal", "masked"]]
    mask: ClassVar[int | None] = None  # the token that hides another, if some are masked

    def __init__(self, name: str, description: str, fields: Mapping[str, ChoiceField]) -> None:
        super().__init__(name, description, fields)
        self.input_shape = (self.context,)

    @abstractmethod
    def network(self, arch: Architecture, classes: int) -> LanguageNetwork:
        """The network with its parameters unset; `classes` has no meaning."""

    def non_embedding_params(self, arch: Architecture) -> int:
        """The number of parameters without the embeddings."""
        with torch.device("meta"):  # which allocates nothing
            network = self.network(arch, self.vocabulary)
        return self.params(arch) - sum(p.numel() for p in network.embedding_parameters())
