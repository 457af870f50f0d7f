"""The convolutional space against published sizes and transformers' MobileNetV2."""

import re

import pytest
import torch
from helpers.bert import randomised
from torch import Tensor, nn
from transformers import MobileNetV2Config, MobileNetV2ForImageClassification

from autoprox.oneshot.supernet.shared_weights import Supernet
from autoprox.searchspaces import Architecture, ArchitectureError
from autoprox.searchspaces.bignas import BIGNAS, BIGNAS_NANO, BigNAS, InvertedResidual
from autoprox.testing.space_checks import smallest_architecture

CHANNELS = (16, 24, 32, 64, 96, 160, 320)
DEPTHS = (1, 2, 3, 4, 3, 3, 1)
PLACES = [f"stage{stage}_block{i}" for stage, n in enumerate(DEPTHS, 1) for i in range(n)]


def mobile_net(resolution: int = 224) -> Architecture:
    """MobileNetV2, which isn't in the space."""
    choices = {
        **{"resolution": resolution, "stem": 32, "last": 1280},
        **{"channels": CHANNELS, "depth": DEPTHS, "kernel": (3,) * 7},
    }
    return Architecture("bignas", choices)


def test_sizes_of_mobile_net() -> None:
    """As torchvision documents them: 3,504,872 parameters and 0.3 G operations."""
    assert BIGNAS.params(mobile_net()) == 3_504_872
    assert BIGNAS.flops(mobile_net()) / 1e6 == pytest.approx(300.8, abs=0.05)


def test_published_sizes_are_within_reach() -> None:
    """BigNAS-S to -XL have 242 to 1,040 M operations."""
    least, most = BIGNAS.flops(smallest_architecture(BIGNAS)), BIGNAS.flops(BIGNAS.largest())
    assert least / 1e6 == pytest.approx(206.4, abs=0.1)
    assert most > 1_040e6
    assert BIGNAS.params(smallest_architecture(BIGNAS)) < 4.5e6
    assert BIGNAS.params(BIGNAS.largest()) > 9.2e6


def test_the_table_of_the_space() -> None:
    """The published resolutions of stages are those of their inputs."""
    for arch, sides in (
        (smallest_architecture(BIGNAS), (96, 96, 48, 24, 12, 12, 6)),
        (BIGNAS.largest(), (160, 160, 80, 40, 20, 20, 10)),
    ):
        blocks = BIGNAS.blocks(arch)
        starts = [sum(arch["depth"][:stage]) for stage in range(7)]
        found = [blocks[start].tokens ** 0.5 * blocks[start].stride for start in starts]
        assert tuple(found) == sides
    channels = BIGNAS.fields["channels"].options
    ends = [(16, 24), (24, 32), (40, 48), (80, 88), (112, 128), (192, 216), (320, 352)]
    assert [(own[0], own[-1]) for own in channels] == ends
    with pytest.raises(ArchitectureError, match=r"^kernel\[0\] must be one of 3, but got 5$"):
        BIGNAS.architecture(dict(smallest_architecture(BIGNAS).choices) | {"kernel": [5] * 7})


NAMES = (
    (r"^mobilenet_v2\.conv_stem\.first_conv\.convolution", "stem"),
    (r"^mobilenet_v2\.conv_stem\.first_conv\.normalization", "stem_norm"),
    (r"^mobilenet_v2\.conv_stem\.conv_3x3\.convolution", "blocks.stage1_block0.depthwise"),
    (r"^mobilenet_v2\.conv_stem\.conv_3x3\.normalization", "blocks.stage1_block0.norm2"),
    (r"^mobilenet_v2\.conv_stem\.reduce_1x1\.convolution", "blocks.stage1_block0.project"),
    (r"^mobilenet_v2\.conv_stem\.reduce_1x1\.normalization", "blocks.stage1_block0.norm3"),
    (r"^mobilenet_v2\.conv_1x1\.convolution", "last"),
    (r"^mobilenet_v2\.conv_1x1\.normalization", "last_norm"),
    (r"^classifier", "head"),
    (r"expand_1x1\.convolution", "expand"),
    (r"expand_1x1\.normalization", "norm1"),
    (r"conv_3x3\.convolution", "depthwise"),
    (r"conv_3x3\.normalization", "norm2"),
    (r"reduce_1x1\.convolution", "project"),
    (r"reduce_1x1\.normalization", "norm3"),
)


def translated(theirs: nn.Module, ours: nn.Module) -> dict[str, Tensor]:
    """The state of a MobileNetV2 of transformers under our names."""
    state: dict[str, Tensor] = {}
    for name, value in theirs.state_dict().items():
        for pattern, own in NAMES:
            name = re.sub(pattern, own, name)
        if found := re.match(r"mobilenet_v2\.layer\.(\d+)\.", name):
            name = f"blocks.{PLACES[int(found[1]) + 1]}.{name[found.end() :]}"
        state[name] = value.view(ours.state_dict()[name].shape)
    return state


@torch.no_grad()
def test_forward_is_that_of_transformers() -> None:
    config = MobileNetV2Config(
        hidden_act="silu", tf_padding=False, layer_norm_eps=1e-5, num_labels=5
    )
    theirs = randomised(MobileNetV2ForImageClassification(config))
    generator = torch.Generator().manual_seed(2)
    for name, buffer in theirs.named_buffers():
        if "running" in name:
            buffer.uniform_(0.5, 1.5, generator=generator)
    ours = BIGNAS.network(mobile_net(64), classes=5)
    ours.load_state_dict(translated(theirs, ours))
    images = torch.randn(2, 3, 64, 64, generator=generator)
    torch.testing.assert_close(ours(images), theirs(images).logits, rtol=1e-3, atol=1e-3)


def test_images_are_resized_to_the_resolution() -> None:
    network = BIGNAS_NANO.build(smallest_architecture(BIGNAS_NANO), classes=5)
    flat = torch.full((1, 3, 48, 48), 0.7)
    torch.testing.assert_close(network(flat), network(flat[..., :16, :16]))


def test_an_image_does_not_see_the_others() -> None:
    network = BIGNAS_NANO.build(BIGNAS_NANO.largest(), classes=5)
    images = torch.randn(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(network(images)[:1], network(images[:1]))


def test_initial_weights() -> None:
    """Normal with variance 2 / fan out; the classifier by 0.01."""
    network = BIGNAS.build(smallest_architecture(BIGNAS), classes=100, seed=5)
    assert isinstance(network, BigNAS)
    block = network.transformer_blocks[-1]
    for _, layer in block.linears():
        expected = (2 / layer.out_features) ** 0.5
        assert layer.weight.std().item() == pytest.approx(expected, rel=0.05)
    assert block.depthwise.weight.std().item() == pytest.approx((2 / 9) ** 0.5, rel=0.05)  # type: ignore[union-attr]
    assert network.head.weight.std().item() == pytest.approx(0.01, rel=0.05)


def test_a_smaller_kernel_of_a_supernet_is_the_middle_of_the_larger() -> None:
    """And the channels are the first."""
    largest = BIGNAS_NANO.build(BIGNAS_NANO.largest(), 3, seed=2)
    supernet = Supernet(BIGNAS_NANO, 3, seed=2)
    for arch in (BIGNAS_NANO.smallest(), BIGNAS_NANO.largest()):
        network = supernet.extract(arch)
        for name, block in network.named_modules():
            if isinstance(block, InvertedResidual):
                weight = block.depthwise.weight
                whole = largest.get_submodule(name).depthwise.weight  # type: ignore[union-attr]
                edge = (whole.shape[-1] - weight.shape[-1]) // 2
                middle = slice(edge, whole.shape[-1] - edge)
                assert torch.equal(weight, whole[: len(weight), :, middle, middle])
