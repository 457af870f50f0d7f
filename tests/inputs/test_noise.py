"""Noise in place of images."""

import numpy as np
import torch

from autoprox.inputs.batch_loading import load_image_batch

SHAPE = (3, 32, 32)


def test_noise_is_the_same_for_every_dataset_of_a_seed() -> None:
    batches = [
        load_image_batch(name, SHAPE, 256, seed=5) for name in ("cifar100", "flowers", "chaoyang")
    ]
    first = batches[0]
    assert first.inputs.shape == (256, *SHAPE)
    assert (first.inputs.dtype, first.labels.dtype) == (torch.float32, torch.int64)
    assert abs(float(first.inputs.mean())) < 0.01
    assert abs(float(first.inputs.std()) - 1) < 0.01
    for batch, classes in zip(batches, (100, 102, 4), strict=True):
        assert torch.equal(batch.inputs, first.inputs)
        assert batch.classes == classes
        assert batch.labels.min() >= 0
        assert batch.labels.max() < classes
    assert set(batches[2].labels.tolist()) == {0, 1, 2, 3}
    assert len({batch.digest for batch in batches}) == 3
    assert not torch.equal(load_image_batch("cifar100", SHAPE, 256, seed=6).inputs, first.inputs)
    assert batches[0].source == "gaussian noise"


def test_noise_leaves_the_global_generators_alone() -> None:
    torch.manual_seed(3)
    np.random.seed(3)
    expected = torch.rand(1), np.random.rand()
    torch.manual_seed(3)
    np.random.seed(3)
    load_image_batch("cifar100", SHAPE, 4, seed=0)
    assert (torch.rand(1), np.random.rand()) == expected
