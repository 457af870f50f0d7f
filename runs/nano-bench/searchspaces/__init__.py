"""The search spaces, by name."""

from collections.abc import Mapping
from typing import Any

from autoprox.errors import nearest
from autoprox.searchspaces.autoformer import AUTOFORMER_B, AUTOFORMER_S, AUTOFORMER_TI
from autoprox.searchspaces.base import Architecture, ArchitectureError, SearchSpace
from autoprox.searchspaces.bert import BERT
from autoprox.searchspaces.blocks import Block, TransformerNetwork
from autoprox.searchspaces.flexibert import FLEXIBERT
from autoprox.searchspaces.gpt2 import GPT2
from autoprox.searchspaces.gpt2_hw import GPT2_HW
from autoprox.searchspaces.gpt2_nano import GPT2_NANO
from autoprox.searchspaces.nano import AUTOFORMER_NANO
from autoprox.searchspaces.pit import PIT
from autoprox.searchspaces.pit_nano import PIT_NANO
from autoprox.searchspaces.shunted import SHUNTED

__all__ = [
    "SPACES",
    "Architecture",
    "ArchitectureError",
    "Block",
    "SearchSpace",
    "TransformerNetwork",
    "from_json",
    "get_space",
]

SPACES: Mapping[str, SearchSpace] = {
    space.name: space
    for space in (
        *(AUTOFORMER_TI, AUTOFORMER_S, AUTOFORMER_B, AUTOFORMER_NANO, PIT, PIT_NANO, SHUNTED),
        *(BERT, FLEXIBERT, GPT2, GPT2_HW, GPT2_NANO),
    )
}
ALIASES = {"autoformer": "autoformer-ti"}


def get_space(name: str) -> SearchSpace:
    """The search space of this name."""
    name = ALIASES.get(name, name)
    if name not in SPACES:
        raise ArchitectureError(f"unknown search space {name!r}{nearest(name, SPACES)}")
    return SPACES[name]


def from_json(data: Mapping[str, Any]) -> Architecture:
    """The architecture that `Architecture.to_json` wrote, checked against its space."""
    if not isinstance(data, Mapping) or set(data) != {"space", "choices"}:
        raise ArchitectureError(f"an architecture is {{space, choices}} in JSON, but got {data!r}")
    return get_space(str(data["space"])).architecture(data["choices"])
