"""Architectures as frozen data, and search spaces, which sample, vary, measure and build them."""

import hashlib
import json
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, product
from numbers import Real
from statistics import fmean
from typing import Any, ClassVar

from autoprox.errors import AutoproxError, nearest
from autoprox.searchspaces.transformer import BlockSpec, TransformerNetwork

SAMPLING_ATTEMPTS = 1000
MOST_SHOWN = 100  # options in an error or a table
OptionValue = float | str  # or a boolean, which Python counts as a number
LayerCondition = Callable[[Any, Mapping[str, Any]], bool]

SMALL_SIDE = 32  # pixels, as of CIFAR


class ArchitectureError(AutoproxError):
    """A choice that its space doesn't allow, or a space that doesn't exist."""


@dataclass(frozen=True, init=False, slots=True)
class Architecture:
    """The choices that make one network of a space: frozen, whatever the order of the names."""

    space: str
    choices: tuple[tuple[str, Any], ...]

    def __init__(self, space: str, choices: Mapping[str, Any]) -> None:
        frozen = {n: tuple(v) if isinstance(v, list) else v for n, v in choices.items()}
        object.__setattr__(self, "space", space)
        object.__setattr__(self, "choices", tuple(sorted(frozen.items())))

    def __getitem__(self, name: str) -> Any:
        """The value chosen for `name`."""
        return dict(self.choices)[name]

    def to_json(self) -> dict[str, Any]:
        """Return the architecture as JSON data, which `architecture_from_json` reads back."""
        choices = {name: list(v) if isinstance(v, tuple) else v for name, v in self.choices}
        return {"space": self.space, "choices": choices}

    @property
    def digest(self) -> str:
        """A hash that is the same in every process; equal numbers give it equally, 4 like 4.0."""
        values = {
            name: [v if isinstance(v, str) else float(v) for v in choice_values(value)]
            for name, value in self.choices
        }
        return hashlib.sha256(json.dumps([self.space, values]).encode()).hexdigest()


@dataclass(frozen=True)
class ChoiceField:
    """The options under one name; made by `one`, `per_stage_field` and `per_layer_field`.

    `options[i]` are the values allowed at position i of the list; if `count` names the field
    that holds the list's length, the only entry of `options` holds for all positions, as far as
    `where` allows.
    """

    options: tuple[tuple[OptionValue, ...], ...]
    listed: bool
    count: str | None = None
    where: LayerCondition | None = None

    def positions(self, choices: Mapping[str, Any]) -> tuple[tuple[OptionValue, ...], ...]:
        """The options of every position, given the choices already made."""
        if self.count is None:
            return self.options
        count: int = choices[self.count]
        if self.where is None:
            return self.options * count
        layers = (
            {n: v[i] if isinstance(v, tuple) and i < len(v) else v for n, v in choices.items()}
            for i in range(count)
        )
        return tuple(map(self.allowed, layers))

    def allowed(self, layer: Mapping[str, Any]) -> tuple[OptionValue, ...]:
        """The options of a layer, given the choices already made for it and for the network."""
        options = self.options[0]
        return options if self.where is None else tuple(o for o in options if self.where(o, layer))

    def value(self, positions: Sequence[OptionValue]) -> Any:
        """The field's value, given its values at every position."""
        return tuple(positions) if self.listed else positions[0]

    def canonical(self, name: str, value: object, choices: Mapping[str, Any]) -> Any:
        """The value, checked, each number as its option has it: 4 becomes 4.0 if that is one."""
        positions = self.positions(choices)
        if not self.listed:
            return _matching_option(name, value, positions[0])
        if not isinstance(value, list | tuple) or len(value) != len(positions):
            length = str(len(positions)) + (f" (the {self.count})" if self.count else "")
            raise ArchitectureError(f"{name} must be a list of {length} values, but got {value!r}")
        pairs = enumerate(zip(value, positions, strict=True))
        return tuple(_matching_option(f"{name}[{i}]", v, options) for i, (v, options) in pairs)


def one(*options: OptionValue) -> ChoiceField:
    """A field with a single value."""
    return ChoiceField((options,), listed=False)


def per_stage_field(*options: tuple[OptionValue, ...]) -> ChoiceField:
    """A field with one value for each stage."""
    return ChoiceField(options, listed=True)


def per_layer_field(
    *options: OptionValue, count: str = "depth", where: LayerCondition | None = None
) -> ChoiceField:
    """A field with one value for each layer; `count`, a field before it, holds their number.

    `where` says whether a layer may have an option, which must hold for one of them at least. It
    takes the option, and by name the values of the fields with a single value and, at this layer,
    of the per-layer fields before this one.
    """
    return ChoiceField((options,), listed=True, count=count, where=where)


class SearchSpace(ABC):
    """A set of architectures, and the network that each of them stands for.

    Every method that makes an architecture goes through `architecture`. Those that measure or build
    one take its choices as they are, so that they also serve published networks outside the space.
    """

    input_shape: tuple[int, ...] = (3, 224, 224)
    counts_macs: ClassVar[bool] = True  # else `flops` says what it counts
    # Whether every parameter of every network, in the entangled order of its blocks, is the first
    # entries, in every dimension, of the parameter of the same name of the largest network.
    entangled: ClassVar[bool] = False
    # Whether each block is a slice of the block at the same position of the same stage of the
    # largest network: the first rows and columns of each matrix (of qkv: of each third).
    sliced: ClassVar[bool] = False
    # What sizes depend on, for counting the architectures of a size: listed fields whose value the
    # sizes of the next layer depend on too; and listed fields that no other choice depends on, and
    # that depend on the single fields and on the other fields of their layer alone.
    chained: ClassVar[frozenset[str]] = frozenset()
    independent: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, name: str, description: str, fields: Mapping[str, ChoiceField]) -> None:
        self.name = name
        self.description = description
        self.fields = fields

    @property
    def default_classes(self) -> int:
        """The classes of networks about which nothing else is known: 10 for small images."""
        return 10 if len(self.input_shape) == 3 and self.input_shape[-1] <= SMALL_SIDE else 1000

    @abstractmethod
    def blocks(self, arch: Architecture) -> tuple[BlockSpec, ...]:
        """The structure of the transformer blocks, in depth order."""

    def stages(self, arch: Architecture) -> Sequence[Sequence[BlockSpec]]:
        """The structure of the blocks of each stage; here all are of one."""
        return [self.blocks(arch)]

    @abstractmethod
    def params(self, arch: Architecture, classes: int = 1000) -> int:
        """The number of parameters, from the choices alone."""

    @abstractmethod
    def flops(self, arch: Architecture, classes: int = 1000) -> int:
        """Multiply-accumulates for one image or sequence, from the choices alone.

        Counted, as in the published figures: convolutions, linear layers and the two matrix
        products of attention, the masked half too. Not counted: biases, norms, softmax, GELU,
        additions, the mean.
        """

    @abstractmethod
    def network(self, arch: Architecture, classes: int) -> TransformerNetwork:
        """The network with its parameters unset."""

    def build(self, arch: Architecture, classes: int = 1000, seed: int = 0) -> TransformerNetwork:
        """The network, initialised by its published rule; only the head depends on `classes`."""
        network = self.network(arch, classes)
        network.initialise(seed)
        return network

    def rule(self, choices: Mapping[str, Any]) -> str | None:
        """The rule between fields that the choices break, if any; never one on per-layer fields."""
        return None

    def origins(self, arch: Architecture) -> tuple[int, ...] | None:
        """For each block, the index of the block of `largest()` of which it is a slice.

        None if the networks of the space aren't slices of one.
        """
        if not self.sliced:
            return None
        starts = accumulate((len(s) for s in self.stages(self.largest())), initial=0)
        stages = zip(starts, self.stages(arch), strict=False)
        return tuple(start + i for start, stage in stages for i in range(len(stage)))

    @cached_property
    def choice_order(self) -> tuple[tuple[str, ...], ...]:
        """The fields in the order in which sizes are counted: those of a layer together."""
        listed: dict[Any, list[str]] = {}
        for name, field in self.fields.items():
            if field.listed:
                listed.setdefault(field.count or len(field.options), []).append(name)
        singles = [(name,) for name, field in self.fields.items() if not field.listed]
        return (*singles, *map(tuple, listed.values()))

    def still_relevant(self, chosen: Sequence[str]) -> Sequence[str]:
        """The single fields, of those chosen so far, that the sizes of later choices depend on."""
        return chosen

    def largest(self) -> Architecture:
        """The architecture with the greatest value of every field."""
        return self.architecture(self.complete({}, max))

    def smallest(self) -> Architecture:
        """The architecture with the least value of every field."""
        return self.architecture(self.complete({}, min))

    def complete(
        self, choices: Mapping[str, Any], pick: Callable[[Sequence[Any]], Any]
    ) -> dict[str, Any]:
        """The choices, with missing fields and ends of lists picked from the options."""
        result: dict[str, Any] = {}
        for name, field in self.fields.items():
            chosen = choice_values(choices[name]) if name in choices else ()
            rest = field.positions(result)[len(chosen) :]
            result[name] = field.value([*chosen, *map(pick, rest)])
        return result

    def architecture(self, choices: object) -> Architecture:
        """The architecture of these named choices; it alone decides whether they are valid."""
        if not isinstance(choices, Mapping):
            names = ", ".join(self.fields)
            raise ArchitectureError(f"choices must map {names} to values, but got {choices!r}")
        for name in choices:
            if name not in self.fields:
                raise ArchitectureError(f"unknown choice {name!r}{nearest(str(name), self.fields)}")
        canonical: dict[str, Any] = {}
        for name, field in self.fields.items():
            if name not in choices:
                raise ArchitectureError(f"{name} is missing from the choices")
            canonical[name] = field.canonical(name, choices[name], canonical)
        if broken := self.rule(canonical):
            raise ArchitectureError(broken)
        return Architecture(self.name, canonical)

    def validate(self, arch: Architecture) -> None:
        """Raise ArchitectureError if the architecture isn't one of this space."""
        if arch.space != self.name:
            raise ArchitectureError(f"space must be {self.name}, but got {arch.space}")
        self.architecture(dict(arch.choices))

    def sample(self, rng: random.Random) -> Architecture:
        """A random architecture: every value uniform among its options, as far as `rule` allows."""
        return self._draw(rng, lambda name, i, options: None)

    def mutate(self, arch: Architecture, rng: random.Random, probability: float) -> Architecture:
        """A different architecture: each value is drawn again with this probability."""
        if not 0 < probability <= 1:
            raise ArchitectureError(f"`0 < probability <= 1` must hold, but got {probability}")
        self.validate(arch)
        parent = {name: choice_values(value) for name, value in arch.choices}

        def inherit(name: str, i: int, options: Sequence[OptionValue]) -> OptionValue | None:
            kept = i < len(parent[name]) and rng.random() >= probability
            return parent[name][i] if kept and parent[name][i] in options else None

        return self._draw(rng, inherit, parent=arch)

    def crossover(self, a: Architecture, b: Architecture, rng: random.Random) -> Architecture:
        """A child with each value from either parent; past the shorter list, from the longer."""
        self.validate(a)
        self.validate(b)
        parents = [{name: choice_values(value) for name, value in arch.choices} for arch in (a, b)]

        def inherit(name: str, i: int, options: Sequence[OptionValue]) -> OptionValue:
            values = [parent[name][i] for parent in parents if i < len(parent[name])]
            choice: OptionValue = rng.choice([v for v in values if v in options] or values)
            return choice

        return self._draw(rng, inherit)

    def _draw(
        self,
        rng: random.Random,
        inherit: Callable[[str, int, Sequence[OptionValue]], OptionValue | None],
        parent: Architecture | None = None,
    ) -> Architecture:
        """Fill in every value, inherited or random, until it is valid and isn't the parent."""
        for _ in range(SAMPLING_ATTEMPTS):
            choices: dict[str, Any] = {}
            allowed = True
            for name, field in self.fields.items():
                values = []
                for i, options in enumerate(field.positions(choices)):
                    inherited = inherit(name, i, options)
                    values.append(rng.choice(options) if inherited is None else inherited)
                    allowed = allowed and values[-1] in options
                choices[name] = field.value(values)
            if allowed and self.rule(choices) is None:
                child = self.architecture(choices)
                if child != parent:
                    return child
        raise ArchitectureError(
            f"{self.name}: no new valid architecture in {SAMPLING_ATTEMPTS} attempts"
        )

    def size(self) -> int:
        """The number of architectures in the space."""
        free, enumerated = 1, {}
        has_rule = type(self).rule is not SearchSpace.rule
        for name, field in self.fields.items():
            if field.count is None and (has_rule or not field.listed):
                enumerated[name] = field
            elif field.count is None:
                free *= math.prod(map(len, field.options))
        counts = {field.count for field in self.fields.values() if field.count is not None}
        total = 0
        for values in product(*(product(*field.options) for field in enumerated.values())):
            pairs = zip(enumerated.items(), values, strict=True)
            choices = {name: field.value(positions) for (name, field), positions in pairs}
            if self.rule(choices) is None:
                total += math.prod(self._layers(choices, c) ** choices[c] for c in counts)
        return free * total

    def _layers(self, choices: Mapping[str, Any], count: str) -> int:
        """The number of different layers, given the choices for the network."""
        layers: list[Mapping[str, Any]] = [choices]
        for name, field in self.fields.items():
            if field.count == count:
                layers = [{**layer, name: o} for layer in layers for o in field.allowed(layer)]
        return len(layers)

    def features(self, arch: Architecture) -> tuple[float, ...]:
        """The choices for a regression: depth; width, heads and MLP ratio by thirds of the depth.

        They are logarithms, because sizes multiply.
        """
        blocks = self.blocks(arch)
        n, means = len(blocks), []
        for column in (
            [b.width for b in blocks],
            [b.heads for b in blocks],
            [b.hidden / b.width for b in blocks],
        ):
            for low, high in ((n * i // 3, n * (i + 1) // 3) for i in range(3)):
                means.append(fmean(column[low : max(high, low + 1)]))
        return tuple(math.log(number) for number in (n, *means))


class StagedSpace(SearchSpace):
    """A search space whose networks have several stages."""

    @abstractmethod
    def stages(self, arch: Architecture) -> Sequence[Sequence[BlockSpec]]:
        """The structure of the blocks of each stage."""

    def blocks(self, arch: Architecture) -> tuple[BlockSpec, ...]:
        return tuple(block for stage in self.stages(arch) for block in stage)


def choice_values(value: Any) -> tuple[Any, ...]:
    """The values of a list, or the single value."""
    return value if isinstance(value, tuple) else (value,)


def _matching_option(where: str, value: Any, options: tuple[OptionValue, ...]) -> OptionValue:
    for option in options:
        if value == option and _kind(value) is _kind(option):
            return option
    raise ArchitectureError(f"{where} must be one of {listed_options(options)}, but got {value!r}")


def listed_options(options: Sequence[OptionValue]) -> str:
    """The options as text; of very many only the first ones and the last."""
    shown = list(map(str, options))
    return ", ".join(shown if len(shown) <= MOST_SHOWN else [*shown[:3], "...", shown[-1]])


def _kind(value: Any) -> type | None:
    """The kind of a value; equal values of different kinds differ: True isn't 1, but 4 is 4.0."""
    if isinstance(value, bool | str):
        return type(value)
    return float if isinstance(value, int | float | Real) else None  # Real alone is slow
