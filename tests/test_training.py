"""The training loop against plain PyTorch and formulas written out."""

import math
import random

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from autoprox.datasets import Dataset
from autoprox.searchspaces import get_space
from autoprox.training import (
    DivergedError,
    Recipe,
    Teacher,
    TrainingError,
    _batches,
    _crop,
    _normalise,
    _pad,
    accuracy,
    train,
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


def dataset(count: int = 24, classes: int = 3) -> Dataset:
    """Classes that differ in brightness: 0, 1, 2, 0, ... from dark to bright."""
    rng = np.random.default_rng(0)
    labels = torch.arange(count) % classes
    noise = torch.from_numpy(rng.integers(0, 60, (count, SIDE, SIDE, 3)))
    images = (noise + 90 * labels[:, None, None, None]).to(torch.uint8)
    return Dataset("toy", classes, images, labels, images, labels)


def test_windows_are_those_of_the_padded_image() -> None:
    images = torch.from_numpy(np.random.default_rng(0).integers(0, 256, (64, 5, 4, 3)))
    images = images.to(torch.uint8)
    padded = np.pad(images.numpy(), ((0, 0), (2, 2), (2, 2), (0, 0)), mode="edge")
    generator = torch.Generator().manual_seed(0)
    for mirror in (False, True):
        seen = set()
        cropped = _crop(_pad(images, 2), 2, mirror, generator).numpy()
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
    assert _crop(_pad(images, 0), 0, False, torch.Generator()).equal(images)


def test_normalisation() -> None:
    pixel = torch.tensor([255, 0, 51], dtype=torch.uint8).expand(1, 2, 2, 3)
    expected = [(1 - 0.485) / 0.229, -0.456 / 0.224, (0.2 - 0.406) / 0.225]
    seen = _normalise(pixel)
    assert seen.shape == (1, 3, 2, 2)
    assert seen[0, :, 1, 1].tolist() == pytest.approx(expected, rel=1e-5)


def test_every_epoch_is_another_permutation() -> None:
    batches = torch.stack(list(_batches(10, 3, 4, torch.Generator().manual_seed(0))))
    epochs = batches.reshape(4, 9).tolist()
    assert all(len(set(epoch)) == 9 and set(epoch) <= set(range(10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 4


def test_learning_rate() -> None:
    recipe = Recipe(warmup=0.1)
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
def test_two_steps_are_those_of_plain_adamw(taught: bool) -> None:
    """A batch of everything, so that the order of the images doesn't count."""
    data = dataset()
    recipe = Recipe(epochs=2, batch_size=24, learning_rate=0.01, weight_decay=0.3, crop=0)
    teacher: Teacher | None = (
        (lambda images: torch.eye(3)[images.mean((1, 2, 3)).long() % 3]) if (taught) else None
    )
    network, expected = Flat(3), Flat(3)
    loss = train(network, data, recipe, seed=1, teacher=teacher)

    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    images = ((data.images / 255 - mean) / std).permute(0, 3, 1, 2)
    moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in expected.parameters()]
    for step in (1, 2):
        logits = expected(images)
        value = cross_entropy(logits, data.labels, 0.1)
        if teacher is not None:
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
    noise = torch.from_numpy(rng.integers(0, 150, (200, 32, 32, 3)))
    images = (noise + 100 * labels[:, None, None, None]).to(torch.uint8)
    data = Dataset("toy", 2, images[:160], labels[:160], images[160:], labels[160:])
    space = get_space("autoformer-nano")
    network = space.build(space.sample(random.Random(0)), classes=2)
    train(network, data, Recipe(epochs=4, batch_size=16), seed=0)
    assert accuracy(network, data.held_out_images, data.held_out_labels) > 90


def test_same_seed_same_weights_and_the_global_stream_is_left_alone() -> None:
    networks = [Flat(3) for _ in range(3)]
    state = torch.random.get_rng_state()
    weights = []
    for network, seed in zip(networks, (3, 3, 4), strict=True):
        train(network, dataset(), Recipe(epochs=1, batch_size=8), seed)
        weights.append(network.layer.weight.detach())
    assert weights[0].equal(weights[1])
    assert not weights[0].equal(weights[2])
    assert torch.random.get_rng_state().equal(state)


def test_only_named_datasets_are_mirrored() -> None:
    weights = []
    for mirror in ((), ("other",), ("toy",)):
        network = Flat(3)
        train(network, dataset(), Recipe(epochs=1, batch_size=8, mirror=mirror), seed=0)
        weights.append(network.layer.weight.detach())
    assert weights[0].equal(weights[1])
    assert not weights[0].equal(weights[2])


def test_fewer_images_than_a_batch() -> None:
    network = Flat(3)
    before = network.layer.weight.detach().clone()
    train(network, dataset(), Recipe(epochs=1, batch_size=1000), seed=0)
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
    with pytest.raises(DivergedError, match=r"^the loss became nan|inf$"):
        train(Flat(3), dataset(), Recipe(epochs=9, batch_size=8, learning_rate=1e38), seed=0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [({"epochs": 0}, "epochs=0"), ({"batch_size": 0}, "batch_size=0"), ({"crop": -1}, "crop=-1")],
)
def test_wrong_recipe(wrong: dict[str, int], message: str) -> None:
    with pytest.raises(TrainingError, match=rf"must hold, but got .*{message}"):
        Recipe(**wrong)  # type: ignore[arg-type]
