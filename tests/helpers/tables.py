"""A benchmark of one's own, small enough for a test."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from autoprox.searchspaces import get_space

Pin = Callable[[str, Mapping[str, bytes]], None]  # a fixture: installs and pins a benchmark's files


def table(count: int = 12) -> dict[str, Any]:
    """Different architectures; one dataset likes parameters, the other depth."""
    space, rng = get_space("autoformer-nano"), random.Random(0)
    archs = list(dict.fromkeys(space.sample(rng) for _ in range(2 * count)))[:count]
    rows = [
        {
            "arch": a.to_json()["choices"],
            "scores": {"wide": space.params(a) / 1e5 + rng.random(), "deep": a["depth"] + i / 9},
        }
        for i, a in enumerate(archs)
    ]
    return {
        "format": 1,
        "name": "mine",
        "space": "autoformer-nano",
        "datasets": {"wide": {"classes": 10}, "deep": {"classes": 4}},
        "architectures": rows,
    }
