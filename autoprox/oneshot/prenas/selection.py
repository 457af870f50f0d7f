"""The preferred set of architectures: PreNAS's selector (equations 8 to 10 and 13).

Of isomers the one with the greatest normalised SNIP represents its group, and of the
representatives below each size those with the greatest SNIP are preferred. Two normalisers say what
a step of a layer is worth: `paper` divides by the block's SNIP in the supernet; the authors'
`released` code divides that of each matrix by the product of its sums of |w| and |g|, leaves out
the projection and the biases, and takes every group for one of the greatest width.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from autoprox.errors import nearest
from autoprox.oneshot.prenas.isomers import (
    IsomerError,
    LayerScores,
    Layout,
    Scores,
    Values,
    representatives,
)
from autoprox.oneshot.prenas.saliency import Saliency
from autoprox.searchspaces import Architecture, SearchSpace

RELEASED = "released"
NORMALISERS = ("paper", RELEASED)
MATRICES = ("qkv.weight", "fc1.weight", "fc2.weight")  # that count for `released`


@dataclass(frozen=True)
class Preferred:
    """An architecture that was chosen: the least of the sizes below which it was, its scores."""

    architecture: Architecture
    size: int
    params: int
    flops: int
    snip: float
    normalised: float


def require_reach(space: SearchSpace, classes: int, size: int) -> None:
    """Raise unless the space has an architecture with fewer parameters."""
    ends = (space.smallest(), space.largest())
    least, greatest = (space.params(arch, classes) for arch in ends)
    if size <= least:
        rule = f"sizes must go beyond {least}, the least of {space.name} (to {greatest})"
        raise IsomerError(f"{rule}, but the greatest is {size}")


def by_size(
    rows: Sequence[Mapping[str, Any]], sizes: Sequence[int], per_size: int
) -> list[dict[str, Any]]:
    """Return which rows are preferred below each size, by their numbers from 1 on.

    The rows are all that a selector has chosen for these sizes. Those with the greatest SNIP of the
    rows below a size are those of all architectures below it, as the selector chose them.
    """
    ranked = sorted(enumerate(rows, start=1), key=lambda pair: -pair[1]["snip"])
    found = []
    for size in sorted(sizes):
        below = [number for number, row in ranked if row["params"] < size][:per_size]
        found.append({"size": size, "asked": per_size, "found": len(below), "preferred": below})
    return found


class Selector:
    """Chooses from one measurement of a random supernet."""

    def __init__(self, saliency: Saliency, normaliser: str) -> None:
        if normaliser not in NORMALISERS:
            choices = nearest(normaliser, NORMALISERS)
            raise IsomerError(f"unknown normaliser {normaliser!r}{choices}")
        layout = Layout(saliency.space)
        sums = layout.sums(saliency)
        scores = partial(LayerScores, saliency, layout, sums)
        self._saliency = saliency
        self.snip = scores(dict.fromkeys(saliency.products, 1.0))
        self.normalised = scores(by_block(saliency))
        steps = self.normalised.steps
        if normaliser == RELEASED:
            widest, _ = layout.values(saliency.space.largest())
            steps = partial(_steps_at, scores(_by_matrix(saliency)), widest)
        self.representatives = representatives(layout, steps)

    def choose(self, sizes: Sequence[int], per_size: int = 1) -> list[Preferred]:
        """Return the most salient representatives with fewer parameters than each size, or all.

        One that is among them for several sizes is there once, with the least of these sizes;
        `by_size` tells them all.
        """
        space, classes = self._saliency.space, self._saliency.classes
        known = [(arch, space.params(arch, classes)) for arch in self.representatives]
        known.sort(key=lambda pair: self.snip.score(pair[0]), reverse=True)
        chosen: dict[Architecture, Preferred] = {}
        for size in sorted(sizes):
            fitting = [pair for pair in known if pair[1] < size][:per_size]
            for arch, params in fitting:
                scores = self.snip.score(arch), self.normalised.score(arch)
                flops = space.flops(arch, classes)
                chosen.setdefault(arch, Preferred(arch, size, params, flops, *scores))
        return list(chosen.values())


def by_block(saliency: Saliency) -> dict[str, float]:
    """Equation 13: one over the SNIP of the parameter's block in the supernet; 0 outside."""
    whole = saliency.sums(saliency.space.largest())
    places = [saliency.places[name] for name in whole]
    factors = [*(1 / np.bincount(places, list(whole.values()))[: saliency.depth]), 0.0]
    return {name: factors[place] for name, place in saliency.places.items()}


def _by_matrix(saliency: Saliency) -> dict[str, float]:
    """One over the sums of |w| and |g| of each matrix that counts."""
    return {
        name: 1 / magnitude if name.endswith(MATRICES) else 0.0
        for name, magnitude in saliency.magnitudes.items()
    }


def _steps_at(scores: LayerScores, network: Values, other: Values, field: str) -> Scores:
    """Those of one network for every other."""
    return scores.steps(network, field)
