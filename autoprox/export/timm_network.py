"""An architecture as keyword arguments of timm's networks, where it has the network."""

from collections.abc import Callable, Mapping
from typing import Any

from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.searchspaces.autoformer import AutoFormer, AutoFormerSpace
from autoprox.searchspaces.pit import PiT

HEADER = '''"""A network of the search space {space}, as timm makes it. Written by autoprox."""

import timm
import torch
'''
BUILD = '''

def build(seed: int = 0) -> torch.nn.Module:
    """The network, its weights drawn by timm's rule."""
    torch.manual_seed(seed)
    return timm.create_model("{name}", **OPTIONS{more})
'''
BLOCKS = '''

def block_by_block() -> Callable[..., Block]:
    """What makes the blocks one after another, each with its own heads and MLP."""
    layers = iter(zip(HEADS, MLP_RATIOS, strict=True))

    def block(num_heads: int, mlp_ratio: float, **options: Any) -> Block:
        heads, ratio = next(layers)
        return Block(num_heads=heads, mlp_ratio=ratio, **options)

    return block
'''


def timm_source(space: SearchSpace, architecture: Architecture, classes: int) -> str | None:
    """A file with `build(seed)`, which calls timm's `create_model`; None where timm lacks it."""
    kind = type(space.network(architecture, classes))
    write = WRITERS.get(kind)
    return None if write is None else write(space, architecture, classes)


def _vit(space: SearchSpace, architecture: Architecture, classes: int) -> str:
    """timm's vision transformer; blocks that differ are made one by one."""
    if not isinstance(space, AutoFormerSpace):
        raise TypeError(f"an AutoFormer must be of its own space, but got {space.name}")
    heads, ratios = architecture["num_heads"], architecture["mlp_ratio"]
    options = {
        "img_size": space.input_shape[-1],
        "patch_size": space.patch,
        "num_classes": classes,
        "embed_dim": architecture["hidden_dim"],
        "depth": architecture["depth"],
        "num_heads": heads[0],
        "mlp_ratio": ratios[0],
        "global_pool": "avg",
        "fc_norm": False,
    }
    header = HEADER.format(space=space.name)
    build = BUILD.format(name="vit_tiny_patch16_224", more="{more}")
    if len(set(heads)) == len(set(ratios)) == 1:
        return header + _options(options) + build.format(more="")
    imports = "from timm.models.vision_transformer import Block\n"
    header = header.replace("import timm\n", f"{_CALLABLE}import timm\n") + imports
    lists = f"\nHEADS = {heads!r}\nMLP_RATIOS = {ratios!r}"
    more = ", block_fn=block_by_block()"
    return header + lists + _options(options) + BLOCKS + build.format(more=more)


def _pit(space: SearchSpace, architecture: Architecture, classes: int) -> str:
    options = {
        "num_classes": classes,
        "base_dims": [architecture["base_dim"]] * 3,
        "depth": list(architecture["depth"]),
        "heads": list(architecture["num_heads"]),
        "mlp_ratio": architecture["mlp_ratio"],
    }
    build = BUILD.format(name="pit_ti_224", more="")
    return HEADER.format(space=space.name) + _options(options) + build


_CALLABLE = "from collections.abc import Callable\nfrom typing import Any\n\n"


def _options(options: Mapping[str, Any]) -> str:
    lines = "".join(f'    "{name}": {value!r},\n' for name, value in options.items())
    return f"\nOPTIONS = {{\n{lines}}}\n".replace("'", '"')


Writer = Callable[[SearchSpace, Architecture, int], str]
WRITERS: Mapping[type, Writer] = {AutoFormer: _vit, PiT: _pit}
