"""How a batch of images is varied: random erasing, mixup and cutmix.

Zhong et al., "Random Erasing Data Augmentation", AAAI 2020; Zhang et al., "mixup", ICLR 2018; Yun
et al., "CutMix", ICCV 2019. Every image has its own chance, its own box and its own share.
"""

import torch
from torch import Tensor
from torch.nn import functional

ERASED = (0.02, 1 / 3)  # of an image's area
SHAPE = 0.3  # of the box that is erased: height by width, or width by height, at least


def erase(images: Tensor, probability: float, generator: torch.Generator) -> Tensor:
    """Fill a box of some of the images [n, channels, height, width] with noise."""
    count, _, height, width = images.shape
    low, high = ERASED
    area = low + (high - low) * torch.rand(count, generator=generator)
    shape = SHAPE ** (2 * torch.rand(count, generator=generator) - 1)
    box = boxes((area * shape).sqrt(), (area / shape).sqrt(), (height, width), generator)
    chosen = torch.rand(count, generator=generator) < probability
    noise = torch.randn(images.shape, generator=generator)
    return torch.where((box & chosen[:, None, None])[:, None], noise, images)


def mix(
    images: Tensor,
    labels: Tensor,
    classes: int,
    generator: torch.Generator,
    *,
    mixup: float,
    cutmix: float,
) -> tuple[Tensor, Tensor]:
    """Give each image some of another; returns the shares of the classes, [n, classes].

    `mixup` and `cutmix` are the parameters of the beta distributions of the share; 0 leaves it out.
    Where there are both, each image has either with the same chance.
    """
    count, _, height, width = images.shape
    others = torch.randperm(count, generator=generator)
    cut = torch.rand(count, generator=generator) < (0.5 if mixup and cutmix else bool(cutmix))
    share = torch.where(cut, beta(cutmix, count, generator), beta(mixup, count, generator))
    side = (1 - share).sqrt()
    box = boxes(side, side, (height, width), generator)
    share = torch.where(cut, 1 - box.float().mean((1, 2)), share)
    own = torch.where(cut[:, None, None], ~box, share[:, None, None])[:, None]
    targets = functional.one_hot(labels, classes) * share[:, None]
    targets += functional.one_hot(labels[others], classes) * (1 - share)[:, None]
    return own * images + (1 - own) * images[others], targets


def boxes(
    heights: Tensor, widths: Tensor, size: tuple[int, int], generator: torch.Generator
) -> Tensor:
    """Boxes somewhere in images of this size, cut off at the border: [n, height, width].

    Their heights and widths are shares of the images'.
    """
    inside = []
    for length, pixels in zip((heights, widths), size, strict=True):
        centre = torch.rand(len(length), generator=generator) * pixels
        distance = (torch.arange(pixels) + 0.5 - centre[:, None]).abs()
        inside.append(distance <= (length * pixels / 2)[:, None])
    return inside[0][:, :, None] & inside[1][:, None]


def beta(parameter: float, count: int, generator: torch.Generator) -> Tensor:
    """From the symmetric beta distribution, [n]; all 1 where the parameter is 0.

    By Jöhnk's method: of u^(1/a) and v^(1/a) with a sum of at most 1, the part of the first.
    """
    if not parameter:
        return torch.ones(count)
    found = torch.full((count,), torch.nan)
    while (missing := found.isnan()).any():
        x, y = torch.rand(2, count, generator=generator, dtype=torch.float64) ** (1 / parameter)
        fits = missing & (x + y <= 1) & (x + y > 0)
        found = torch.where(fits, (x / (x + y)).float(), found)
    return found
