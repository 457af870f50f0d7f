"""The page on search spaces, from their fields and counts."""

import random
import sys
from collections.abc import Iterator
from itertools import groupby

from autoprox.files.human_readable_sizes import format_with_unit
from autoprox.searchspaces import SPACES, SearchSpace
from autoprox.searchspaces.language_model_bases import TokenSpace
from autoprox.searchspaces.space import ChoiceField, listed_options

from . import text
from .text import code, table

DRAWN = 200


def page() -> str:
    """The whole page."""
    parts = []
    for module, group in groupby(SPACES.values(), key=lambda space: type(space).__module__):
        spaces = [*group]
        about = (sys.modules[module].__doc__ or "").strip()
        heading = f"## {', '.join(space.name for space in spaces)}"
        parts += [heading, about]
        for space in spaces:
            parts += [f"### {space.name}"] * (len(spaces) > 1) + [section(space)]
    return text.page(
        "Search spaces",
        f"Parameter ranges are those of {DRAWN} random architectures (seed 0) and of the smallest "
        "and largest ones, with 1000 classes, or 10 in the nano spaces. You can [add a "
        "space](own-space.md) in one file.",
        *parts,
    )


def section(space: SearchSpace) -> str:
    """A space: its options, how many architectures, their sizes."""
    rows = [[code(name), *described(field)] for name, field in space.fields.items()]
    return "\n\n".join(
        [
            f"{space.description}.",
            table(("choice", "options", "for each"), rows),
            " ".join(sizes(space)),
        ]
    )


def described(field: ChoiceField) -> tuple[str, str]:
    """The options of a field, and how often it is chosen."""
    options = " / ".join(map(listed_options, field.options))
    if not field.listed:
        return options, "network"
    each = {None: "stage", "depth": "layer"}.get(field.count, f"layer of {field.count}")
    return options, each


def sizes(space: SearchSpace) -> Iterator[str]:
    """Yield how many architectures there are, and how large they are."""
    classes = 10 if "nano" in space.name else 1000
    yield f"{count(space.size())} architectures;"
    rng = random.Random(0)
    drawn = sorted(space.params(space.sample(rng), classes) for _ in range(DRAWN))
    ends = [space.params(own, classes) for own in (space.smallest(), space.largest())]
    low, high = min(ends[0], drawn[0]), max(ends[1], drawn[-1])
    middle = format_with_unit(drawn[DRAWN // 2])
    yield f"{format_with_unit(low)} to {format_with_unit(high)} parameters, median {middle};"
    what = "tokens" if isinstance(space, TokenSpace) else "images"
    shape = " x ".join(map(str, space.input_shape))
    yield f"input: images of {shape}." if what == "images" else "input: tokens."
    if space.entangled:
        yield "Every network is a slice of the largest one, so supernets can be trained."


def count(number: int) -> str:
    """A whole number as people read it."""
    return f"{number:,}" if number < 10**6 else f"{number:.1e}"
