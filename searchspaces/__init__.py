"""The search spaces: architectures as data, drawn and varied, and the networks that they build.

They import errors and registries, and give `SPACES` and what every space has in common.
"""

from collections.abc import Mapping
from typing import Any

from autoprox.registry import Registry
from autoprox.searchspaces.autoformer import AUTOFORMER_B, AUTOFORMER_S, AUTOFORMER_TI
from autoprox.searchspaces.autoformer_supernet import (
    AUTOFORMER_SUPERNET_B,
    AUTOFORMER_SUPERNET_S,
    AUTOFORMER_SUPERNET_TI,
)
from autoprox.searchspaces.base import Architecture, ArchitectureError, SearchSpace
from autoprox.searchspaces.bert import BERT
from autoprox.searchspaces.bignas import BIGNAS, BIGNAS_NANO
from autoprox.searchspaces.blocks import Block, TransformerNetwork
from autoprox.searchspaces.flexibert import FLEXIBERT
from autoprox.searchspaces.gpt2 import GPT2
from autoprox.searchspaces.gpt2_hw import GPT2_HW
from autoprox.searchspaces.gpt2_nano import GPT2_NANO
from autoprox.searchspaces.nano import AUTOFORMER_NANO
from autoprox.searchspaces.pit import PIT, PIT_S, PIT_XS
from autoprox.searchspaces.pit_nano import PIT_NANO
from autoprox.searchspaces.shunted import SHUNTED
from autoprox.searchspaces.swin import S3, SWIN_NANO

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


def _prove(name: str, space: SearchSpace) -> None:
    if not isinstance(space, SearchSpace) or space.name != name:
        raise ArchitectureError(f"a search space is a record of its name, but {name} is {space!r}")


SPACES: Registry[SearchSpace] = Registry("spaces", "search space", ArchitectureError, _prove)
for _space in (
    *(AUTOFORMER_TI, AUTOFORMER_S, AUTOFORMER_B, AUTOFORMER_NANO),
    *(AUTOFORMER_SUPERNET_TI, AUTOFORMER_SUPERNET_S, AUTOFORMER_SUPERNET_B),
    *(PIT, PIT_XS, PIT_S, PIT_NANO, SHUNTED, S3, SWIN_NANO, BIGNAS, BIGNAS_NANO),
    *(BERT, FLEXIBERT, GPT2, GPT2_HW, GPT2_NANO),
):
    SPACES.register(_space.name, _space)
ALIASES = {"autoformer": "autoformer-ti"}


def get_space(name: str) -> SearchSpace:
    """The search space of this name."""
    return SPACES.find(ALIASES.get(name, name))


def from_json(data: Mapping[str, Any]) -> Architecture:
    """The architecture that `Architecture.to_json` wrote, checked against its space."""
    if not isinstance(data, Mapping) or set(data) != {"space", "choices"}:
        raise ArchitectureError(f"an architecture is {{space, choices}} in JSON, but got {data!r}")
    return get_space(str(data["space"])).architecture(data["choices"])
