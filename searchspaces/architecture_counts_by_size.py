"""The number of architectures of each size, by dynamic programming over the choices.

Choices are made one after another, in the space's `choice_order`. A `ChoiceState` holds what the
options and the sizes of the remaining choices depend on. Every choice in a state adds a certain
amount to the sizes, whatever led to the state; so what can still be added in a state, and in how
many ways, follows from the states that its options lead to. The amounts are differences between the
sizes of architectures whose remaining choices are all the least: a space only has to say what
depends on what (`choice_order`, `still_relevant`, `chained`, `independent`).

If a state has too many different sizes, amounts are rounded to multiples of a step. The limits are
then widened by all that rounding can amount to: what is counted includes every architecture within
the limits, and perhaps a few others.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autoprox.searchspaces.size_limits import SizeLimits
from autoprox.searchspaces.space import Architecture, ArchitectureError, OptionValue, choice_values

MAX_SIZES = (20_000, 5_000)  # of a state, if one size is limited or both, before rounding
MERGED_AT_ONCE = 200_000  # keys that are sorted together
MAX_STEPS = 2**20  # of a size, if both are limited: a key has 31 bits for each
SHIFT = 2**31
MAX_LIMIT = 2**62
CHECKED_SAMPLES = 20  # architectures whose counted sizes are compared with the space's
NUMBER, PROBABILITY = 0, 1  # of architectures: how many they are, how probable for `sample`
EVENLY = 2  # each size as probable as the others, and each architecture of a size
MEAN_RANK = 10  # of a drawn size, among those by distance from a similar architecture's

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]


class ChoiceState(NamedTuple):
    """The facts on which the remaining choices depend."""

    group: int  # of the order
    left: int  # columns of the group that aren't complete
    field: int  # of the column
    memory: tuple[tuple[str, Any], ...]


class ChoiceBranch(NamedTuple):
    """The options in a state that lead to the same one, with the keys of what they add."""

    after: ChoiceState | None
    indices: IntArray
    keys: IntArray


class StateDecision(NamedTuple):
    """The choice in a state: its options, what each adds to the sizes, and the states after it.

    Sizes differ from what the keys say by at most the error.
    """

    name: str
    options: Sequence[OptionValue]
    amounts: IntArray  # [options, limits]
    keys: list[int]
    after: list[ChoiceState | None]
    branches: list[ChoiceBranch]
    error: FloatArray


class SizeTotals(NamedTuple):
    """The keys of all that can be added to the sizes in a state, ascending, with their measures."""

    keys: IntArray
    measures: FloatArray  # [keys, (NUMBER, PROBABILITY)]
    error: FloatArray  # of the sizes, at most

    def measured(self, keys: IntArray, measure: int) -> FloatArray:
        """Return a measure of each of these keys; 0 for those that aren't there."""
        if not len(self.keys):
            return np.zeros(len(keys))
        indices = np.minimum(self.keys.searchsorted(keys), len(self.keys) - 1)
        return np.where(self.keys[indices] == keys, self.measures[indices, measure], 0.0)


class _TooManyError(Exception):
    """A state has more different sizes than are kept."""


class _NegativeError(Exception):
    """The least options don't have the least size, so that large sizes can't be left out."""


class ArchitectureCounts:
    """How many architectures of a space there are of each size within limits."""

    def __init__(self, limits: SizeLimits, above: bool = False) -> None:
        """Count; `above` the limits too, if asked for."""
        self.limits, self.space = limits, limits.space
        self._above = above
        self._amounts: dict[Any, IntArray] = {}
        self._least, most = self._sizes({}), self._measured(self.space.largest())
        ranges = limits.ranges.values()
        self._low = np.array([min(low or 0, MAX_LIMIT) for low, _ in ranges], np.int64)
        self._high = np.array([min(high or MAX_LIMIT, MAX_LIMIT) for _, high in ranges], np.int64)
        width = np.minimum(self._high, most) - np.maximum(self._low, self._least)
        self._steps = np.ones(len(ranges), np.int64)
        if len(ranges) > 1:
            self._steps = np.maximum((most - self._least) // MAX_STEPS, 1)
        while True:
            self._prefixes: dict[ChoiceState, Mapping[str, Any]] = {}
            self._decisions: dict[ChoiceState, StateDecision] = {}
            self._totals: dict[ChoiceState | None, SizeTotals] = {
                None: SizeTotals(np.zeros(1, np.int64), np.ones((1, 2)), np.zeros(len(ranges)))
            }
            self._within: dict[ChoiceState, SizeTotals] = {}
            try:
                self.totals(self.start())
                break
            except _NegativeError:
                self._above = True
            except _TooManyError:
                larger = 4 * self._steps if (self._steps > 1).any() else self._steps
                self._steps = np.maximum(larger, width // (2 * self._longest))
                self._steps = np.maximum(self._steps, 2)
        self._check()

    def start(self, fixed: Mapping[str, OptionValue] | None = None) -> ChoiceState:
        """Return the state before all choices; single ones may be fixed."""
        state = self._entered(0, {f"={name}": option for name, option in (fixed or {}).items()})
        assert state is not None
        self._prefixes.setdefault(state, {})
        return state

    def totals(self, state: ChoiceState | None) -> SizeTotals:
        """Return all that can be added to the sizes in a state, none of it above the limits."""
        if state not in self._totals:
            assert state is not None
            decision = self._decision(state)
            parts, error = [], np.zeros(len(self._steps))
            for branch in decision.branches:
                rest = self.totals(branch.after)
                error = np.maximum(error, rest.error)
                for amount, count in Counter(branch.keys.tolist()).items():
                    keys, measures = self._fitting(rest, amount)
                    parts.append((keys, measures * (count, count / len(decision.options))))
            keys, measures = _merged(parts, MAX_SIZES[len(self._steps) > 1])
            self._totals[state] = SizeTotals(keys, measures, error + decision.error)
        return self._totals[state]

    def within(self, start: ChoiceState) -> SizeTotals:
        """Return what is within the limits, of all that can be added from the start on."""
        if start not in self._within:
            totals = self.totals(start)
            sizes = self._sizes_of(totals.keys)
            above = sizes >= self._low - totals.error
            inside = (above & (sizes <= self._high + totals.error)).all(axis=1)
            inside &= totals.measures[:, NUMBER] > 0
            self._within[start] = SizeTotals(
                totals.keys[inside], totals.measures[inside], totals.error
            )
        return self._within[start]

    def number(self, start: ChoiceState | None = None) -> float:
        """Return how many architectures are counted within the limits."""
        return float(self.within(start or self.start()).measures[:, NUMBER].sum())

    def draw(
        self,
        rng: random.Random,
        measure: int = PROBABILITY,
        start: ChoiceState | None = None,
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
            ratios = self._sizes_of(totals.keys) / self._measured(like)
            order = np.abs(np.log(ratios)).sum(axis=1).argsort(kind="stable")
            rank = min(int(rng.expovariate(1 / MEAN_RANK)), len(order) - 1)
            key = int(totals.keys[order[rank]])
        else:
            weights = None if measure == EVENLY else totals.measures[:, measure].tolist()
            [key] = rng.choices(totals.keys.tolist(), weights)
        drawn = self._path(start, key, rng, min(measure, PROBABILITY), like)
        return drawn if drawn is not None and self.limits.admit(drawn) else None

    def every(self, start: ChoiceState | None = None) -> Iterator[tuple[Architecture, float]]:
        """Yield every architecture within the limits, with its probability."""
        start = start or self.start()
        for key in self.within(start).keys.tolist():
            for choices, probability in self._paths(start, key, {}, 1.0):
                arch = self._valid(choices)
                if arch is not None and self.limits.admit(arch):
                    yield arch, probability

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
        drawn = (self._path(start, key, rng) for key in keys[order].tolist())
        return [arch for arch in drawn if arch is not None]

    def _decision(self, state: ChoiceState) -> StateDecision:
        if state not in self._decisions:
            name = self.space.choice_order[state.group][state.field]
            memory, field = dict(state.memory), self.space.fields[name]
            if f"={name}" in memory:
                options: tuple[OptionValue, ...] = (memory[f"={name}"],)
            elif field.count is None:
                options = field.options[len(field.options) - state.left]
            else:
                options = field.allowed(memory)
            amounts = self._added(state, name, options)
            if not self._above and (amounts < 0).any():
                raise _NegativeError
            steps = np.rint(amounts / self._steps).astype(np.int64)
            keys = (steps * SHIFT ** np.arange(len(self._steps))).sum(axis=1)
            if name in self.space.independent:
                afters = [self._after(state, name, options[0])] * len(options)
            else:
                afters = [self._after(state, name, option) for option in options]
            grouped = defaultdict[ChoiceState | None, list[int]](list)
            for i, after in enumerate(afters):
                grouped[after].append(i)
            for after, (first, *_) in grouped.items():
                if after is not None and after not in self._prefixes:
                    self._prefixes[after] = self._with(self._prefixes[state], name, options[first])
            branches = [ChoiceBranch(after, np.array(i), keys[i]) for after, i in grouped.items()]
            error = np.abs(amounts - steps * self._steps).max(axis=0)
            self._decisions[state] = StateDecision(
                name, options, amounts, keys.tolist(), afters, branches, error
            )
        return self._decisions[state]

    def _added(self, state: ChoiceState, name: str, options: Sequence[OptionValue]) -> IntArray:
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

    def _entered(self, group: int, memory: dict[str, Any]) -> ChoiceState | None:
        """Return the state before the first choice of a group; None after the last group."""
        if group == len(self.space.choice_order):
            return None
        field = self.space.fields[self.space.choice_order[group][0]]
        left = len(field.options) if field.count is None else memory.pop(field.count)
        return ChoiceState(group, left, 0, tuple(sorted(memory.items())))

    def _after(self, state: ChoiceState, name: str, option: OptionValue) -> ChoiceState | None:
        """Return the state after a choice; None after the last."""
        space, memory = self.space, dict(state.memory)
        names = space.choice_order[state.group]
        memory.pop(f"={name}", None)
        if name not in space.independent:
            memory[name] = option
        if not space.fields[name].listed:
            counts = {field.count for field in space.fields.values()}
            kept = {*space.still_relevant([n for n in space.fields if n in memory]), *counts}
            memory = {n: v for n, v in memory.items() if n in kept or n[0] == "="}
            return self._entered(state.group + 1, memory)
        if set(names[state.field + 1 :]) <= set(space.independent):
            memory = {n: v for n, v in memory.items() if not n.startswith("before ")}
        if state.field + 1 < len(names):
            return state._replace(field=state.field + 1, memory=tuple(sorted(memory.items())))
        layer = {n: memory.pop(n) for n in names if n in memory}
        if state.left == 1:
            return self._entered(state.group + 1, memory)
        memory |= {f"before {n}": layer[n] for n in names if n in space.chained}
        return ChoiceState(state.group, state.left - 1, 0, tuple(sorted(memory.items())))

    def _path(
        self,
        state: ChoiceState | None,
        key: int,
        rng: random.Random,
        measure: int = PROBABILITY,
        like: Architecture | None = None,
    ) -> Architecture | None:
        """Return an architecture of a key; None if its choices break a rule of the space."""
        chosen: Mapping[str, Any] = {}
        while state is not None:
            decision = self._decision(state)
            weights = self._weights(decision, key, measure)
            if like is not None:
                index = len(choice_values(chosen.get(decision.name, ())))
                wanted = choice_values(like[decision.name])[index : index + 1]
                same = [w * (o in wanted) for o, w in zip(decision.options, weights, strict=True)]
                weights = same if any(same) else weights
            [i] = rng.choices(range(len(weights)), weights)
            chosen = self._with(chosen, decision.name, decision.options[i])
            key, state = key - decision.keys[i], decision.after[i]
        return self._valid(chosen)

    def _paths(
        self, state: ChoiceState | None, key: int, chosen: Mapping[str, Any], probability: float
    ) -> Iterator[tuple[Mapping[str, Any], float]]:
        """Yield all choices from a state on that add this key, with their probabilities."""
        if state is None:
            yield chosen, probability
            return
        decision = self._decision(state)
        share = probability / len(decision.options)
        for i, weight in enumerate(self._weights(decision, key, NUMBER)):
            if weight:
                longer = self._with(chosen, decision.name, decision.options[i])
                yield from self._paths(decision.after[i], key - decision.keys[i], longer, share)

    def _weights(self, decision: StateDecision, key: int, measure: int) -> list[float]:
        """Return how much of a measure leads by each option to a key."""
        weights = np.zeros(len(decision.options))
        for branch in decision.branches:
            totals = self.totals(branch.after)
            weights[branch.indices] = totals.measured(key - branch.keys, measure)
        result: list[float] = weights.tolist()
        return result

    def _valid(self, choices: Mapping[str, Any]) -> Architecture | None:
        return self.space.architecture(choices) if self.space.rule(choices) is None else None

    def _with(self, choices: Mapping[str, Any], name: str, option: OptionValue) -> dict[str, Any]:
        """Return the choices with one more."""
        listed = self.space.fields[name].listed
        return {**choices, name: (*choices.get(name, ()), option) if listed else option}

    def _sizes(self, prefix: Mapping[str, Any]) -> IntArray:
        """Return the limited sizes of the architecture whose remaining choices are the least."""
        return self._measured(Architecture(self.space.name, self.space.complete(prefix, min)))

    def _measured(self, architecture: Architecture) -> IntArray:
        sizes = [self.limits.size(name, architecture) for name in self.limits.ranges]
        return np.array(sizes, dtype=np.int64)

    def _sizes_of(self, keys: IntArray) -> IntArray:
        """Return the sizes of architectures, given what is added to the least, [keys, limits]."""
        columns = []
        for _ in self._steps[1:]:
            column = (keys + SHIFT // 2) % SHIFT - SHIFT // 2
            columns.append(column)
            keys = (keys - column) // SHIFT
        columns.append(keys)
        return np.stack(columns, axis=1)[:, : len(self._steps)] * self._steps + self._least

    def _fitting(self, totals: SizeTotals, amount: int) -> tuple[IntArray, FloatArray]:
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
        for names in self.space.choice_order:
            field = self.space.fields[names[0]]
            count = field.count and max(self.space.fields[field.count].options[0])
            total += len(names) * int(count or len(field.options))
        return total

    def _check(self) -> None:
        """Raise ArchitectureError unless sizes are what the choices add up to."""
        rng = random.Random(0)
        for _ in range(CHECKED_SAMPLES if self._steps.size else 0):
            arch = self.space.sample(rng)
            values = {name: iter(choice_values(value)) for name, value in arch.choices}
            state: ChoiceState | None = self.start()
            size = self._least
            while state is not None:
                decision = self._decision(state)
                i = decision.options.index(next(values[decision.name]))
                size, state = size + decision.amounts[i], decision.after[i]
            if (size != self._measured(arch)).any():
                raise ArchitectureError(
                    f"the sizes of {self.space.name} must follow from its choices as its "
                    "choice_order, still_relevant, chained and independent say, but those of "
                    f"{arch.to_json()} don't"
                )


def _merged(parts: Sequence[tuple[IntArray, FloatArray]], most: int) -> tuple[IntArray, FloatArray]:
    """Return the different keys in ascending order, and the sums of their measures.

    Raise _TooManyError if there are more of them than `most`.
    """
    parts = [part for part in parts if len(part[0])]
    if not parts:
        return np.zeros(0, np.int64), np.zeros((0, 2))
    least = min(int(keys[0]) for keys, _ in parts)
    span = max(int(keys[-1]) for keys, _ in parts) - least
    stride = span  # which all keys are multiples of, from the least on
    for keys, _ in parts:
        if stride > 1:
            stride = int(np.gcd.reduce(keys - least, initial=stride))
    stride = max(stride, 1)
    span = span // stride + 1
    if span <= min(4 * sum(len(keys) for keys, _ in parts), 20 * most):
        sums = np.zeros((span, 2))
        for keys, measures in parts:
            first, last = (int(keys[end] - least) // stride for end in (0, -1))
            if last - first + 1 == len(keys):
                sums[first : last + 1] += measures
            else:
                sums[(keys - least) // stride] += measures
        filled = np.flatnonzero(sums[:, NUMBER])
        if stride == 1 and 2 * len(filled) > span:  # slices of what has no gaps are quick to add
            filled = np.arange(span)
        if len(filled) > most:
            raise _TooManyError
        return filled * stride + least, sums[filled]
    together: list[tuple[IntArray, FloatArray]] = []
    keys_together = 0
    for i, part in enumerate(parts):
        together.append(part)
        keys_together += len(part[0])
        if i + 1 == len(parts) or keys_together > MERGED_AT_ONCE:
            together = [_sums(together)]
            keys_together = len(together[0][0])
            if keys_together > most:  # which the other parts can't change
                raise _TooManyError
    return together[0]


def _sums(parts: Sequence[tuple[IntArray, FloatArray]]) -> tuple[IntArray, FloatArray]:
    """Return the different keys in ascending order, and the sums of their measures."""
    different, indices = np.unique(np.concatenate([keys for keys, _ in parts]), return_inverse=True)
    columns = np.concatenate([measures for _, measures in parts]).T
    return different, np.stack([np.bincount(indices, column) for column in columns], axis=1)
