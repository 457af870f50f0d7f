"""Erasing, mixup and cutmix: by their definitions, and their distributions against scipy."""

import pytest
import torch
from scipy import stats

from autoprox.oneshot.supernet.regularisation import (
    mixup_or_cutmix,
    random_boxes,
    random_erasing,
    sample_beta,
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("parameter", [0.2, 0.8, 1.0])
def test_beta_is_the_beta_distribution(parameter: float) -> None:
    drawn = sample_beta(parameter, 2000, generator()).numpy()
    assert stats.kstest(drawn, stats.beta(parameter, parameter).cdf).pvalue > 0.01


def test_without_a_parameter_all_is_an_images_own() -> None:
    assert sample_beta(0.0, 3, generator()).tolist() == [1.0] * 3


def test_boxes_have_their_size_where_they_fit() -> None:
    inside = random_boxes(torch.full((500,), 0.5), torch.full((500,), 0.25), (16, 8), generator())
    assert inside.shape == (500, 16, 8)
    heights, widths = inside.any(2).sum(1), inside.any(1).sum(1)
    assert torch.equal(inside.sum((1, 2)), heights * widths)
    assert heights.max() <= 9
    assert heights.min() >= 4  # half of it beyond the border
    assert heights.float().mode().values == 8
    assert widths.float().mode().values == 2
    covered = inside.float().mean(0)
    assert covered.min() > 0


def test_some_images_are_erased_in_one_box() -> None:
    images = torch.full((400, 3, 16, 16), 9.0)
    erased = random_erasing(images, 0.25, generator()) != 9.0
    assert (erased.all(1) == erased.any(1)).all()
    changed = erased.any(1).flatten(1).any(1)
    assert 0.18 < changed.float().mean() < 0.32
    area = erased.any(1).flatten(1).float().mean(1)[changed]
    assert area.max() < 0.4
    assert torch.equal(random_erasing(images, 0.0, generator()), images)


def mixed(mixup: float, cutmix: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Of images that are their labels all over."""
    labels = torch.arange(64) % 2
    images = labels.float()[:, None, None, None].expand(-1, 3, 16, 16)
    return mixup_or_cutmix(images, labels, 2, generator(), mixup=mixup, cutmix=cutmix)


@pytest.mark.parametrize(("mixup", "cutmix"), [(0.8, 0.0), (0.0, 1.0), (0.8, 1.0)])
def test_shares_of_classes_are_those_of_the_pixels(mixup: float, cutmix: float) -> None:
    images, targets = mixed(mixup, cutmix)
    torch.testing.assert_close(targets.sum(1), torch.ones(64))
    torch.testing.assert_close(images.mean((1, 2, 3)), targets[:, 1])
    assert ((targets > 0) & (targets < 1)).any()


def test_cutmix_takes_boxes_and_mixup_shares() -> None:
    cut, _ = mixed(0.0, 1.0)
    assert set(cut.unique().tolist()) == {0.0, 1.0}
    blended, _ = mixed(0.8, 0.0)
    assert torch.equal(blended, blended[:, :, :1, :1].expand_as(blended))
    both, _ = mixed(0.8, 1.0)
    whole = (both == both[:, :, :1, :1]).flatten(1).all(1)
    assert 0 < whole.sum() < 64
