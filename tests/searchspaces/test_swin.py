"""S3's networks against published sizes, the Swin of transformers, and attention pair by pair."""

import math
import random
import re
from collections.abc import Sequence
from itertools import product

import pytest
import torch
from helpers.bert import randomised
from torch import Tensor, nn
from transformers import SwinConfig, SwinForImageClassification

from autoprox.searchspaces import Architecture, ArchitectureError, get_space
from autoprox.searchspaces.swin import (
    SWIN_NANO,
    SWIN_S3,
    Swin,
    SwinBlock,
    SwinBlockSpec,
    relative_position_index,
)
from autoprox.testing.space_checks import smallest_architecture

DIMS = (96, 192, 384, 768)
# Of the biases of a window of 7: by distance, those as far apart by rows and columns.
ORDER = sorted(product(range(-6, 7), repeat=2), key=lambda pair: (max(map(abs, pair)), pair))
SWIN_T = ((2, 2, 6, 2), (7, 7, 7, 7))


def uniform(
    depths: Sequence[int], windows: Sequence[int], dims: Sequence[int] = DIMS
) -> Architecture:
    """A network whose blocks differ by stage alone, with an MLP ratio of 4."""
    choices: dict[str, object] = {}
    for stage, (depth, window, dim) in enumerate(zip(depths, windows, dims, strict=True), 1):
        choices |= {f"depth_{stage}": depth, f"embed_dim_{stage}": dim}
        own = {"window": window, "qkv_dim": dim, "mlp_ratio": 4.0}
        choices |= {f"{name}_{stage}": (value,) * depth for name, value in own.items()}
    return Architecture("s3", choices)


@pytest.mark.parametrize(
    ("depths", "windows", "millions", "gigaflops"),
    [
        ((2, 2, 6, 2), (7, 7, 14, 7), 28.33, 4.63),
        ((2, 2, 18, 2), (14, 14, 14, 14), 49.74, 9.41),
        ((2, 2, 30, 2), (7, 7, 14, 7), 71.13, 13.66),
        (*SWIN_T, 28.29, 4.49),
    ],
)
def test_published_sizes(
    depths: Sequence[int], windows: Sequence[int], millions: float, gigaflops: float
) -> None:
    """The released code counts an operation for each number that a norm sees."""
    arch = uniform(depths, windows)
    blocks = SWIN_S3.blocks(arch)
    norms = sum(2 * block.tokens * block.width for block in blocks)
    norms += sum(4**stage * 49 * dim for stage, dim in enumerate(DIMS[::-1]) if stage)  # mergings
    norms += 56**2 * DIMS[0]
    assert SWIN_S3.params(arch) / 1e6 == pytest.approx(millions, abs=0.005)
    assert (SWIN_S3.flops(arch) + norms) / 1e9 == pytest.approx(gigaflops, abs=0.005)


def test_the_initial_space() -> None:
    """Nine networks of a stage's depth and dimension, each block one of 18."""
    assert SWIN_S3.size() == (3 * sum(18**depth for depth in (2, 3, 4))) ** 4
    assert {block.heads for block in SWIN_S3.blocks(SWIN_S3.largest())} == {9}
    assert {block.heads for block in SWIN_S3.blocks(smallest_architecture(SWIN_S3))} == {7}
    message = r"^window_2\[1\] must be one of 7, 14, but got 8$"
    with pytest.raises(ArchitectureError, match=message):
        SWIN_S3.architecture(dict(smallest_architecture(SWIN_S3).choices) | {"window_2": [7, 8]})


NAMES = (
    (r"^swin\.embeddings\.patch_embeddings\.projection", "patches"),
    (r"^swin\.embeddings\.norm", "patch_norm"),
    (r"^swin\.layernorm", "norm"),
    (r"^classifier", "head"),
    (r"attention\.relative_position_bias\.relative_position_bias_table", "biases.weight"),
    (r"attention\.o_proj", "proj"),
    (r"layernorm_before", "norm1"),
    (r"layernorm_after", "norm2"),
    (r"mlp\.", ""),
)


def translated(theirs: nn.Module) -> dict[str, Tensor]:
    """The parameters of a Swin of transformers under our names, in our order.

    Queries, keys and values are one; the four tokens that merge stand together feature by feature;
    biases go by distance, by rows and columns among the same.
    """
    state: dict[str, Tensor] = {}
    for name, value in theirs.named_parameters():
        for pattern, ours in NAMES:
            name = re.sub(pattern, ours, name)
        if found := re.match(r"swin\.encoder\.layers\.(\d)\.(blocks\.(\d+)|downsample)\.", name):
            stage = int(found[1]) + 1
            place = f"stage{stage}_block{found[3]}" if found[3] else f"merging{stage + 1}"
            name = f"blocks.{place}.{name[found.end() :]}"
        if "merging" in name:  # columns before rows: (0, 0), (1, 0), (0, 1), (1, 1)
            value = value.unflatten(-1, (2, 2, -1)).movedim(-1, -3).mT.flatten(-3)
        elif "biases" in name:
            value = value[[13 * (down + 6) + right + 6 for down, right in ORDER]]
        state[name] = value.detach()
    for name in [name for name in state if ".q_proj." in name]:
        parts = [state.pop(name.replace(".q_", f".{part}_")) for part in "qkv"]
        state[name.replace("attention.q_proj", "qkv")] = torch.cat(parts)
    return state


@torch.no_grad()
def test_forward_is_that_of_transformers() -> None:
    """Windows of 7 in grids of 56, 28, 14 and 7, with shifts in all but the last."""
    depths, dims = (2, 2, 2, 2), (32, 64, 128, 256)
    config = SwinConfig(embed_dim=32, depths=depths, num_heads=(1, 2, 4, 8), num_labels=5)
    theirs = randomised(SwinForImageClassification(config))
    ours = SWIN_S3.network(uniform(depths, (7,) * 4, dims), classes=5)
    ours.load_state_dict(translated(theirs))
    images = torch.randn(2, 3, 224, 224, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(ours(images), theirs(images).logits, rtol=1e-4, atol=1e-4)


def plain_attention(block: SwinBlock, tokens: Tensor) -> Tensor:
    """Attention of [tokens, width], pair by pair: who shares a window once all are shifted."""
    shape = block.spec
    qkv = (tokens @ block.qkv.weight.T + block.qkv.bias).view(len(tokens), 3, shape.heads, -1)
    query, key, value = qkv.unbind(1)
    logits = torch.full((shape.heads, len(tokens), len(tokens)), -math.inf)
    place = [(i // shape.side, i % shape.side) for i in range(len(tokens))]
    rim = shape.windows * shape.window
    moved = [[((at - shape.shift) % rim) // shape.window for at in pair] for pair in place]
    edge = [[at < shape.shift for at in pair] for pair in place]
    for i, (row, column) in enumerate(place):
        for j, (other_row, other_column) in enumerate(place):
            if (moved[i], edge[i]) == (moved[j], edge[j]):
                down, right = row - other_row, column - other_column
                index = ORDER.index((down, right))
                dots = (query[i] * key[j]).sum(-1) / query.shape[-1] ** 0.5
                logits[:, i, j] = dots + block.biases.weight[index]
    mixed = torch.einsum("hij,jhd->ihd", logits.softmax(-1), value).flatten(1)
    return mixed @ block.proj.weight.T + block.proj.bias


@pytest.mark.parametrize(
    ("side", "window", "shift"), [(4, 2, 0), (4, 2, 1), (5, 2, 1), (5, 3, 0), (7, 3, 1), (3, 3, 0)]
)
@torch.no_grad()
def test_attention_stays_in_windows(side: int, window: int, shift: int) -> None:
    shape = SwinBlockSpec(6, side**2, 2, inner=8, hidden=5, window=window, shift=shift)
    block = SwinBlock(shape)
    generator = torch.Generator().manual_seed(side)
    for p in block.parameters():
        p.normal_(0.0, 1.0, generator=generator)
    tokens = torch.randn(2, side**2, 6, generator=generator)
    expected = torch.stack([plain_attention(block, own) for own in tokens])
    torch.testing.assert_close(block.attend(tokens), expected, rtol=1e-4, atol=1e-4)


def test_biases_of_a_smaller_window_are_the_first() -> None:
    """Whatever the window, the same two tokens have the same bias."""
    small, large = relative_position_index(3), relative_position_index(5)
    assert small.unique().tolist() == list(range(25))
    places = [5 * (i // 3) + i % 3 for i in range(9)]
    assert torch.equal(large[places][:, places], small)


def test_windows_that_a_grid_does_not_hold() -> None:
    """A window of 14 in the last grid of 7 is the grid; of the others every second is shifted."""
    blocks = SWIN_S3.blocks(uniform((3, 2, 2, 2), (7, 21, 14, 14)))
    sizes = [(block.side, block.window, block.shift) for block in blocks]
    assert sizes[:3] == [(56, 7, 0), (56, 7, 3), (56, 7, 0)]
    assert sizes[3:] == [(28, 21, 0), (28, 21, 10), (14, 14, 0), (14, 14, 0), (7, 7, 0), (7, 7, 0)]
    assert [block.windows for block in blocks] == [8, 8, 8, 2, 2, 1, 1, 1, 1]


def test_extra_layers_are_in_depth_order() -> None:
    network = SWIN_NANO.build(smallest_architecture(SWIN_NANO), classes=5)
    shapes = [(domain, tuple(layer.weight.shape)) for domain, layer in network.extra_layers()]
    stage = [("qkv", (48, 16))]
    pooled = [("pool", (16, 64)), *stage]
    assert shapes == [("stem", (16, 3, 1, 1)), *stage, *(3 * pooled), ("head", (5, 16))]


def test_initial_weights() -> None:
    """Normal with standard deviation 0.02; at nano widths PyTorch's default. Biases alike."""
    network = SWIN_S3.build(uniform((1, 1, 1, 1), (7,) * 4), seed=5)
    assert isinstance(network, Swin)
    for _, layer in network.layers():
        assert layer.weight.std().item() == pytest.approx(0.02, rel=0.05)
        assert not layer.bias.any()
    nano = SWIN_NANO.build(SWIN_NANO.sample(random.Random(0)), seed=5)
    for _, layer in nano.layers():
        assert layer.weight.abs().max().item() == pytest.approx(layer.in_features**-0.5, rel=0.05)
    for built in (network, nano):
        tables = [module.weight for module in built.modules() if isinstance(module, nn.Embedding)]
        values = torch.cat([table.flatten() for table in tables])
        assert values.std().item() == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize("name", ["s3", "swin-nano"])
def test_slices_keep_their_place_in_their_stage(name: str) -> None:
    space = get_space(name)
    arch = space.sample(random.Random(3))
    deepest = max(space.fields["depth_1"].options[0])
    depths = [arch[f"depth_{stage}"] for stage in (1, 2, 3, 4)]
    expected = [stage * deepest + i for stage, depth in enumerate(depths) for i in range(depth)]
    assert list(space.origins(arch) or ()) == expected
