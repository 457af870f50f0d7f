"""PreNAS's preferred architectures: one of every group of isomers (equations 8 to 10 and 13).

Isomers differ only in which layers have more of what all of them have. The one with the greatest
normalised SNIP, by the greedy algorithm of appendix B, represents its group, and of the
representatives below each size those with the greatest SNIP are preferred. There are two
normalisers: `paper` divides by the block's SNIP in the supernet; the authors' `released` code
divides that of each matrix by the product of its sums of |w| and |g|, leaves out the projection and
the biases, and scores every group as if it were of the greatest width.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from autoprox.errors import AutoproxError, nearest
from autoprox.oneshot.prenas.supernet_saliency import SupernetSaliency
from autoprox.scoring.correlations import Floats
from autoprox.searchspaces import Architecture, SearchSpace

RELEASED = "released"
NORMALISERS = ("paper", RELEASED)
NORMALISED_MATRICES = ("qkv.weight", "fc1.weight", "fc2.weight")  # by `released`

OptionValues = tuple[Any, ...]
LayerSums = Mapping[tuple[OptionValues, OptionValues], Mapping[str, float]]


class IsomerError(AutoproxError):
    """A space whose architectures have no isomers."""


@dataclass(frozen=True)
class PreferredArchitecture:
    """A preferred architecture, the least size below which it is preferred, and its scores."""

    architecture: Architecture
    size: int
    params: int
    flops: int
    snip: float
    normalised: float


class IsomerFields:
    """The fields of a space: those of the whole network, those of each layer, and the depth."""

    def __init__(self, space: SearchSpace) -> None:
        counts = {field.count for field in space.fields.values() if field.listed}
        where = any(field.where for field in space.fields.values())
        if len(counts) != 1 or None in counts or where:
            rule = "isomers need a space whose layers all have the same options"
            raise IsomerError(f"{rule}, which {space.name} has not")
        self.depth = str(counts.pop())
        self.space = space
        names = [name for name in space.fields if name != self.depth]
        self.networks = [name for name in names if not space.fields[name].listed]
        self.layers = [name for name in names if space.fields[name].listed]

    def options(self, *names: str) -> list[OptionValues]:
        """Return all combinations of the options of fields, each in ascending order."""
        return list(product(*(sorted(self.space.fields[name].options[0]) for name in names)))

    def architecture(self, network: OptionValues, layers: Sequence[OptionValues]) -> Architecture:
        """Return the architecture with these values for the network and for each layer."""
        columns = dict(zip(self.layers, zip(*layers, strict=True), strict=True))
        choices = dict(zip(self.networks, network, strict=True))
        return self.space.architecture({**choices, self.depth: len(layers), **columns})

    def values(self, arch: Architecture) -> tuple[OptionValues, list[OptionValues]]:
        """Return an architecture's values for the network and for each layer."""
        columns = [arch[name] for name in self.layers]
        return tuple(arch[name] for name in self.networks), list(zip(*columns, strict=True))

    def sums(self, saliency: SupernetSaliency) -> LayerSums:
        """Return the saliencies of the deepest networks whose layers all have the same options."""
        return {
            (network, layer): saliency.sums(self.architecture(network, [layer] * saliency.depth))
            for network in self.options(*self.networks)
            for layer in self.options(*self.layers)
        }


class LayerScores:
    """The contribution of every layer of a subnet to a score, by the options of both.

    The score is a sum over parameters of factor times |w g|, those outside of the blocks included.
    A network's depth doesn't matter: it has the first of the largest's layers.
    """

    def __init__(
        self,
        saliency: SupernetSaliency,
        fields: IsomerFields,
        sums: LayerSums,
        factors: Mapping[str, float],
    ) -> None:
        self._fields = fields
        self._layers: dict[OptionValues, dict[OptionValues, Floats]] = {}
        self._rest: dict[OptionValues, float] = {}
        for (network, layer), totals in sums.items():
            scores = np.zeros(saliency.depth + 1)
            blocks = [saliency.blocks[name] for name in totals]
            np.add.at(scores, blocks, [factors[name] * total for name, total in totals.items()])
            self._layers.setdefault(network, {})[layer] = scores[:-1]
            self._rest[network] = float(scores[-1])

    def score(self, arch: Architecture) -> float:
        """Return the score of a subnet."""
        network, layers = self._fields.values(arch)
        table = self._layers[network]
        return self._rest[network] + sum(float(table[own][i]) for i, own in enumerate(layers))

    def steps(self, network: OptionValues, field: str) -> Floats:
        """Return each layer's gain from each next option of a field: [layers, options - 1].

        The other fields have their least options. Options needn't be equally far apart: a gain is
        that for a step of one.
        """
        lists = [sorted(self._fields.space.fields[n].options[0]) for n in self._fields.layers]
        index = self._fields.layers.index(field)
        least = [options[0] for options in lists]
        rows = [(*least[:index], option, *least[index + 1 :]) for option in lists[index]]
        table = np.stack([self._layers[network][row] for row in rows], axis=1)
        return np.diff(table, axis=1) / np.diff(np.array(lists[index], dtype=np.float64))


def option_allocations(steps: Floats) -> Iterator[tuple[int, ...]]:
    """Yield for every total, in ascending order, the index of each layer's option (appendix B).

    All layers begin with the first; the next step always goes to the layer that gains most.
    """
    layers, last = np.arange(len(steps)), steps.shape[1]
    taken = np.zeros(len(steps), dtype=np.int64)
    padded = np.pad(steps, ((0, 0), (0, 1)), constant_values=-np.inf)
    yield tuple(taken.tolist())
    for _ in range(len(steps) * last):
        taken[padded[layers, taken].argmax()] += 1
        yield tuple(taken.tolist())


def _representatives(
    fields: IsomerFields, steps: Callable[[OptionValues, str], Floats]
) -> Iterator[Architecture]:
    """Yield an architecture of every group of isomers that the greedy algorithm passes through."""
    lists = [sorted(fields.space.fields[name].options[0]) for name in fields.layers]
    for network in fields.options(*fields.networks):
        gains = [steps(network, field) for field in fields.layers]
        for (depth,) in fields.options(fields.depth):
            columns = [
                [[options[i] for i in taken] for taken in option_allocations(gain[:depth])]
                for options, gain in zip(lists, gains, strict=True)
            ]
            for chosen in product(*columns):
                yield fields.architecture(network, list(zip(*chosen, strict=True)))


class IsomerSelector:
    """Chooses from one measurement of a random supernet."""

    def __init__(self, saliency: SupernetSaliency, normaliser: str) -> None:
        if normaliser not in NORMALISERS:
            choices = nearest(normaliser, NORMALISERS)
            raise IsomerError(f"unknown normaliser {normaliser!r}{choices}")
        self._saliency = saliency
        fields = IsomerFields(saliency.space)
        sums = fields.sums(saliency)
        self.snip = LayerScores(saliency, fields, sums, dict.fromkeys(saliency.products, 1.0))
        self.normalised = LayerScores(saliency, fields, sums, block_normalisers(saliency))
        steps = self.normalised.steps
        if normaliser == RELEASED:
            factors = {
                name: 1 / magnitude if name.endswith(NORMALISED_MATRICES) else 0.0
                for name, magnitude in saliency.magnitudes.items()
            }
            scores = LayerScores(saliency, fields, sums, factors)
            widest, _ = fields.values(saliency.space.largest())
            steps = lambda network, field: scores.steps(widest, field)  # noqa: E731
        self.representatives = list(_representatives(fields, steps))

    def choose(self, sizes: Sequence[int], per_size: int = 1) -> list[PreferredArchitecture]:
        """Return the most salient representatives with fewer parameters than each size, or all.

        One that is among them for several sizes is returned once, with the least of these sizes;
        `preferred_by_size` lists them for each.
        """
        space, classes = self._saliency.space, self._saliency.classes
        known = [(arch, space.params(arch, classes)) for arch in self.representatives]
        known.sort(key=lambda pair: self.snip.score(pair[0]), reverse=True)
        chosen: dict[Architecture, PreferredArchitecture] = {}
        for size in sorted(sizes):
            for arch, params in [pair for pair in known if pair[1] < size][:per_size]:
                scores = self.snip.score(arch), self.normalised.score(arch)
                flops = space.flops(arch, classes)
                chosen.setdefault(arch, PreferredArchitecture(arch, size, params, flops, *scores))
        return list(chosen.values())


def block_normalisers(saliency: SupernetSaliency) -> dict[str, float]:
    """Equation 13: one over the SNIP of the parameter's block in the supernet; 0 outside."""
    sums = saliency.sums(saliency.space.largest())
    blocks = [saliency.blocks[name] for name in sums]
    factors = [*(1 / np.bincount(blocks, list(sums.values()))[: saliency.depth]), 0.0]
    return {name: factors[block] for name, block in saliency.blocks.items()}


def require_reachable_size(space: SearchSpace, classes: int, size: int) -> None:
    """Raise unless the space has an architecture with fewer parameters."""
    ends = (space.smallest(), space.largest())
    least, greatest = (space.params(arch, classes) for arch in ends)
    if size <= least:
        rule = f"sizes must go beyond {least}, the least of {space.name} (to {greatest})"
        raise IsomerError(f"{rule}, but the greatest is {size}")


def preferred_by_size(
    rows: Sequence[Mapping[str, Any]], sizes: Sequence[int], per_size: int
) -> list[dict[str, Any]]:
    """Return which rows are preferred below each size, by their numbers from 1 on.

    The rows are all that a selector has chosen for these sizes: those of them with the greatest
    SNIP below a size are those of all architectures.
    """
    ranked = sorted(enumerate(rows, start=1), key=lambda pair: -pair[1]["snip"])
    result = []
    for size in sorted(sizes):
        below = [number for number, row in ranked if row["params"] < size][:per_size]
        result.append({"size": size, "asked": per_size, "found": len(below), "preferred": below})
    return result
