"""Batches of tokens, by their definition."""

from collections import Counter
from pathlib import Path

import pytest
import torch

from autoprox.errors import AutoproxError
from autoprox.inputs.batch import InputError
from autoprox.inputs.batch_loading import load_batches, load_token_batch
from autoprox.searchspaces import get_space
from autoprox.searchspaces.language_model_bases import LanguageNetwork, TokenSpace
from autoprox.searchspaces.space import Architecture, one
from autoprox.searchspaces.transformer import BlockSpec


class Causal(TokenSpace):
    """Only what a batch depends on."""

    vocabulary, context, objective = 300, 32, "causal"

    def blocks(self, arch: Architecture) -> tuple[BlockSpec, ...]:
        return ()

    def params(self, arch: Architecture, classes: int = 1000) -> int:
        return 0

    def flops(self, arch: Architecture, classes: int = 1000) -> int:
        return 0

    def network(self, arch: Architecture, classes: int) -> LanguageNetwork:
        return LanguageNetwork(self.vocabulary, 4)


class Masked(Causal):
    vocabulary, objective, mask = 400, "masked", 7


CAUSAL = Causal("causal", "", {"depth": one(1)})
MASKED = Masked("masked", "", {"depth": one(1)})


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_bytes(bytes(range(256)) * 4)
    return path


def test_a_causal_model_predicts_the_next_token(text: Path) -> None:
    for path in (None, text):
        batch = load_token_batch(CAUSAL, 3, 20, seed=1, text=path)
        assert batch.inputs.shape == batch.labels.shape == (3, 20)
        assert torch.equal(batch.inputs[:, 1:], batch.labels[:, :-1])
        assert batch.classes == 300


def test_random_tokens_are_uniform_and_fixed_by_the_seed() -> None:
    batch = load_token_batch(CAUSAL, 2000, 31, seed=1)
    counts = Counter(batch.inputs.flatten().tolist())
    assert set(counts) == set(range(300))
    assert min(counts.values()) > 0.6 * 2000 * 31 / 300
    assert torch.equal(load_token_batch(CAUSAL, 2000, 31, seed=1).inputs, batch.inputs)
    assert not torch.equal(load_token_batch(CAUSAL, 2000, 31, seed=2).inputs, batch.inputs)


def test_a_text_is_read_in_different_pieces(text: Path) -> None:
    """The text counts from 0 to 255 and again: what follows a byte is known."""
    batch = load_token_batch(CAUSAL, 40, 20, seed=1, text=text)
    assert torch.equal(batch.labels, (batch.inputs + 1) % 256)
    assert len({tuple(row) for row in batch.inputs.tolist()}) > 35
    assert batch.source == f"bytes: {text}"


def test_a_masked_model_predicts_what_is_hidden(text: Path) -> None:
    batch = load_token_batch(MASKED, 500, 2, seed=1)
    hidden = batch.labels != -100
    assert hidden.any(1).all()
    assert torch.equal(hidden, batch.inputs == 7) or (batch.inputs == 7).sum() > hidden.sum()
    assert (batch.inputs[hidden] == 7).all()
    pieces = load_token_batch(MASKED, 30, 32, seed=1, text=text)
    hidden = pieces.labels != -100
    assert 0.1 < hidden.float().mean() < 0.25
    whole = torch.where(hidden, pieces.labels, pieces.inputs)
    assert (whole >= 8).all()  # the bytes come after the mask token
    assert torch.equal(whole[:, 1:] - 8, (whole[:, :-1] - 8 + 1) % 256)


def test_every_dataset_has_the_same_tokens() -> None:
    batches = load_batches(CAUSAL, {"a": 300, "b": 300}, batch_size=2, seed=0)
    assert batches["a"] is batches["b"]
    assert batches["a"].inputs.shape == (2, 32)  # the context, where it is short


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 33}, "length must be at most the context of causal, 32, but got 33"),
        ({"length": 1}, r"`length >= 2` must hold, but got \(batch_size=2, seed=0, length=1\)"),
        ({"batch_size": 0}, r"`batch_size >= 1`, .* must hold, but got \(batch_size=0, "),
        ({"seed": -1}, r"`seed >= 0` .* must hold, but got \(batch_size=2, seed=-1, "),
        ({"images": Path("cats")}, "causal takes tokens, which images cats is not for"),
        ({"text": Path("none")}, "none must be a readable text file, but got: No such file"),
        ({"text": Path()}, r"\. must be a readable text file, but got: no file of at most"),
    ],
)
def test_wrong_options_are_named(options: dict[str, object], message: str) -> None:
    given = {"batch_size": 2, "seed": 0, "length": 8} | options
    with pytest.raises(AutoproxError, match=message):
        load_batches(CAUSAL, {"a": 300}, **given)  # type: ignore[arg-type]


def test_other_wrong_input_is_named(tmp_path: Path) -> None:
    short = tmp_path / "short.txt"
    short.write_text("ab")
    with pytest.raises(InputError, match=r"at least 9 bytes for a sequence, but has 2$"):
        load_token_batch(CAUSAL, 2, 8, seed=0, text=short)
    nano = get_space("autoformer-nano")
    for name, value in (("text", short), ("length", 8)):
        with pytest.raises(InputError, match=f"autoformer-nano takes images, which {name} "):
            load_batches(nano, {"a": 3}, batch_size=2, seed=0, **{name: value})  # type: ignore[arg-type]

    class Small(Causal):
        vocabulary = 100

    with pytest.raises(InputError, match="at least 256 tokens, but small has 100"):
        load_token_batch(Small("small", "", {"depth": one(1)}), 2, 8, seed=0, text=short)
