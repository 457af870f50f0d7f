"""Isomers: architectures that differ only in which layers have more of what all of them have.

Layers are scored by tables: how much a layer with certain options contributes to a score, for every
combination of options. Of isomers PreNAS takes the one that its greedy algorithm (appendix B) makes
for the score, which is the best where a layer has two options.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autoprox.errors import AutoproxError
from autoprox.oneshot.prenas.saliency import Saliency
from autoprox.searchspaces import Architecture, SearchSpace

Values = tuple[Any, ...]
Scores = NDArray[np.float64]
Sums = Mapping[tuple[Values, Values], Mapping[str, float]]  # of each parameter of a network


class IsomerError(AutoproxError):
    """A space whose architectures have no isomers."""


class Layout:
    """Which fields of a space hold for the network, which for a layer, and which is the depth."""

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

    def options(self, *names: str) -> list[Values]:
        """All combinations of the options of these fields, each field's in ascending order."""
        return list(product(*(sorted(self.space.fields[name].options[0]) for name in names)))

    def architecture(self, network: Values, layers: Sequence[Values]) -> Architecture:
        """The architecture with these values for the network and for each layer."""
        columns = dict(zip(self.layers, zip(*layers, strict=True), strict=True))
        choices = dict(zip(self.networks, network, strict=True))
        return self.space.architecture({**choices, self.depth: len(layers), **columns})

    def sums(self, saliency: Saliency) -> Sums:
        """The saliencies of the networks of greatest depth whose layers all have one choice."""
        return {
            (network, layer): saliency.sums(self.architecture(network, [layer] * saliency.depth))
            for network in self.options(*self.networks)
            for layer in self.options(*self.layers)
        }

    def values(self, arch: Architecture) -> tuple[Values, list[Values]]:
        """The values for the network and for each layer."""
        columns = [arch[name] for name in self.layers]
        return tuple(arch[name] for name in self.networks), list(zip(*columns, strict=True))


class LayerScores:
    """What every layer of a subnet contributes to a score, by the options of network and layer.

    The score is a sum over parameters of factor times |w g|; `rest` is that of parameters outside
    of the blocks. A network's depth doesn't matter: it has the first of the largest's layers.
    """

    def __init__(
        self, saliency: Saliency, layout: Layout, sums: Sums, factors: Mapping[str, float]
    ) -> None:
        self._layout = layout
        self._layers: dict[Values, dict[Values, Scores]] = {}
        self._rest: dict[Values, float] = {}
        for (network, layer), own in sums.items():
            places = [saliency.places[name] for name in own]
            parts = [factors[name] * total for name, total in own.items()]
            scores = np.zeros(saliency.depth + 1)
            np.add.at(scores, places, parts)
            self._layers.setdefault(network, {})[layer] = scores[:-1]
            self._rest[network] = float(scores[-1])

    def score(self, arch: Architecture) -> float:
        """The score of a subnet."""
        network, layers = self._layout.values(arch)
        table = self._layers[network]
        return self._rest[network] + sum(float(table[own][i]) for i, own in enumerate(layers))

    def steps(self, network: Values, field: str) -> Scores:
        """What each layer gains from each next option of a field: [layers, options - 1].

        The other fields have their least options. Options needn't be equally far apart: a gain is
        that for a step of one.
        """
        lists = [sorted(self._layout.space.fields[n].options[0]) for n in self._layout.layers]
        place = self._layout.layers.index(field)
        least = [own[0] for own in lists]
        rows = [(*least[:place], o, *least[place + 1 :]) for o in lists[place]]
        table = np.stack([self._layers[network][row] for row in rows], axis=1)
        return np.diff(table, axis=1) / np.diff(np.array(lists[place], dtype=np.float64))


def allocations(steps: Scores) -> Iterator[tuple[int, ...]]:
    """For every total, in ascending order, which option each layer has: appendix B of PreNAS.

    All layers begin with the first; the next step always goes to the layer that gains most.
    """
    layers, last = np.arange(len(steps)), steps.shape[1]
    taken = np.zeros(len(steps), dtype=np.int64)
    padded = np.pad(steps, ((0, 0), (0, 1)), constant_values=-np.inf)
    yield tuple(taken.tolist())
    for _ in range(len(steps) * last):
        taken[padded[layers, taken].argmax()] += 1
        yield tuple(taken.tolist())


def representatives(layout: Layout, steps: Callable[[Values, str], Scores]) -> list[Architecture]:
    """One architecture of every group of isomers that the greedy algorithm passes through."""
    found = []
    for network in layout.options(*layout.networks):
        gains = [steps(network, field) for field in layout.layers]
        lists = [sorted(layout.space.fields[name].options[0]) for name in layout.layers]
        for (depth,) in layout.options(layout.depth):
            columns = [
                [[options[i] for i in taken] for taken in allocations(own[:depth])]
                for options, own in zip(lists, gains, strict=True)
            ]
            for chosen in product(*columns):
                layers = list(zip(*chosen, strict=True))
                found.append(layout.architecture(network, layers))
    return found
