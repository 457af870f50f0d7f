"""OoD-ViT-NAS: Ho et al., "Vision Transformer Neural Architecture Search for Out-of-Distribution
Generalization: Benchmark and Insights", NeurIPS 2024.

1,001 random networks from each of AutoFormer's three supernets with the ImageNet accuracy of the
weights that they inherit. T-Razor (section IV-D) and ETAS (section 4.1) rank such networks; the
subsets by size are T-Razor's ranges. The accuracies on other data than ImageNet aren't read.
From github.com/vovantuan1999a/OoD-ViT-NAS, which has no licence: users download it.
"""

from collections.abc import Sequence
from typing import Any

from autoprox.benchmarks.benchmark import BenchmarkRow, BenchmarkSelection, make_benchmark_row
from autoprox.benchmarks.benchmark_registry import BuiltInBenchmark, PinnedBenchmarkFile
from autoprox.files.json_documents import (
    Finite,
    JSONNode,
    PartialJSONDocument,
    parse_json,
    validate_json,
)
from autoprox.inputs.dataset_class_counts import DATASET_CLASSES

_COMMIT = "037c8e0aeb053759cbbdd82c9bdab2dfb424aaa2"
_REPOSITORY = "vovantuan1999a/OoD-ViT-NAS"
_DATASET = "imagenet"
_TINY, _SMALL, _BASE = (f"autoformer-supernet-{size}" for size in ("ti", "s", "b"))


class ImageNetAccuracy(PartialJSONDocument):
    clean: Finite


class Performance(PartialJSONDocument):
    Imagenet: ImageNetAccuracy


class NetSetting(PartialJSONDocument):
    """The choices; lists may have more entries than layers."""

    layer_num: int
    mlp_ratio: list[Any]
    num_heads: list[Any]
    embed_dim: list[Any]


class EvaluatedNetwork(PartialJSONDocument):
    """An entry of a file."""

    net_setting: NetSetting
    performance: Performance


def _read(
    selection: BenchmarkSelection, files: Sequence[tuple[PinnedBenchmarkFile, bytes]]
) -> list[BenchmarkRow]:
    """The rows of the one file of the space."""
    [(file, content)] = files
    document = parse_json(content, file.name)
    entries = validate_json(document, dict[str, EvaluatedNetwork])
    return [
        _row(selection.space, entry, document.at(number, "net_setting"))
        for number, entry in entries.items()
    ]


def _row(space: str, entry: EvaluatedNetwork, node: JSONNode) -> BenchmarkRow:
    setting = entry.net_setting
    layers = max(setting.layer_num, 0)
    width = next(iter(setting.embed_dim), None)
    if any(other != width for other in setting.embed_dim[:layers]):
        raise node.at("embed_dim").error(f"must have the same value for all {layers} layers")
    choices = {
        "hidden_dim": width,
        "depth": setting.layer_num,
        "mlp_ratio": setting.mlp_ratio[:layers],
        "num_heads": setting.num_heads[:layers],
    }
    scores = {_DATASET: entry.performance.Imagenet.clean}
    return make_benchmark_row(space, choices, scores, node.place)


OOD_VIT_NAS = BuiltInBenchmark(
    name="ood-vit-nas",
    description="slices of AutoFormer's supernets with the ImageNet accuracy of inherited weights",
    labels={space: {"supernet": (_DATASET,)} for space in (_TINY, _SMALL, _BASE)},
    classes={_DATASET: DATASET_CLASSES[_DATASET]},
    licence="no licence stated",
    origin=f"github.com/{_REPOSITORY} at {_COMMIT}",
    url=f"https://raw.githubusercontent.com/{_REPOSITORY}/{_COMMIT}/architecture_infors",
    size_subsets={
        _TINY: {"5M-7M": (5_000_000, 7_000_000)},
        _SMALL: {"15M-19M": (15_000_000, 19_000_000), "23M-25M": (23_000_000, 25_000_000)},
    },
    files=tuple(
        PinnedBenchmarkFile(
            f"1k_Vit_Architecture_from_AutoFM_{size}.json", sha256, length, space, 1001
        )
        for size, sha256, length, space in (
            (
                "tiny",
                "5e07b49782d4f808c81fa565bcff5432293f832b8822224469f69edb380a1e70",
                391651,
                _TINY,
            ),
            (
                "small",
                "d70fb30822848d71ce88efcff071973dce7f2256bc1a5eb663fcc138ca6ee789",
                358361,
                _SMALL,
            ),
            (
                "base",
                "b7ab49e1411c890f4372a50552c98b7589e75e66b4b42274738a1e07e2cc03ff",
                None,
                _BASE,
            ),
        )
    ),
    read=_read,
)
