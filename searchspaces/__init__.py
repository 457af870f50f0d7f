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
    "architectures_from_json",
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
    return SPACES.find(ALIASES.get(name, name), ALIASES)


ARCHITECTURE_FORMATS = "{space, choices}, {arch}, choices with a space, or an array of these"


def architectures_from_json(data: Any, space: SearchSpace | None = None) -> list[Architecture]:
    """Return the architectures of a JSON value, checked against their space, or the given one.

    It is `{space, choices}` as `Architecture.to_json` writes it, an entry of a table with `arch`,
    the choices alone if a space is given, or an array of these, such as top.json.
    """
    if not isinstance(data, list | tuple):
        return [_read_architecture(data, space)]
    if not data:
        raise ArchitectureError(f"an architecture must be {ARCHITECTURE_FORMATS}, but got none")
    found = []
    for index, entry in enumerate(data):
        try:
            found.append(_read_architecture(entry, space))
        except ArchitectureError as error:
            raise ArchitectureError(f"[{index}]: {error}") from error
    return found


def architecture_from_json(data: Any, space: SearchSpace | None = None) -> Architecture:
    """Return the architecture of a JSON value, the first of an array."""
    return architectures_from_json(data, space)[0]


def _read_architecture(entry: Any, space: SearchSpace | None) -> Architecture:
    while isinstance(entry, Mapping) and "arch" in entry:
        entry = entry["arch"]
    if isinstance(entry, Mapping) and set(entry) == {"space", "choices"}:
        named = get_space(str(entry["space"]))
        if space is not None and space.name != named.name:
            raise ArchitectureError(f"space must be {space.name}, but got {named.name}")
        space, entry = space or named, entry["choices"]
    if not isinstance(entry, Mapping):
        raise ArchitectureError(
            f"an architecture must be {ARCHITECTURE_FORMATS}, but got {str(entry)[:60]!r}"
        )
    if space is None:
        raise ArchitectureError("an architecture's choices need a space, but got none")
    return space.architecture(entry)
