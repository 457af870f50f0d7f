"""Batch norms of subnets: those of some training images."""

import pytest
import torch

from autoprox.oneshot.supernet.inherited_accuracy import (
    batch_norms,
    calibrate_batch_norms,
    calibration_images,
)
from autoprox.oneshot.supernet.shared_weights import Supernet
from autoprox.searchspaces import get_space
from autoprox.training.recipes import normalise_images


def test_batch_norms_are_those_of_some_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other image, in two batches: the mean of their means and of their variances."""
    monkeypatch.setattr("autoprox.oneshot.supernet.inherited_accuracy.CALIBRATION", 8)
    monkeypatch.setattr("autoprox.oneshot.supernet.inherited_accuracy.CALIBRATION_BATCH", 4)
    space = get_space("bignas-nano")
    network = Supernet(space, 3).subnet(space.smallest())
    for seed in range(2):  # what was known before doesn't count
        generator = torch.Generator().manual_seed(seed)
        images = torch.randint(256, (16, 16, 16, 3), generator=generator, dtype=torch.uint8)
        means, variances = [], []
        for some in (images[:8:2], images[8::2]):
            pixels = network.stem(normalise_images(some).flatten(2).mT).flatten(0, 1)
            means.append(pixels.mean(0))
            variances.append(pixels.var(0))
        assert not calibrate_batch_norms(network, calibration_images(images)).training
        norm = network.stem_norm
        torch.testing.assert_close(norm.running_mean, sum(means) / 2)
        torch.testing.assert_close(norm.running_var, sum(variances) / 2)
    assert len(batch_norms(network)) == 2 + sum(3 if b.expands else 2 for b in network.blocks)


def test_a_network_without_them_is_left_alone() -> None:
    space = get_space("autoformer-nano")
    network = Supernet(space, 3).subnet(space.smallest())
    nothing = torch.empty(0, 32, 32, 3, dtype=torch.uint8)
    assert calibrate_batch_norms(network.train(), nothing).training is False
