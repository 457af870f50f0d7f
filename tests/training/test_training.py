"""The training loop against plain PyTorch and formulas written out."""

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from autoprox.errors import AutoproxError
from autoprox.inputs.training_datasets import ImageDataset, TextDataset
from autoprox.searchspaces import SearchSpace, get_space
from autoprox.searchspaces.gpt2 import GPT2_NANO, GPT2NanoSpace
from autoprox.training import recipes as training
from autoprox.training.recipes import (
    DivergedError,
    ImageRecipe,
    TextRecipe,
    TrainingError,
    TrainingRecipe,
    accuracy,
    normalise_images,
    perplexity,
    random_crop_and_flip,
)

SIDE = 6


class Flat(nn.Module):
    """The smallest network: one linear layer over the pixels."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.layer = nn.Linear(3 * SIDE * SIDE, classes)
        generator = torch.Generator().manual_seed(0)
        for parameter in self.parameters():
            parameter.data.normal_(0, 0.05, generator=generator)

    def forward(self, images: Tensor) -> Tensor:
        """Map images [n, 3, side, side] to logits."""
        logits: Tensor = self.layer(images.flatten(1))
        return logits


def dataset(count: int = 24, classes: int = 3) -> ImageDataset:
    """Classes that differ in brightness: 0, 1, 2, 0, ... from dark to bright."""
    rng = np.random.default_rng(0)
    labels = torch.arange(count) % classes
    noise = torch.from_numpy(rng.integers(0, 60, (count, SIDE, SIDE, 3)))
    images = (noise + 90 * labels[:, None, None, None]).to(torch.uint8)
    return ImageDataset("toy", classes, images, labels, images, labels)


def test_windows_are_those_of_the_padded_image() -> None:
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (64, 5, 4, 3)))
    images = images.to(torch.uint8)
    padded = np.pad(images.numpy(), ((0, 0), (2, 2), (2, 2), (0, 0)), mode="edge")
    generator = torch.Generator().manual_seed(0)
    for mirror in (False, True):
        seen = set()
        cropped = random_crop_and_flip(images, 2, mirror, generator).numpy()
        for source, window in zip(padded, cropped, strict=True):
            for y, x, step in np.ndindex(5, 5, 2):
                if np.array_equal(source[y : y + 5, x : x + 4][:, :: 1 - 2 * step], window):
                    seen.add((y, x, step))
                    break
            else:
                pytest.fail("not a window of the image")
        assert {y for y, _, _ in seen} == {x for _, x, _ in seen} == set(range(5))
        assert {step for _, _, step in seen} == ({0, 1} if mirror else {0})


def test_without_crop_and_mirror_images_stay() -> None:
    images = dataset().images
    assert random_crop_and_flip(images, 0, False, torch.Generator()).equal(images)


def test_normalisation() -> None:
    pixel = torch.tensor([255, 0, 51], dtype=torch.uint8).expand(1, 2, 2, 3)
    expected = [(1 - 0.485) / 0.229, -0.456 / 0.224, (0.2 - 0.406) / 0.225]
    seen = normalise_images(pixel)
    assert seen.shape == (1, 3, 2, 2)
    assert seen[0, :, 1, 1].tolist() == pytest.approx(expected, rel=1e-5)


def test_every_epoch_is_another_permutation() -> None:
    recipe = ImageRecipe(epochs=4)
    batches = torch.stack(list(recipe.batches(10, 3, torch.Generator().manual_seed(0))))
    epochs = batches.reshape(4, 9).tolist()
    assert all(len(set(epoch)) == 9 and set(epoch) <= set(range(10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4


def test_learning_rate() -> None:
    recipe = ImageRecipe(warmup=0.1)
    factors = [recipe.factor(step, 100) for step in range(100)]
    assert factors[:3] == pytest.approx([0.1, 0.2, 0.3])
    assert factors[50] == pytest.approx(0.5)
    assert max(range(100), key=factors.__getitem__) == 9
    assert 0 < factors[99] < 1e-3


def cross_entropy(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """The formula written out: targets share `smoothing` among all classes."""
    classes = logits.shape[1]
    targets = torch.full_like(logits, smoothing / classes)
    targets[torch.arange(len(labels)), labels] += 1 - smoothing
    return -(targets * (logits - logits.logsumexp(1, keepdim=True))).sum(1).mean()


@pytest.mark.parametrize("taught", [False, True])
def test_two_steps_are_those_of_plain_adamw(taught: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch of everything, so that the order of the images doesn't count."""

    def teacher(images: Tensor) -> Tensor:
        return torch.eye(3)[images.mean((1, 2, 3)).long() % 3]

    monkeypatch.setattr(training, "load_teacher", lambda *given: teacher)
    data = dataset()
    recipe = ImageRecipe(
        epochs=2,
        batch_size=24,
        learning_rate=0.01,
        weight_decay=0.3,
        crop=0,
        teacher="teachers:any" if taught else None,
    )
    network, expected = Flat(3), Flat(3)
    loss = recipe.train(network, data, seed=1)

    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    images = ((data.images / 255 - mean) / std).permute(0, 3, 1, 2)
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in expected.parameters()]
    for step in (1, 2):
        logits = expected(images)
        value = cross_entropy(logits, data.labels, 0.1)
        if taught:
            value = (value + cross_entropy(logits, teacher(images).argmax(1), 0.0)) / 2
        gradients = torch.autograd.grad(value, list(expected.parameters()))
        rate = 0.01 * (1 + math.cos(math.pi * (step - 1) / 2)) / 2
        for p, g, (first, second) in zip(expected.parameters(), gradients, moments, strict=True):
            first.mul_(0.9).add_(g, alpha=0.1)
            second.mul_(0.999).add_(g * g, alpha=0.001)
            direction = (first / (1 - 0.9**step)) / ((second / (1 - 0.999**step)).sqrt() + 1e-8)
            p.data = p.data * (1 - rate * 0.3) - rate * direction
    assert loss == pytest.approx(value.item(), rel=1e-5)
    for found, wanted in zip(network.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)


def test_a_vision_transformer_learns() -> None:
    rng = np.random.default_rng(0)
    labels = torch.arange(200) % 2
    noise = torch.from_numpy(rng.integers(0, 150, (200, 16, 16, 3)))
    images = (noise + 100 * labels[:, None, None, None]).to(torch.uint8)
    data = ImageDataset("toy", 2, images[:160], labels[:160], images[160:], labels[160:])
    space = get_space("autoformer-nano")
    network = space.build(space.sample(random.Random(0)), classes=2)
    ImageRecipe(epochs=4, batch_size=16).train(network, data, seed=0)
    assert accuracy(network, data.held_out_images, data.held_out_labels) > 90


def test_same_seed_same_weights_and_the_global_stream_is_left_alone() -> None:
    networks = [Flat(3) for _ in range(3)]
    state = torch.random.get_rng_state()
    weights = []
    for network, seed in zip(networks, (3, 3, 4), strict=True):
        ImageRecipe(epochs=1, batch_size=8).train(network, dataset(), seed)
        weights.append(network.layer.weight.detach())
    assert weights[0].equal(weights[1])
    assert not weights[0].equal(weights[2])
    assert torch.random.get_rng_state().equal(state)


def test_only_named_datasets_are_mirrored() -> None:
    weights = []
    for mirror in ((), ("other",), ("toy",)):
        network = Flat(3)
        ImageRecipe(epochs=1, batch_size=8, mirror=mirror).train(network, dataset(), seed=0)
        weights.append(network.layer.weight.detach())
    assert weights[0].equal(weights[1])
    assert not weights[0].equal(weights[2])


def test_fewer_images_than_a_batch() -> None:
    network = Flat(3)
    before = network.layer.weight.detach().clone()
    ImageRecipe(epochs=1, batch_size=1000).train(network, dataset(), seed=0)
    assert not network.layer.weight.equal(before)


def test_accuracy_counts_what_is_ranked_first() -> None:
    """1,203 images, in more than one batch, the last of them not full."""
    bright = torch.arange(1203) % 4 == 0
    images = (bright[:, None, None, None] * torch.full((1203, 2, 2, 3), 255)).to(torch.uint8)

    class Threshold(nn.Module):
        def forward(self, images: Tensor) -> Tensor:
            found = (images.mean((1, 2, 3)) > 0).float()
            return torch.stack([1 - found, found], 1)

    labels = bright.long()
    labels[:3] = 1 - labels[:3]
    assert accuracy(Threshold(), images, labels) == pytest.approx(100 * 1200 / 1203)


def test_divergence() -> None:
    recipe = ImageRecipe(epochs=9, batch_size=8, learning_rate=1e38)
    with pytest.raises(DivergedError, match=r"^the loss became (nan|inf)$"):
        recipe.train(Flat(3), dataset(), seed=0)


class Bigram(nn.Module):
    """The smallest language model: the next token by the last one alone; it keeps what it saw."""

    def __init__(self, vocabulary: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.table = nn.Parameter(torch.randn(vocabulary, vocabulary, generator=generator))
        self.seen: list[Tensor] = []

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens [batch, length] to logits [batch, length, vocabulary]."""
        self.seen.append(tokens)
        return self.table[tokens]


def text(train: Tensor, held_out: Tensor | None = None) -> TextDataset:
    return TextDataset("toy", 256, train, train if held_out is None else held_out)


@torch.no_grad()
def test_perplexity_is_that_of_the_pairs() -> None:
    """Of 71 tokens the first 70 and their next, in sequences of 10, as 3 + 3 + 1 of them."""
    tokens = torch.randint(5, (71,), generator=torch.Generator().manual_seed(1))
    network = Bigram(5)
    log_probabilities = network.table.log_softmax(1)
    logs = [log_probabilities[tokens[i], tokens[i + 1]].item() for i in range(70)]
    wanted = math.exp(-sum(logs) / 70)
    assert perplexity(network, tokens, length=10, batch_size=3) == pytest.approx(wanted, rel=1e-5)
    assert [len(batch) for batch in network.seen] == [3, 3, 1]
    rest = torch.cat([tokens, tokens[:9]])
    assert perplexity(network, rest, length=10, batch_size=3) == pytest.approx(wanted, rel=1e-5)


def test_sequences_begin_at_a_random_byte_of_every_piece() -> None:
    """Tokens that are their own places tell where each sequence is from."""
    length, network = 4, Bigram(50)
    data = text(torch.arange(50))
    TextRecipe(epochs=30, batch_size=11, length=length).train(network, data, seed=0)
    seen = torch.stack(network.seen)  # [epochs, pieces, length]: 11 pieces and a rest
    assert seen.shape == (30, 11, length)
    assert torch.equal(seen.diff(dim=2), torch.ones(30, 11, length - 1, dtype=torch.long))
    assert all(sorted(epoch.tolist()) == list(range(11)) for epoch in seen[:, :, 0] // length)
    assert set((seen[:, :, 0] % length).flatten().tolist()) == set(range(length))
    assert len({tuple(epoch.tolist()) for epoch in seen[:, :, 0] // length}) == 30
    last = (TextRecipe(length=length).samples(data) - 1) * length + length - 1
    assert last + length < 50, "the last sequence has a next token for each of its own"


def test_loss_is_that_of_the_next_tokens() -> None:
    network, generator = Bigram(256), torch.Generator().manual_seed(3)
    tokens = torch.randint(256, (100,), generator=generator)
    loss = TextRecipe(length=7).loss(network, text(tokens), torch.tensor([2, 9]), generator)
    joined = bytes(tokens.tolist())
    begins = [joined.index(bytes(row.tolist())) for row in network.seen[0]]
    pairs = [(tokens[b + i], tokens[b + i + 1]) for b in begins for i in range(7)]
    logs = [network.table.log_softmax(1)[pair] for pair in pairs]
    assert loss.item() == pytest.approx(-torch.stack(logs).mean().item(), rel=1e-5)


def test_a_language_model_learns() -> None:
    """Words of four letters in random order: only their first letters are a surprise."""
    rng = random.Random(0)
    words = [rng.choice(["wolf", "bear", "frog", "hawk"]) for _ in range(2000)]
    tokens = torch.tensor(list("".join(words).encode()))
    choices = {"n_layer": 1, "d_embed": 32, "d_model": [32], "d_inner": [96], "n_head": [1]}
    network = GPT2_NANO.build(GPT2_NANO.architecture(choices))
    recipe = TextRecipe(epochs=4, batch_size=4, length=16)
    data = text(tokens[:6400], tokens[6400:])
    recipe.train(network, data, seed=0)
    best = 4 ** (1 / 4)
    assert best < recipe.score(network, data) < 1.15 * best


def test_a_perplexity_that_is_no_number() -> None:
    network = Bigram(4)
    network.table.data.fill_(float("nan"))
    with pytest.raises(DivergedError, match=r"^the perplexity became nan$"):
        perplexity(network, torch.zeros(9, dtype=torch.long), length=3, batch_size=2)


@pytest.mark.parametrize(
    ("recipe", "wrong", "message"),
    [
        (ImageRecipe, {"epochs": 0}, "^epochs must be a whole number >= 1, but got 0$"),
        (ImageRecipe, {"batch_size": 0}, "^batch_size must be a whole number >= 1, but got 0$"),
        (ImageRecipe, {"crop": -1}, "^crop must be a whole number >= 0, but got -1$"),
        (TextRecipe, {"epochs": 1.5}, "^epochs must be a whole number >= 1, but got 1.5$"),
        (TextRecipe, {"length": 0}, "^length must be a whole number >= 1, but got 0$"),
    ],
)
def test_wrong_recipe(
    recipe: type[TrainingRecipe[Any]], wrong: dict[str, Any], message: str
) -> None:
    with pytest.raises(AutoproxError, match=message):
        recipe(**wrong)


class Masked(GPT2NanoSpace):
    objective = "masked"
    mask = 0


@pytest.mark.parametrize(
    ("recipe", "space", "message"),
    [
        (
            TextRecipe(),
            get_space("autoformer-nano"),
            "^autoformer-nano must be trained on images, but got text: a.txt$",
        ),
        (ImageRecipe(), GPT2_NANO, "^gpt2-nano must be trained on text, but got images: a.txt$"),
        (
            TextRecipe(),
            Masked("masked-nano", "", GPT2_NANO.fields),
            "^a space must be causal to be .*, but masked-nano is masked; choose from gpt2, ",
        ),
        (
            TextRecipe(length=65),
            GPT2_NANO,
            "^length must be at most the context of gpt2-nano, 64, but got 65$",
        ),
    ],
)
def test_a_recipe_for_other_networks(
    recipe: TrainingRecipe[Any], space: SearchSpace, message: str
) -> None:
    with pytest.raises(TrainingError, match=message):
        recipe.load(Path("a.txt"), space)


@pytest.mark.parametrize(("train", "held_out"), [(256, 64), (127, 65)])
def test_a_text_that_is_too_short(train: int, held_out: int) -> None:
    data = text(torch.zeros(train), torch.zeros(held_out))
    message = rf"hold out more than 64 bytes, but toy has {train + held_out} in all$"
    with pytest.raises(TrainingError, match=message):
        TextRecipe().check({"toy": data})
    TextRecipe().check({"toy": text(torch.zeros(128), torch.zeros(65))})
