"""The values of an architecture by the blocks that they belong to, and how some are drawn anew.

A value belongs to a block if it stands at the block's place in a list with a value for each block,
or else, in any other list, if changing it alone changes that block, and not all of them. All other
values belong to the network as a whole.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from autoprox.searchspaces import Architecture, SearchSpace

ATTEMPTS = 100

Place = tuple[str, int]  # a field, and where in its list


def values_of(architecture: Architecture) -> dict[Place, Any]:
    """Every value, by its place; one that isn't in a list is at place 0."""
    return {
        (name, i): value
        for name, listed in architecture.choices
        for i, value in enumerate(listed if isinstance(listed, tuple) else (listed,))
    }


def owned_places(space: SearchSpace, architecture: Architecture) -> list[set[Place]]:
    """The places of the values that belong to each block."""
    blocks, choices = space.blocks(architecture), dict(architecture.choices)
    owned: list[set[Place]] = [set() for _ in blocks]
    for name, field in space.fields.items():
        if not field.listed:
            continue
        by_block = field.count is not None and len(choices[name]) == len(blocks)
        for i, options in enumerate(field.positions(choices)):
            changed = [i] if by_block else _blocks_changed(space, choices, (name, i), options)
            for block in changed:
                owned[block].add((name, i))
    return owned


def redrawn(
    space: SearchSpace,
    parent: Architecture,
    inherit: Callable[[Place], Any],
    rng: random.Random,
) -> Architecture:
    """Every value inherited, or random where that is no option; valid, or the parent."""
    for _ in range(ATTEMPTS):
        choices: dict[str, Any] = {}
        for name, field in space.fields.items():
            values = []
            for i, options in enumerate(field.positions(choices)):
                inherited = inherit((name, i))
                values.append(inherited if inherited in options else rng.choice(options))
            choices[name] = field.value(values)
        if space.rule(choices) is None:
            return space.architecture(choices)
    return parent


def _blocks_changed(
    space: SearchSpace, choices: Mapping[str, Any], place: Place, options: Sequence[Any]
) -> list[int]:
    """The blocks that another option at a place changes; none if all, or their number, change."""
    name, i = place
    values = list(choices[name])
    values[i] = next((option for option in options if option != values[i]), values[i])
    before = space.blocks(Architecture(space.name, choices))
    after = space.blocks(Architecture(space.name, {**choices, name: values}))
    if len(after) != len(before):
        return []
    changed = [b for b in range(len(before)) if before[b] != after[b]]
    return changed if len(changed) < len(before) else []
