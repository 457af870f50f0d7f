"""NAS-Bench-BERT: Serianni and Kalita, "Training-free Neural Architecture Search for RNNs and
Transformers", ACL 2023.

500 encoders of the FlexiBERT space, pre-trained as ELECTRA for 100,000 steps, fine-tuned on eight
GLUE tasks; ``glue`` is the mean of the eight scores. Drawn at random, nine of them were drawn twice
and so trained twice: their scores here are the means of both trainings.
From github.com/aaronserianni/training-free-nas, CC BY 4.0.

What was trained differs from what was chosen. The published training code never enters its branches
for the operations (it compares strings by identity), so that every layer has scaled dot-product
attention, and its first feed-forward layer is 4 x hidden_size wide; only a second and a third have
the chosen dimension. The file agrees: beside hidden size, depth, heads and number of feed-forward
layers, the operations explain neither the scores (F-test on ranks, p = 0.56) nor the time that
training took (p = 0.64); the feed-forward dimension of single layers doesn't either (p = 0.63 and
0.37), that of triple ones does (p = 0.01 and 1e-55). What is published as measured on these
networks, such as Kendall's tau 0.454 of their parameter counts, is of hidden size 256 and
feed-forward dimension 1024 throughout. The rows here have the architectures as they were chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

from autoprox.benchmarks.base import LABEL, BenchmarkError, Row, Selection
from autoprox.benchmarks.builtin import BuiltInBenchmark, DataFile
from autoprox.files.located_json import Node, parse_json

if TYPE_CHECKING:
    from autoprox.searchspaces import Architecture

COMMIT = "2d76e01b9586cad7340e8268dadba3056efd070b"
REPOSITORY = "aaronserianni/training-free-nas"
TASKS = ("cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst", "sts")
DATASETS = ("glue", *TASKS)
SPACE, VOCABULARY = "flexibert", 30522
MAX_SCORE = 100.0  # percent, of an accuracy or a correlation
OPERATIONS = (
    ("SA", "SDP", "sdp"),
    ("SA", "WMA", "wma"),
    ("LT", "DFT", "dft"),
    ("LT", "DCT", "dct"),
    ("DSC", 5, "dsc5"),
    ("DSC", 9, "dsc9"),
)
FIELDS = ("num_operation_heads", "feed_forward_dimension", "num_feed_forward")


def read(selection: Selection, files: Sequence[tuple[DataFile, bytes]]) -> list[Row]:
    """The rows of the one file, one for each architecture."""
    [(file, content)] = files
    trained: dict[Architecture, list[Row]] = {}
    for node in parse_json(content, file.name).items():
        row = _row(node, selection.datasets)
        trained.setdefault(row.architecture, []).append(row)
    return [_mean(rows) for rows in trained.values()]


def _mean(rows: Sequence[Row]) -> Row:
    first = rows[0]
    scores = {dataset: fmean(row.scores[dataset] for row in rows) for dataset in first.scores}
    return Row(first.architecture, scores, first.where)


def _row(node: Node, datasets: Sequence[str]) -> Row:
    entry = _members(node, "hparams", "scores")
    scores = _members(entry["scores"], *datasets)
    overrides = _members(entry["hparams"], "model_hparam_overrides")["model_hparam_overrides"]
    architecture = _architecture(overrides)
    found = {dataset: scores[dataset].number(MAX_SCORE) for dataset in datasets}
    return Row(architecture, found, overrides.place)


def _architecture(overrides: Node) -> Architecture:
    from autoprox.searchspaces import ArchitectureError, get_space  # which import torch

    chosen = _members(overrides, "hidden_size", "nas_config")
    encoder = _members(chosen["nas_config"], "encoder_layers")["encoder_layers"].items()
    layers = [_members(node, "operation_type", "operation_parameter", *FIELDS) for node in encoder]
    choices: dict[str, Any] = {
        "hidden_size": chosen["hidden_size"].plain(),
        "depth": len(layers),
        "operation": [_operation(layer) for layer in layers],
    }
    choices |= {name: [layer[name].plain() for layer in layers] for name in FIELDS}
    try:
        return get_space(SPACE).architecture(choices)
    except ArchitectureError as error:
        raise BenchmarkError(f"{overrides.place}: {error}") from error


def _operation(layer: dict[str, Node]) -> str:
    kind, parameter = layer["operation_type"], layer["operation_parameter"]
    for known, of_known, operation in OPERATIONS:
        if (known, of_known) == (kind.value, parameter.value):
            return operation
    choices = ", ".join(f"{known} {of_known}" for known, of_known, _ in OPERATIONS)
    raise kind.error(
        f"and operation_parameter must be one of {choices}", f"{kind.text} {parameter.text}"
    )


def _members(node: Node, *required: str) -> dict[str, Node]:
    """The members of an object that must have these keys, and may have others."""
    return node.members(required, node.entries())


NAS_BENCH_BERT = BuiltInBenchmark(
    name="nas-bench-bert",
    description="BERT-like encoders of the FlexiBERT space, pre-trained, and fine-tuned on GLUE",
    labels={SPACE: {LABEL: DATASETS}},
    classes=dict.fromkeys(DATASETS, VOCABULARY),
    licence="CC BY 4.0",
    origin=f"github.com/{REPOSITORY} at {COMMIT}",
    url=f"https://raw.githubusercontent.com/{REPOSITORY}/{COMMIT}/data",
    default_datasets=("glue",),
    files=(
        DataFile(
            "BERT_benchmark.json",
            "fa2ff7198dcd71e0b8021ed2ace1c221672c33cc56931b6dff31fda3d044784f",
            size=453164,
            space=SPACE,
            architectures=491,
        ),
    ),
    read=read,
)
