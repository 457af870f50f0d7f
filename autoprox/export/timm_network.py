"""An architecture as keyword arguments of timm's networks, where it has the network."""

from collections.abc import Callable, Mapping
from typing import Any

from autoprox.export.proxy_formats import ExportError
from autoprox.searchspaces import Architecture, SearchSpace
from autoprox.searchspaces.autoformer import AutoFormer, AutoFormerNano, AutoFormerSpace
from autoprox.searchspaces.pit import PiT, PiTNano, PiTSpace
from autoprox.searchspaces.swin import NanoSwin, Swin, SwinSpace

VIT_FILE = '''"""A network of the search space {space}, as timm makes it. Written by autoprox."""

{standard}import timm
import torch
{imports}
OPTIONS = {{
{options}}}{definitions}


def build(seed: int = 0) -> torch.nn.Module:
    """The network, its weights drawn by timm's rule."""
    torch.manual_seed(seed)
    return timm.create_model("{model}", **OPTIONS{arguments})
'''
BLOCK_BY_BLOCK = '''

HEADS = {heads}
MLP_RATIOS = {ratios}


def block_by_block() -> Callable[..., Block]:
    """Make the blocks one after another, each with its own heads and MLP."""
    layers = iter(zip(HEADS, MLP_RATIOS, strict=True))

    def block(num_heads: int, mlp_ratio: float, **options: Any) -> Block:
        heads, ratio = next(layers)
        return Block(num_heads=heads, mlp_ratio=ratio, **options)

    return block'''
HEADS_OF_WIDTH = '''


class Heads(Attention):
    """Attention whose heads have {width} dimensions each, whatever the width of the tokens."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, attn_head_dim={width}, **options)'''

SWIN_FILE = '''"""A network of the search space {space}, as timm makes it. Written by autoprox."""

from typing import Any

import timm
import torch
from timm.layers import PatchEmbed
from timm.models.swin_transformer import SwinTransformerBlock, SwinTransformerStage

WIDTHS = {widths}
# Heads, window and MLP ratio of each block, stage by stage.
BLOCKS = [
{blocks}]
SIDE = {side}  # tokens in a row of the first stage's grid
OPTIONS = {{
{options}}}


def embedding(embed_dim: int, **options: Any) -> PatchEmbed:
    """Embed patches, as wide as the first stage."""
    return PatchEmbed(embed_dim=WIDTHS[0], **options)


def stage(number: int) -> SwinTransformerStage:
    """A stage of its own width, each block with its own heads, window and MLP."""
    width, side = WIDTHS[number], SIDE // 2**number
    blocks = [
        SwinTransformerBlock(
            dim=width,
            input_resolution=(side, side),
            num_heads=heads,
            head_dim={head_dim},
            window_size=window,
            shift_size=window // 2 if index % 2 else 0,
            mlp_ratio=ratio,
        )
        for index, (heads, window, ratio) in enumerate(BLOCKS[number])
    ]
    before = max(number - 1, 0)
    made = SwinTransformerStage(
        dim=WIDTHS[before],
        out_dim=width,
        input_resolution=(SIDE // 2**before, SIDE // 2**before),
        depth=len(blocks),
        downsample=number > 0,
        num_heads=1,
    )
    made.blocks = torch.nn.Sequential(*blocks)
    return made


def build(seed: int = 0) -> torch.nn.Module:
    """The network, its weights drawn by timm's rule."""
    torch.manual_seed(seed)
    network = timm.create_model("swin_tiny_patch4_window7_224", **OPTIONS, embed_layer=embedding)
    network.layers = torch.nn.Sequential(*map(stage, range(len(WIDTHS))))
    for info, width in zip(network.feature_info, WIDTHS, strict=True):
        info["num_chs"] = width
    network.init_weights()
    return network
'''


def timm_source(space: SearchSpace, architecture: Architecture, classes: int) -> str:
    """A file with `build(seed)`, which calls timm's `create_model`."""
    kind = type(space.network(architecture, classes))
    if kind not in WRITERS:
        raise ExportError(
            f"timm has no network like those of {space.name}: use torch, which has all spaces'"
        )
    return WRITERS[kind](space, architecture, classes)


def _vit(space: SearchSpace, architecture: Architecture, classes: int) -> str:
    """timm's vision transformer; blocks that differ are made one by one."""
    if not isinstance(space, AutoFormerSpace):
        raise TypeError(f"an AutoFormer must be of its own spaces, but {space.name} is another")
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
    standard, imports, definitions, arguments = "", "", "", ""
    if space.head_dim is not None:
        standard = "from typing import Any\n\n"
        imports = "from timm.layers import Attention\n"
        definitions = HEADS_OF_WIDTH.format(width=space.head_dim)
        arguments = ", attn_layer=Heads"
    if len(set(heads)) > 1 or len(set(ratios)) > 1:
        standard = "from collections.abc import Callable\nfrom typing import Any\n\n"
        imports += "from timm.models.vision_transformer import Block\n"
        definitions += BLOCK_BY_BLOCK.format(heads=heads, ratios=ratios)
        arguments += ", block_fn=block_by_block()"
    return VIT_FILE.format(
        space=space.name,
        model="vit_tiny_patch16_224",
        options=_options(options),
        standard=standard,
        imports=imports,
        definitions=definitions,
        arguments=arguments,
    )


def _pit(space: SearchSpace, architecture: Architecture, classes: int) -> str:
    if not isinstance(space, PiTSpace):
        raise TypeError(f"a PiT must be of its own spaces, but {space.name} is another")
    options = {
        "img_size": space.input_shape[-1],
        "patch_size": space.patch,
        "stride": space.stride,
        "num_classes": classes,
        "base_dims": [architecture["base_dim"]] * 3,
        "depth": list(architecture["depth"]),
        "heads": list(architecture["num_heads"]),
        "mlp_ratio": architecture["mlp_ratio"],
    }
    empty = dict.fromkeys(("standard", "imports", "definitions", "arguments"), "")
    return VIT_FILE.format(space=space.name, model="pit_ti_224", options=_options(options), **empty)


def _swin(space: SearchSpace, architecture: Architecture, classes: int) -> str:
    """timm's Swin with stages of any widths, and blocks that differ."""
    if not isinstance(space, SwinSpace):
        raise TypeError(f"a Swin must be of its own spaces, but {space.name} is another")
    stages = space.stages(architecture)
    for shape in (block for stage in stages for block in stage):
        if shape.side % shape.window:
            raise ExportError(
                f"timm has no network like those of {space.name} whose windows don't divide the "
                f"grid, as {shape.window} tokens don't divide {shape.side}: use torch"
            )
    widths = [stage[0].width for stage in stages]
    options = {
        "img_size": space.input_shape[-1],
        "patch_size": space.patch,
        "num_classes": classes,
        "embed_dim": widths[-1] / 2 ** (len(widths) - 1),  # timm's last stage is so much wider
        "depths": [len(stage) for stage in stages],
        "num_heads": [1] * len(stages),
        "drop_path_rate": 0.0,
    }
    blocks = [
        [(b.heads, b.window, r) for b, r in zip(stage, architecture[f"mlp_ratio_{n}"], strict=True)]
        for n, stage in zip(space.stage_numbers, stages, strict=True)
    ]
    return SWIN_FILE.format(
        space=space.name,
        widths=widths,
        blocks="".join(f"    {own},\n" for own in blocks),
        side=stages[0][0].side,
        head_dim=space.head_dim,
        options=_options(options),
    )


def _options(options: Mapping[str, Any]) -> str:
    lines = "".join(f"    {name!r}: {value!r},\n" for name, value in options.items())
    return lines.replace("'", '"')


WRITERS: Mapping[type, Callable[[SearchSpace, Architecture, int], str]] = {
    **{AutoFormer: _vit, AutoFormerNano: _vit},
    **{PiT: _pit, PiTNano: _pit},
    **{Swin: _swin, NanoSwin: _swin},
}
