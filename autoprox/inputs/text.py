"""The batch of tokens that language models see: bytes of a text file, or seeded random tokens."""

from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from autoprox.inputs.batch import IGNORED, Batch, InputError

BYTES = 256
MAX_BYTES = 2**28  # of a text, whose tokens take eight times as much
HIDDEN = 0.15  # part of the tokens that a masked language model must guess, as of BERT's

Tokens = NDArray[np.int64]


class Reader(Protocol):
    """What reads tokens: a space of language models, or a single one."""

    @property
    def name(self) -> str: ...

    @property
    def vocabulary(self) -> int: ...

    @property
    def context(self) -> int:
        """The most tokens of a sequence."""

    @property
    def objective(self) -> Literal["causal", "masked"]: ...

    @property
    def mask(self) -> int | None:
        """The token that hides another, where some are masked."""


def load_tokens(
    space: Reader, batch_size: int, length: int, seed: int, text: Path | None = None
) -> Batch:
    """Sequences with what a model of the space should predict in them.

    A causal model predicts every next token, a masked one those that are hidden by the space's mask
    token, at least one in each sequence. Random tokens are uniform over the vocabulary; the
    sequences of a text are drawn by the seed from its consecutive pieces, all of which are the
    batch if there are fewer than `batch_size`.
    """
    if batch_size < 1 or seed < 0 or length < 2:
        got = f"(batch_size={batch_size}, seed={seed}, length={length})"
        rule = "`batch_size >= 1`, `seed >= 0` and `length >= 2` must hold"
        raise InputError(f"{rule}, but got {got}")
    if length > space.context:
        rule = f"length must be at most the context of {space.name}, {space.context}"
        raise InputError(f"{rule}, but got {length}")
    rng = np.random.default_rng(seed)
    needed = length + (space.objective == "causal")
    if text is None:
        tokens, source = rng.integers(space.vocabulary, size=(batch_size, needed)), "random tokens"
    else:
        tokens, source = _pieces(text, space, needed, batch_size, rng), f"bytes: {text}"
    inputs, labels = tokens[:, :length], tokens[:, 1:]
    if space.mask is not None:
        inputs, labels = _masked(tokens, space.mask, rng)
    inputs, labels = np.ascontiguousarray(inputs), np.ascontiguousarray(labels)
    tensors = torch.from_numpy(inputs), torch.from_numpy(labels)
    return Batch(*tensors, space.vocabulary, source)


def read_bytes(text: Path, space: Reader) -> Tokens:
    """A text's bytes as tokens: those from 0 on, or after a mask token that is among them."""
    try:
        if text.exists() and (not text.is_file() or text.stat().st_size > MAX_BYTES):
            raise OSError(None, f"no file of at most {MAX_BYTES} bytes")
        content = np.frombuffer(text.read_bytes(), dtype=np.uint8)
    except OSError as error:
        rule = f"{text} must be a readable text file"
        raise InputError(f"{rule}, but got: {error.strerror}") from error
    first = 0 if space.mask is None or space.mask >= BYTES else space.mask + 1
    if space.vocabulary < first + BYTES:
        rule = f"a text needs a vocabulary of at least {first + BYTES} tokens"
        raise InputError(f"{rule}, but {space.name} has {space.vocabulary}")
    return content.astype(np.int64) + first


def _pieces(text: Path, space: Reader, length: int, count: int, rng: np.random.Generator) -> Tokens:
    tokens = read_bytes(text, space)
    available = len(tokens) // length
    if not available:
        rule = f"must have at least {length} bytes for a sequence"
        raise InputError(f"{text} {rule}, but has {len(tokens)}")
    chosen = rng.permutation(available)[:count]
    return tokens[: available * length].reshape(available, length)[chosen]


def _masked(tokens: Tokens, mask: int, rng: np.random.Generator) -> tuple[Tokens, Tokens]:
    hidden = rng.random(tokens.shape) < HIDDEN
    hidden[np.arange(len(tokens)), rng.integers(tokens.shape[1], size=len(tokens))] = True
    return np.where(hidden, mask, tokens), np.where(hidden, tokens, IGNORED)
