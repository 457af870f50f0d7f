"""Search spaces: architectures as data, how they are drawn and varied, and the networks they build.

The package imports errors, registries and files of sizes, and provides `SPACES`, the registry.
"""

from collections.abc import Mapping
from typing import Any

from autoprox.registry import Registry
from autoprox.searchspaces import autoformer, pit
from autoprox.searchspaces.bignas import BIGNAS, BIGNAS_NANO
from autoprox.searchspaces.flexibert import FLEXIBERT
from autoprox.searchspaces.gpt2 import GPT2, GPT2_HW, GPT2_NANO
from autoprox.searchspaces.gpt2_lts import GPT2_LTS, GPT2_LTS_LM1B
from autoprox.searchspaces.shunted_vit import SHUNTED
from autoprox.searchspaces.space import Architecture, ArchitectureError, SearchSpace
from autoprox.searchspaces.swin import SWIN_NANO, SWIN_S3
from autoprox.searchspaces.t_razor_bert import BERT
from autoprox.searchspaces.transformer import BlockSpec, TransformerNetwork

__all__ = [
    "SPACES",
    "Architecture",
    "ArchitectureError",
    "BlockSpec",
    "SearchSpace",
    "TransformerNetwork",
    "architecture_from_json",
    "get_space",
]


def _prove(name: str, space: SearchSpace) -> None:
    if not isinstance(space, SearchSpace) or space.name != name:
        raise ArchitectureError(f"a search space is a record of its name, but {name} is {space!r}")


SPACES: Registry[SearchSpace] = Registry("spaces", "search space", ArchitectureError, _prove)
for _space in (
    *(autoformer.AUTOFORMER_TI, autoformer.AUTOFORMER_S, autoformer.AUTOFORMER_B),
    *(autoformer.AUTOFORMER_NANO, autoformer.AUTOFORMER_SUPERNET_TI),
    *(autoformer.AUTOFORMER_SUPERNET_S, autoformer.AUTOFORMER_SUPERNET_B),
    *(
        pit.PIT,
        pit.PIT_XS,
        pit.PIT_S,
        pit.PIT_NANO,
        SHUNTED,
        SWIN_S3,
        SWIN_NANO,
        BIGNAS,
        BIGNAS_NANO,
    ),
    *(BERT, FLEXIBERT, GPT2, GPT2_HW, GPT2_NANO, GPT2_LTS, GPT2_LTS_LM1B),
):
    SPACES.register(_space.name, _space)
ALIASES = {"autoformer": "autoformer-ti"}


def get_space(name: str) -> SearchSpace:
    """The search space of this name."""
    return SPACES.find(ALIASES.get(name, name))


def architecture_from_json(data: Mapping[str, Any]) -> Architecture:
    """The architecture that `Architecture.to_json` wrote, checked against its space."""
    if not isinstance(data, Mapping) or set(data) != {"space", "choices"}:
        raise ArchitectureError(f"an architecture is {{space, choices}} in JSON, but got {data!r}")
    return get_space(str(data["space"])).architecture(data["choices"])
