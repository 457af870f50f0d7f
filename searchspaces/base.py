"""Architectures as frozen data, and what every search space can do with them."""

import hashlib
import json
import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from numbers import Real
from statistics import fmean
from typing import Any, ClassVar

from autoprox.errors import AutoproxError, nearest
from autoprox.searchspaces.blocks import Block, TransformerNetwork

ATTEMPTS = 1000
Option = float | str  # or a boolean, which Python counts as a number


class ArchitectureError(AutoproxError):
    """A choice that its space doesn't allow, or a space that doesn't exist."""


@dataclass(frozen=True, init=False, slots=True)
class Architecture:
    """The choices that make one network of a space: frozen, whatever the order of the names."""

    space: str
    choices: tuple[tuple[str, Any], ...]

    def __init__(self, space: str, choices: Mapping[str, Any]) -> None:
        frozen = sorted((name, _frozen(value)) for name, value in choices.items())
        object.__setattr__(self, "space", space)
        object.__setattr__(self, "choices", tuple(frozen))

    def __getitem__(self, name: str) -> Any:
        """The value chosen for `name`."""
        return dict(self.choices)[name]

    def to_json(self) -> dict[str, Any]:
        """The architecture as plain JSON data; `autoprox.searchspaces.from_json` reads it back."""
        choices = {name: list(v) if isinstance(v, tuple) else v for name, v in self.choices}
        return {"space": self.space, "choices": choices}

    @property
    def digest(self) -> str:
        """A hash that is the same in every process; equal numbers give it equally, 4 like 4.0."""
        values = {name: [_hashed(value) for value in _listed(v)] for name, v in self.choices}
        return hashlib.sha256(json.dumps([self.space, values]).encode()).hexdigest()


@dataclass(frozen=True)
class Field:
    """What may be chosen under one name: a value or a list, by `one`, `per_stage` or `per_layer`.

    `options[i]` are the values allowed at position i of the list; where `count` names the field
    that holds the list's length, the only entry of `options` holds for all positions, as far as
    `where` allows.
    """

    options: tuple[tuple[Option, ...], ...]
    listed: bool
    count: str | None = None
    where: Callable[[Any, Mapping[str, Any]], bool] | None = None

    def positions(self, choices: Mapping[str, Any]) -> tuple[tuple[Option, ...], ...]:
        """The options of every position, given the choices already made."""
        if self.count is None:
            return self.options
        if self.where is None:
            count: int = choices[self.count]
            return self.options * count
        return tuple(self.allowed(_layer(choices, i)) for i in range(choices[self.count]))

    def allowed(self, layer: Mapping[str, Any]) -> tuple[Option, ...]:
        """The options of a layer, given the choices already made for it and for the network."""
        options = self.options[0]
        return options if self.where is None else tuple(o for o in options if self.where(o, layer))

    def value(self, positions: Sequence[Option]) -> Any:
        """The field's value, of its values at every position."""
        return tuple(positions) if self.listed else positions[0]

    def canonical(self, name: str, value: object, choices: Mapping[str, Any]) -> Any:
        """The value, checked, each number as its option has it: 4 becomes 4.0 if that is one."""
        positions = self.positions(choices)
        if not self.listed:
            return _option(name, value, positions[0])
        if not isinstance(value, list | tuple) or len(value) != len(positions):
            length = str(len(positions)) + (f" (the {self.count})" if self.count else "")
            raise ArchitectureError(f"{name} must be a list of {length} values, but got {value!r}")
        pairs = enumerate(zip(value, positions, strict=True))
        return tuple(_option(f"{name}[{i}]", v, options) for i, (v, options) in pairs)


def one(*options: Option) -> Field:
    """A field with a single value."""
    return Field((options,), listed=False)


def per_stage(*options: tuple[Option, ...]) -> Field:
    """A field with one value for each stage."""
    return Field(options, listed=True)


def per_layer(
    *options: Option,
    count: str = "depth",
    where: Callable[[Any, Mapping[str, Any]], bool] | None = None,
) -> Field:
    """A field with one value for each layer; `count`, a field before it, holds their number.

    `where` says whether a layer may have an option, which must hold for one of them at least. It
    takes the option, and by name the values of the fields with a single value and, at this layer,
    of the per-layer fields before this one.
    """
    return Field((options,), listed=True, count=count, where=where)


class SearchSpace(ABC):
    """A set of architectures, and the network that each of them stands for.

    Every method that makes an architecture goes through `architecture`. Those that measure or build
    one take its choices as they are, so that published networks outside the space serve too.
    """

    input_shape: tuple[int, ...] = (3, 224, 224)
    counts_macs: ClassVar[bool] = True  # else `flops` says what it counts
    # Whether every parameter of every network, in the entangled order of its blocks, is the first
    # entries, in every dimension, of the parameter of the same name of the largest network.
    entangled: ClassVar[bool] = False
    # What sizes depend on, for counting the architectures of a size: listed fields on whose value
    # the next layer's sizes depend too; and listed fields that no other choice depends on, and that
    # depend on the single fields and on the other fields of their layer alone.
    linked: ClassVar[frozenset[str]] = frozenset()
    separate: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, name: str, description: str, fields: Mapping[str, Field]) -> None:
        self.name = name
        self.description = description
        self.fields = fields

    @abstractmethod
    def blocks(self, arch: Architecture) -> tuple[Block, ...]:
        """The structure of the transformer blocks, in depth order."""

    @abstractmethod
    def params(self, arch: Architecture, classes: int = 1000) -> int:
        """The number of parameters, from the choices alone."""

    @abstractmethod
    def flops(self, arch: Architecture, classes: int = 1000) -> int:
        """Multiply-accumulates for one image, from the choices alone.

        Counted, as in the published figures: convolutions, linear layers and the two matrix
        products of attention. Not counted: biases, norms, softmax, GELU, additions, the mean.
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

        A slice is the first rows and columns of each matrix (of qkv: of each third). None where
        the networks of the space aren't slices of one.
        """
        return None

    @cached_property
    def order(self) -> tuple[tuple[str, ...], ...]:
        """The fields in the order in which sizes are counted: those of a layer together."""
        listed: dict[Any, list[str]] = {}
        for name, field in self.fields.items():
            if field.listed:
                listed.setdefault(field.count or len(field.options), []).append(name)
        singles = [(name,) for name, field in self.fields.items() if not field.listed]
        return (*singles, *map(tuple, listed.values()))

    def remembered(self, chosen: Sequence[str]) -> Sequence[str]:
        """The single fields, of those chosen so far, that the sizes of later choices depend on."""
        return chosen

    def largest(self) -> Architecture:
        """The architecture with the greatest value of every field."""
        return self._all(max)

    def smallest(self) -> Architecture:
        """The architecture with the least value of every field."""
        return self._all(min)

    def _all(self, pick: Callable[[Sequence[Any]], Any]) -> Architecture:
        """The architecture with this one of the options everywhere."""
        choices: dict[str, Any] = {}
        for name, field in self.fields.items():
            choices[name] = field.value([pick(options) for options in field.positions(choices)])
        return self.architecture(choices)

    def architecture(self, choices: object) -> Architecture:
        """The architecture of these named choices: the one place where validity is decided."""
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
        """A different architecture: each value is drawn anew with this probability."""
        if not 0 < probability <= 1:
            raise ArchitectureError(f"`0 < probability <= 1` must hold, but got {probability}")
        self.validate(arch)
        parent = {name: _listed(value) for name, value in arch.choices}

        def inherit(name: str, i: int, options: Sequence[Option]) -> Option | None:
            kept = i < len(parent[name]) and rng.random() >= probability
            return parent[name][i] if kept and parent[name][i] in options else None

        return self._draw(rng, inherit, parent=arch)

    def crossover(self, a: Architecture, b: Architecture, rng: random.Random) -> Architecture:
        """A child with each value from either parent; past the shorter list, from the longer."""
        self.validate(a)
        self.validate(b)
        parents = [{name: _listed(value) for name, value in arch.choices} for arch in (a, b)]

        def inherit(name: str, i: int, options: Sequence[Option]) -> Option:
            values = [parent[name][i] for parent in parents if i < len(parent[name])]
            return rng.choice([value for value in values if value in options] or values)

        return self._draw(rng, inherit)

    def size(self) -> int:
        """The number of architectures in the space."""
        single = {name: field for name, field in self.fields.items() if field.count is None}
        counts = {field.count for field in self.fields.values() if field.count is not None}
        total = 0
        for values in product(*(product(*field.options) for field in single.values())):
            pairs = zip(single.items(), values, strict=True)
            choices = {name: field.value(positions) for (name, field), positions in pairs}
            if self.rule(choices) is None:
                total += math.prod(self._layers(choices, c) ** choices[c] for c in counts)
        return total

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
        columns = ([b.width for b in blocks], [b.heads for b in blocks])
        ratios = [b.hidden / b.width for b in blocks]
        means = [mean for column in (*columns, ratios) for mean in _thirds(column)]
        return tuple(math.log(number) for number in (len(blocks), *means))

    def _draw(
        self,
        rng: random.Random,
        inherit: Callable[[str, int, Sequence[Option]], Option | None],
        parent: Architecture | None = None,
    ) -> Architecture:
        """Fill in every value, inherited or random, until it is valid and isn't the parent."""
        for _ in range(ATTEMPTS):
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
        raise ArchitectureError(f"{self.name}: no new valid architecture in {ATTEMPTS} attempts")


def _option(where: str, value: Any, options: tuple[Option, ...]) -> Option:
    for option in options:
        if value == option and _kind(value) is _kind(option):
            return option
    choices = ", ".join(map(str, options))
    raise ArchitectureError(f"{where} must be one of {choices}, but got {value!r}")


def _kind(value: Any) -> type | None:
    """What values must have in common to be the same choice: True isn't 1, but 4 is 4.0."""
    if isinstance(value, bool | str):
        return type(value)
    return float if isinstance(value, int | float | Real) else None  # Real alone is slow


def _layer(choices: Mapping[str, Any], i: int) -> dict[str, Any]:
    """The choices that concern layer i: those for it and those for the whole network."""
    return {
        name: value[i] if isinstance(value, tuple) and i < len(value) else value
        for name, value in choices.items()
    }


def _thirds(values: Sequence[float]) -> list[float]:
    n = len(values)
    bounds = [(n * i // 3, n * (i + 1) // 3) for i in range(3)]
    return [fmean(values[low : max(high, low + 1)]) for low, high in bounds]


def _listed(value: Any) -> tuple[Option, ...]:
    return value if isinstance(value, tuple) else (value,)


def _hashed(value: Option) -> Option:
    return value if isinstance(value, str) else float(value)


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
