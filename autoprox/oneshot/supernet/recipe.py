"""How a supernet is trained: the recipe of `training`, and what AutoFormer's adds."""

import math
from pathlib import Path
from typing import Annotated

import torch
from annotated_types import Ge, Lt
from torch import Tensor

from autoprox.declared_options import Positive
from autoprox.inputs.datasets import Images, load_images
from autoprox.oneshot.supernet.augmentation import erase, mix
from autoprox.searchspaces import SearchSpace
from autoprox.training.images import ImageRecipe

Share = Annotated[float, Ge(0), Lt(1)]
NotNegative = Annotated[float, Ge(0)]


class SupernetRecipe(ImageRecipe):
    """How a supernet is trained on images."""

    final_rate: NotNegative = 1e-5
    drop_path: Share = 0.1  # of the last block; the others less
    repeats: Positive = 1  # how often an image is in a batch, varied anew (Hoffer et al., 2020)
    mixup: NotNegative = 0.0
    cutmix: NotNegative = 0.0
    erasing: Share = 0.0

    def load(self, path: Path, space: SearchSpace) -> Images:
        return load_images(path, space.input_shape, least=getattr(space, "patch", 1))

    def prepare(
        self, data: Images, chosen: Tensor, generator: torch.Generator
    ) -> tuple[Tensor, Tensor]:
        """Images as the networks see them, with labels or the shares of classes."""
        images, targets = super().prepare(data, chosen, generator)
        if self.erasing:
            images = erase(images, self.erasing, generator)
        if self.mixup or self.cutmix:
            beta = {"mixup": self.mixup, "cutmix": self.cutmix}
            images, targets = mix(images, targets, data.classes, generator, **beta)
        return images, targets

    def factor(self, step: int, steps: int) -> float:
        """What the learning rate is multiplied by: a warm-up below a cosine to the final rate."""
        warm = (step + 1) / max(1, round(self.warmup * steps))
        least = self.final_rate / self.learning_rate
        return min(warm, least + (1 - least) * (1 + math.cos(math.pi * step / steps)) / 2)

    def step_size(self, samples: int) -> int:
        """Return the number of images of a step, repeated ones counted each time."""
        return max(1, min(self.batch_size, samples) // self.repeats) * self.repeats

    def order(self, samples: int, generator: torch.Generator) -> Tensor:
        """The samples of an epoch, [steps, batch]; repeated ones are in the same batch."""
        size = min(self.batch_size, samples)
        each = self.step_size(samples) // self.repeats
        steps = samples // size
        order = torch.randperm(samples, generator=generator)[: steps * each]
        return order.view(steps, each).repeat(1, self.repeats)
