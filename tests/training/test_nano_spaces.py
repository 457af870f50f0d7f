"""Small networks of the newer spaces learn what is easy: whether images are bright or dark."""

import random

import pytest
import torch

from autoprox.inputs.training_datasets import ImageDataset
from autoprox.searchspaces import get_space
from autoprox.training.recipes import ImageRecipe


def bright_or_dark(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(count)
    labels = torch.arange(count) % 2
    noise = torch.randint(0, 128, (count, 16, 16, 3), generator=generator)
    return (noise + 100 * labels[:, None, None, None]).byte(), labels


@pytest.mark.parametrize("name", ["swin-nano", "bignas-nano"])
def test_a_network_learns(name: str) -> None:
    space = get_space(name)
    data = ImageDataset("bright", 2, *bright_or_dark(64), *bright_or_dark(32))
    network = space.build(space.sample(random.Random(0)), data.classes)
    recipe = ImageRecipe(epochs=4, batch_size=16, crop=0)
    recipe.train(network, data, seed=0)
    assert recipe.score(network, data) > 90
