"""Regularisation of supernets: random erasing, mixup, cutmix and stochastic depth.

Zhong et al., "Random Erasing Data Augmentation", AAAI 2020; Zhang et al., "mixup", ICLR 2018; Yun
et al., "CutMix", ICCV 2019; Huang et al., "Deep Networks with Stochastic Depth", ECCV 2016. Every
image of a batch is drawn for independently.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from autoprox.searchspaces import TransformerNetwork
from autoprox.searchspaces.transformer import TransformerBlock

ERASED = (0.02, 1 / 3)  # of an image's area
LEAST_ASPECT = 0.3  # of the box that is erased: height by width, or width by height


def random_erasing(images: Tensor, probability: float, generator: torch.Generator) -> Tensor:
    """Fill a box of some of the images [n, channels, height, width] with noise."""
    count, _, height, width = images.shape
    low, high = ERASED
    area = low + (high - low) * torch.rand(count, generator=generator)
    aspect = LEAST_ASPECT ** (2 * torch.rand(count, generator=generator) - 1)
    box = random_boxes((area * aspect).sqrt(), (area / aspect).sqrt(), (height, width), generator)
    chosen = torch.rand(count, generator=generator) < probability
    noise = torch.randn(images.shape, generator=generator)
    return torch.where((box & chosen[:, None, None])[:, None], noise, images)


def mixup_or_cutmix(
    images: Tensor,
    labels: Tensor,
    classes: int,
    generator: torch.Generator,
    *,
    mixup: float,
    cutmix: float,
) -> tuple[Tensor, Tensor]:
    """Mix each image with another; returns them with their shares of the classes, [n, classes].

    `mixup` and `cutmix` are the parameters of the beta distributions of the share; 0 leaves it out.
    If both are given, each image has either with the same probability.
    """
    count, _, height, width = images.shape
    others = torch.randperm(count, generator=generator)
    cut = torch.rand(count, generator=generator) < (0.5 if mixup and cutmix else bool(cutmix))
    share = torch.where(
        cut, sample_beta(cutmix, count, generator), sample_beta(mixup, count, generator)
    )
    side = (1 - share).sqrt()
    box = random_boxes(side, side, (height, width), generator)
    share = torch.where(cut, 1 - box.float().mean((1, 2)), share)
    kept = torch.where(cut[:, None, None], ~box, share[:, None, None])[:, None]
    targets = functional.one_hot(labels, classes) * share[:, None]
    targets += functional.one_hot(labels[others], classes) * (1 - share)[:, None]
    return kept * images + (1 - kept) * images[others], targets


def random_boxes(
    heights: Tensor, widths: Tensor, size: tuple[int, int], generator: torch.Generator
) -> Tensor:
    """Draw boxes as masks [n, height, width], clipped at the border.

    Their heights and widths are fractions of the images'.
    """
    inside = []
    for length, pixels in zip((heights, widths), size, strict=True):
        centre = torch.rand(len(length), generator=generator) * pixels
        distance = (torch.arange(pixels) + 0.5 - centre[:, None]).abs()
        inside.append(distance <= (length * pixels / 2)[:, None])
    return inside[0][:, :, None] & inside[1][:, None]


def sample_beta(parameter: float, count: int, generator: torch.Generator) -> Tensor:
    """Draw from the symmetric beta distribution, [n]; all 1 if the parameter is 0.

    By Jöhnk's method: of u^(1/a) and v^(1/a) with a sum of at most 1, the share of the first.
    """
    if not parameter:
        return torch.ones(count)
    values = torch.full((count,), torch.nan)
    while (missing := values.isnan()).any():
        x, y = torch.rand(2, count, generator=generator, dtype=torch.float64) ** (1 / parameter)
        fits = missing & (x + y <= 1) & (x + y > 0)
        values = torch.where(fits, (x / (x + y)).float(), values)
    return values


def drop_path_rates(network: TransformerNetwork, greatest: float) -> dict[str, float]:
    """Return the rate at which each block's branches are dropped: it rises linearly with depth."""
    names = [name for name, part in network.named_modules() if isinstance(part, TransformerBlock)]
    last = max(1, len(names) - 1)
    return {name: greatest * index / last for index, name in enumerate(names)}


def _branches(
    network: TransformerNetwork, rates: Mapping[str, float]
) -> Iterator[tuple[nn.Module, float]]:
    for name, block in network.named_modules():
        if isinstance(block, TransformerBlock) and rates[name] > 0:
            for branch in block.branches():
                yield branch, rates[name]


def _branch_weights(rate: float, count: int, generator: torch.Generator) -> Tensor:
    return torch.rand(count, generator=generator).ge(rate) / (1 - rate)


def _weight_output(weights: Tensor, branch: nn.Module, inputs: object, output: Tensor) -> Tensor:
    return output * weights.view(-1, *[1] * (output.dim() - 1))


def apply_stochastic_depth(
    network: TransformerNetwork, rates: Mapping[str, float], generator: torch.Generator
) -> None:
    """Make a network drop the branches of its blocks in training, drawn for each input."""

    def drop(rate: float, branch: nn.Module, inputs: object, output: Tensor) -> Tensor:
        if not branch.training:
            return output
        weights = _branch_weights(rate, len(output), generator).to(output)
        return _weight_output(weights, branch, inputs, output)

    for branch, rate in _branches(network, rates):
        branch.register_forward_hook(partial(drop, rate))


def draw_branch_weights(
    network: TransformerNetwork, rates: Mapping[str, float], count: int, generator: torch.Generator
) -> dict[nn.Module, Tensor]:
    """Draw the weight of each branch for each input: 0, or the inverse of the rate of keeping."""
    return {
        branch: _branch_weights(rate, count, generator)
        for branch, rate in _branches(network, rates)
    }


@contextmanager
def weighted_branches(weights: Mapping[nn.Module, Tensor]) -> Iterator[None]:
    """Multiply the outputs of branches by a weight for each input."""
    with ExitStack() as hooks:
        for branch, weight in weights.items():
            hooks.enter_context(branch.register_forward_hook(partial(_weight_output, weight)))
        yield
