"""The number of architectures of each size, by dynamic programming over the choices.

Choices are made one after another, in the space's `order`. A `State` holds what the options and the
sizes of the remaining choices depend on. Every choice in a state adds a certain amount to the
sizes, whatever led to the state; so what can still be added in a state, and in how many ways,
follows from the states that its options lead to. The amounts are differences between the sizes of
architectures whose remaining choices are all the least: a space only has to say what depends on
what (`order`, `remembered`, `linked`, `separate`).

Where a state has too many different sizes, amounts are rounded to multiples of a step. The limits
are then widened by all that rounding can amount to: what is counted includes every architecture
within the limits, and perhaps a few others.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autoprox.searchspaces.base import Architecture, ArchitectureError, Option
from autoprox.searchspaces.limits import SizeLimits

MOST_SIZES = (20_000, 5_000)  # of a state, if one size is limited or both, before rounding
MOST_STEPS = 2**20  # of a size, if both are limited: a key has 31 bits for each
SHIFT = 2**31
MOST = 2**62  # of a limit
PROBED = 20  # architectures whose counted sizes are compared with the space's

NUMBER, PROBABILITY = 0, 1  # of architectures: how many they are, how probable for `sample`
NEAR = 10  # sizes away from that of a similar architecture, on average
EVENLY = 2  # each size as probable as the others, and each architecture of a size
Integers = NDArray[np.int64]
Measures = NDArray[np.float64]  # [keys, (NUMBER, PROBABILITY)]


class State(NamedTuple):
    """What the remaining choices depend on."""

    group: int  # of the order
    left: int  # columns of the group that aren't complete
    field: int  # of the column
    memory: tuple[tuple[str, Any], ...]


class Choice(NamedTuple):
    """An option in a state, the key of what it adds to the sizes, and the state after it."""

    option: Option
    key: int
    after: State | None


class Branch(NamedTuple):
    """The choices in a state that lead to the same one."""

    totals: Totals
    choices: Integers  # their indices
    keys: Integers


class Totals:
    """The keys of all that can be added to the sizes in a state, with their measures."""

    def __init__(self, keys: Integers, measures: Measures, error: Measures) -> None:
        """Take keys in ascending order; sizes differ from what they say by at most the error."""
        self.keys, self.measures, self.error = keys, measures, error

    def measured(self, keys: Integers, measure: int) -> NDArray[np.float64]:
        """Return a measure of each of these keys; 0 for those that aren't there."""
        if not len(self.keys):
            return np.zeros(len(keys))
        places = np.minimum(self.keys.searchsorted(keys), len(self.keys) - 1)
        return np.where(self.keys[places] == keys, self.measures[places, measure], 0.0)


class _TooManyError(Exception):
    """A state has more different sizes than are kept."""


class _NegativeError(Exception):
    """The least options don't have the least size, so that large sizes can't be left out."""


class SizeCounts:
    """How many architectures of a space there are of each size within limits."""

    def __init__(self, limits: SizeLimits, above: bool = False) -> None:
        """Count; `above` the limits too, if asked for."""
        self.limits, self.space = limits, limits.space
        self._above = above
        self._amounts: dict[Any, Integers] = {}
        self._allowed: dict[Any, tuple[Option, ...]] = {}
        self._least, most = self._sizes({}), self._measured(self.space.largest())
        ranges = limits.ranges.values()
        self._low = np.array([min(low or 0, MOST) for low, _ in ranges], dtype=np.int64)
        self._high = np.array([min(high or MOST, MOST) for _, high in ranges], dtype=np.int64)
        width = np.minimum(self._high, most) - np.maximum(self._low, self._least)
        self._steps = np.ones(len(ranges), np.int64)
        if len(ranges) > 1:
            self._steps = np.maximum((most - self._least) // MOST_STEPS, 1)
        while True:
            self._prefixes: dict[State, Mapping[str, Any]] = {}
            self._choices: dict[State, list[Choice]] = {}
            self._totals: dict[State | None, Totals] = {
                None: Totals(np.zeros(1, np.int64), np.ones((1, 2)), np.zeros(len(ranges)))
            }
            self._errors: dict[State, Measures] = {}
            self._branches: dict[State, list[Branch]] = {}
            self._within: dict[State, Totals] = {}
            try:
                self.totals(self.start())
                break
            except _NegativeError:
                self._above = True
            except _TooManyError:
                larger = 4 * self._steps if self.rounded else self._steps
                self._steps = np.maximum(larger, width // (2 * self._longest))
                self._steps = np.maximum(self._steps, 2)
        self._check()

    @property
    def rounded(self) -> bool:
        """Whether what is counted may include architectures that are just outside the limits."""
        return bool((self._steps > 1).any())

    def start(self, fixed: Mapping[str, Option] | None = None) -> State:
        """Return the state before all choices; single ones may be fixed."""
        memory = {f"={name}": option for name, option in (fixed or {}).items()}
        state = self._entered(0, memory)
        assert state is not None
        self._prefixes.setdefault(state, {})
        return state

    def totals(self, state: State | None) -> Totals:
        """Return all that can be added to the sizes in a state, none of it above the limits."""
        if state not in self._totals:
            assert state is not None
            grouped: defaultdict[State | None, Counter[int]] = defaultdict(Counter)
            choices = self.choices(state)
            for choice in choices:
                grouped[choice.after][choice.key] += 1
            parts, error = [], np.zeros(len(self._steps))
            for after, amounts in grouped.items():
                own = self.totals(after)
                error = np.maximum(error, own.error)
                for amount, count in amounts.items():
                    keys, measures = self._fitting(own, amount)
                    parts.append((keys, measures * (count, count / len(choices))))
            keys, measures = _merged(parts)
            if len(keys) > MOST_SIZES[len(self._steps) > 1]:
                raise _TooManyError
            self._totals[state] = Totals(keys, measures, error + self._errors[state])
        return self._totals[state]

    def within(self, start: State) -> Totals:
        """Return what is within the limits, of all that can be added from the start on."""
        if start not in self._within:
            totals = self.totals(start)
            sizes = self._sizes_of(totals.keys)
            above = sizes >= self._low - totals.error
            inside = (above & (sizes <= self._high + totals.error)).all(axis=1)
            inside &= totals.measures[:, NUMBER] > 0
            keys, measures = totals.keys[inside], totals.measures[inside]
            self._within[start] = Totals(keys, measures, totals.error)
        return self._within[start]

    def number(self, start: State | None = None) -> float:
        """Return how many architectures are counted within the limits."""
        return float(self.within(start or self.start()).measures[:, NUMBER].sum())

    def draw(
        self,
        rng: random.Random,
        measure: int = PROBABILITY,
        start: State | None = None,
        like: Architecture | None = None,
    ) -> Architecture | None:
        """Return an architecture drawn by a measure; None if the one drawn breaks a rule or limit.

        It is about as large as the one that it is to be `like`, and has the same values as far as
        these lead to that size.
        """
        start = start or self.start()
        totals = self.within(start)
        if not len(totals.keys):
            return None
        if like is not None:
            order = self._distance(totals.keys, like).argsort(kind="stable")
            key = int(totals.keys[order[min(int(rng.expovariate(1 / NEAR)), len(order) - 1)]])
        else:
            weights = None if measure == EVENLY else totals.measures[:, measure].tolist()
            [key] = rng.choices(totals.keys.tolist(), weights)
        found = self._path(start, key, rng, min(measure, PROBABILITY), like)
        return found if found is not None and self.limits.admit(found) else None

    def every(self, start: State | None = None) -> Iterator[tuple[Architecture, float]]:
        """Yield every architecture within the limits, with its probability."""
        start = start or self.start()
        for key in self.within(start).keys.tolist():
            for choices, probability in self._paths(start, key, {}, 1.0):
                found = self._valid(choices)
                if found is not None and self.limits.admit(found):
                    yield found, probability

    def nearest(self, count: int, rng: random.Random) -> list[Architecture]:
        """Return architectures of the sizes that are the nearest to the limits, on either side."""
        start = self.start()
        totals = self.totals(start)
        keys = totals.keys[totals.measures[:, NUMBER] > 0]
        sizes = self._sizes_of(keys)
        below = np.log(np.maximum(self._low / sizes, 1)).sum(axis=1)
        above = np.log(np.maximum(sizes / self._high, 1)).sum(axis=1)
        distance = below + above
        sides = [np.flatnonzero(below > 0), np.flatnonzero((above > 0) & (below == 0))]
        order = [i for side in sides for i in side[distance[side].argsort(kind="stable")][:count]]
        found = (self._path(start, key, rng) for key in keys[order].tolist())
        return [arch for arch in found if arch is not None]

    def choices(self, state: State) -> list[Choice]:
        """Return the choices in a state."""
        if state not in self._choices:
            name = self._name(state)
            options = self._options(state, name)
            amounts = self._added(state, name, options)
            if not self._above and (amounts < 0).any():
                raise _NegativeError
            steps = np.rint(amounts / self._steps).astype(np.int64)
            self._errors[state] = np.abs(amounts - steps * self._steps).max(axis=0)
            keys = (steps * SHIFT ** np.arange(len(self._steps))).sum(axis=1).tolist()
            alike = name in self.space.separate
            afters = [
                self._after(state, name, option) for option in options[: 1 if alike else None]
            ]
            for option, after in zip(options, afters, strict=False):
                if after is not None and after not in self._prefixes:
                    self._prefixes[after] = self._with(self._prefixes[state], name, option)
            afters *= len(options) if alike else 1
            self._choices[state] = list(map(Choice, options, keys, afters))
        return self._choices[state]

    def _distance(self, keys: Integers, arch: Architecture) -> Measures:
        """Return how much the sizes of keys differ from an architecture's."""
        ratios = self._sizes_of(keys) / self._measured(arch)
        distance: Measures = np.abs(np.log(ratios)).sum(axis=1)
        return distance

    def _path(
        self,
        state: State | None,
        key: int,
        rng: random.Random,
        measure: int = PROBABILITY,
        like: Architecture | None = None,
    ) -> Architecture | None:
        """Return an architecture of a key; None if its choices break a rule of the space."""
        chosen: Mapping[str, Any] = {}
        while state is not None:
            name, choices = self._name(state), self.choices(state)
            weights = self._weights(state, key, measure)
            if like is not None:
                wanted = _at(like[name], len(_listed(chosen[name])) if name in chosen else 0)
                same = [w * (c.option == wanted) for c, w in zip(choices, weights, strict=True)]
                weights = same if any(same) else weights
            [choice] = rng.choices(choices, weights)
            chosen = self._with(chosen, name, choice.option)
            key, state = key - choice.key, choice.after
        return self._valid(chosen)

    def _paths(
        self, state: State | None, key: int, chosen: Mapping[str, Any], probability: float
    ) -> Iterator[tuple[Mapping[str, Any], float]]:
        """Yield all choices from a state on that add this key, with their probabilities."""
        if state is None:
            yield chosen, probability
            return
        name, choices = self._name(state), self.choices(state)
        for choice, weight in zip(choices, self._weights(state, key, NUMBER), strict=True):
            if weight:
                longer = self._with(chosen, name, choice.option)
                share = probability / len(choices)
                yield from self._paths(choice.after, key - choice.key, longer, share)

    def _weights(self, state: State, key: int, measure: int) -> list[float]:
        """Return how much of a measure leads from a state by each choice to a key."""
        choices = self.choices(state)
        if state not in self._branches:
            branches = defaultdict[State | None, list[int]](list)
            for i, choice in enumerate(choices):
                branches[choice.after].append(i)
            self._branches[state] = [
                Branch(self.totals(after), np.array(own), np.array([choices[i].key for i in own]))
                for after, own in branches.items()
            ]
        weights = np.zeros(len(choices))
        for branch in self._branches[state]:
            weights[branch.choices] = branch.totals.measured(key - branch.keys, measure)
        found: list[float] = weights.tolist()
        return found

    def _valid(self, choices: Mapping[str, Any]) -> Architecture | None:
        return self.space.architecture(choices) if self.space.rule(choices) is None else None

    def _name(self, state: State) -> str:
        return self.space.order[state.group][state.field]

    def _options(self, state: State, name: str) -> tuple[Option, ...]:
        memory, field = dict(state.memory), self.space.fields[name]
        if f"={name}" in memory:
            return (memory[f"={name}"],)
        if field.count is None:
            return field.options[len(field.options) - state.left]
        if (name, state.memory) not in self._allowed:
            self._allowed[name, state.memory] = field.allowed(memory)
        return self._allowed[name, state.memory]

    def _entered(self, group: int, memory: dict[str, Any]) -> State | None:
        """Return the state before the first choice of a group; None after the last group."""
        if group == len(self.space.order):
            return None
        field = self.space.fields[self.space.order[group][0]]
        left = len(field.options) if field.count is None else memory.pop(field.count)
        return State(group, left, 0, tuple(sorted(memory.items())))

    def _after(self, state: State, name: str, option: Option) -> State | None:
        """Return the state after a choice; None after the last."""
        space, memory, names = self.space, dict(state.memory), self.space.order[state.group]
        memory.pop(f"={name}", None)
        if name not in space.separate:
            memory[name] = option
        if not space.fields[name].listed:
            singles = [own for own in space.fields if own in memory]
            kept = {*space.remembered(singles), *self._columns}
            return self._entered(
                state.group + 1, {n: v for n, v in memory.items() if n in kept or n[0] == "="}
            )
        if set(names[state.field + 1 :]) <= set(space.separate):
            memory = {n: v for n, v in memory.items() if not n.startswith("before ")}
        if state.field + 1 < len(names):
            return State(state.group, state.left, state.field + 1, tuple(sorted(memory.items())))
        own = {n: memory.pop(n) for n in names if n in memory}
        if state.left == 1:
            return self._entered(state.group + 1, memory)
        memory |= {f"before {n}": own[n] for n in names if n in space.linked}
        return State(state.group, state.left - 1, 0, tuple(sorted(memory.items())))

    @cached_property
    def _columns(self) -> set[str]:
        """The fields that count the columns of a group."""
        return {field.count for field in self.space.fields.values() if field.count is not None}

    def _added(self, state: State, name: str, options: Sequence[Option]) -> Integers:
        """Return what each option in a state adds to the sizes, [options, limits]."""
        # Layers of a list that is counted differ in what was chosen, not in their positions.
        counted = self.space.fields[name].count is not None
        left = state.left == 1 if counted else state.left
        memory = tuple(pair for pair in state.memory if pair[0][0] != "=")
        key = (name, left, memory, options)
        if key not in self._amounts:
            prefix = self._prefixes[state]
            sizes = [self._sizes(self._with(prefix, name, option)) for option in options]
            self._amounts[key] = np.stack(sizes) - self._sizes(prefix)
        return self._amounts[key]

    def _sizes(self, prefix: Mapping[str, Any]) -> Integers:
        """Return the limited sizes of the architecture whose remaining choices are the least."""
        choices: dict[str, Any] = {}
        for name, field in self.space.fields.items():
            known = _listed(prefix[name]) if name in prefix else ()
            rest = field.positions(choices)[len(known) :]
            choices[name] = field.value([*known, *map(min, rest)])
        return self._measured(Architecture(self.space.name, choices))

    def _measured(self, architecture: Architecture) -> Integers:
        sizes = [self.limits.size(name, architecture) for name in self.limits.ranges]
        return np.array(sizes, dtype=np.int64)

    def _sizes_of(self, keys: Integers) -> Integers:
        """Return the sizes of architectures, given what is added to the least, [keys, limits]."""
        columns = []
        for _ in self._steps[1:]:
            column = (keys + SHIFT // 2) % SHIFT - SHIFT // 2
            columns.append(column)
            keys = (keys - column) // SHIFT
        columns.append(keys)
        return np.stack(columns, axis=1)[:, : len(self._steps)] * self._steps + self._least

    def _fitting(self, totals: Totals, amount: int) -> tuple[Integers, Measures]:
        """Return the keys plus an amount, without those that are certainly above the limits."""
        keys, measures = totals.keys + amount, totals.measures
        if self._above:
            return keys, measures
        high = self._high + self._steps * self._longest
        if len(self._steps) == 1:
            [bound] = (high - self._least) // self._steps
            end = keys.searchsorted(bound, "right")
            return keys[:end], measures[:end]
        kept = (self._sizes_of(keys) <= high).all(axis=1)
        return keys[kept], measures[kept]

    @cached_property
    def _longest(self) -> int:
        """The greatest number of choices that make an architecture."""
        total = 0
        for names in self.space.order:
            field = self.space.fields[names[0]]
            count = field.count and max(self.space.fields[field.count].options[0])
            total += len(names) * int(count or len(field.options))
        return total

    def _check(self) -> None:
        """Raise ArchitectureError unless sizes are what the choices add up to."""
        rng = random.Random(0)
        for _ in range(PROBED if self._steps.size else 0):
            arch = self.space.sample(rng)
            state: State | None = self.start()
            size, chosen = self._least, dict[str, int]()
            while state is not None:
                name = self._name(state)
                option = _listed(arch[name])[chosen.get(name, 0)]
                options = self._options(state, name)
                size = size + self._added(state, name, options)[options.index(option)]
                chosen[name] = chosen.get(name, 0) + 1
                [state] = [c.after for c in self.choices(state) if c.option == option]
            if (size != self._measured(arch)).any():
                raise ArchitectureError(
                    f"the sizes of {self.space.name} must follow from its choices as its order, "
                    f"remembered, linked and separate say, but those of {arch.to_json()} don't"
                )

    def _with(self, choices: Mapping[str, Any], name: str, option: Option) -> dict[str, Any]:
        """Return the choices with one more."""
        listed = self.space.fields[name].listed
        return {**choices, name: (*choices.get(name, ()), option) if listed else option}


def _merged(parts: Sequence[tuple[Integers, Measures]]) -> tuple[Integers, Measures]:
    """Return the different keys in ascending order, and the sums of their measures."""
    parts = [part for part in parts if len(part[0])]
    if not parts:
        return np.zeros(0, np.int64), np.zeros((0, 2))
    least = min(int(keys[0]) for keys, _ in parts)
    span = max(int(keys[-1]) for keys, _ in parts) - least + 1
    if span <= 4 * sum(len(keys) for keys, _ in parts):
        sums = np.zeros((span, 2))
        for keys, measures in parts:
            first, last = int(keys[0]) - least, int(keys[-1]) - least + 1
            if last - first == len(keys):
                sums[first:last] += measures
            else:
                sums[keys - least] += measures
        filled = np.flatnonzero(sums[:, NUMBER])
        if 2 * len(filled) > span:  # slices of what has no gaps are quick to add
            filled = np.arange(span)
        return filled + least, sums[filled]
    different, places = np.unique(np.concatenate([keys for keys, _ in parts]), return_inverse=True)
    columns = np.concatenate([measures for _, measures in parts]).T
    return different, np.stack([np.bincount(places, own) for own in columns], axis=1)


def _listed(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def _at(value: Any, index: int) -> Any:
    """The value at an index of a list, or the only one; None past its end."""
    values = _listed(value)
    return values[index] if index < len(values) else None
