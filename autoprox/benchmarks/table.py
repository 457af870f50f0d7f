"""A table of one's own as a benchmark: a JSON file of this form.

    {
      "format": 1,
      "name": "my-vits",
      "space": "autoformer-ti",
      "datasets": {"cifar100": {"classes": 100, "higher_is_better": true}},
      "architectures": [
        {"arch": {"hidden_dim": 192, "depth": 12, "mlp_ratio": [...], "num_heads": [...]},
         "scores": {"cifar100": 78.3}}
      ]
    }

`arch` holds the choices of the space. `higher_is_better` is true unless stated; where it is false,
the scores change sign on reading. At least 10 different architectures, a score for each dataset, at
least two distinct scores a dataset, no other keys but two that `building.build_table` adds:
`training`, on how the scores were measured, and each architecture's `runs`, those of every seed.
"""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from autoprox.benchmarks.base import (
    LABEL,
    Benchmark,
    BenchmarkError,
    Row,
    Selection,
    assemble,
    choose_datasets,
)
from autoprox.files.located_json import Node, read_json
from autoprox.searchspaces import ArchitectureError, SearchSpace, get_space

FORMAT = 1
MAX_CLASSES = 1_000_000
MAX_SCORE = 1e100  # a correlation squares it
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def load_table(path: Path, space: str | None, datasets: Sequence[str] | None) -> Benchmark:
    """Read the table and keep these datasets, or all of them."""
    table = _members(read_json(path))
    own_space = _space(table["space"])
    if space is not None and get_space(space) is not own_space:
        raise table["space"].error(f"must be the space that was asked for, {get_space(space).name}")
    classes, signs = _datasets(table["datasets"])
    chosen = choose_datasets(datasets, classes, path.name)
    architectures = table["architectures"]
    rows = [_row(node, own_space, signs) for node in architectures.items()]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return assemble(
        rows,
        Selection(own_space.name, LABEL, chosen),
        classes,
        _name(table["name"], table["name"].string()),
        f"{path.name} (sha256 {digest}), {len(rows)} architectures",
        architectures.place,
        {dataset: node.place for dataset, node in table["datasets"].entries().items()},
    )


def read_rows(document: Node) -> list[Row]:
    """The rows of a table, with the scores of all its datasets."""
    table = _members(document)
    space, (_, signs) = _space(table["space"]), _datasets(table["datasets"])
    return [_row(node, space, signs) for node in table["architectures"].items()]


def _members(document: Node) -> dict[str, Node]:
    keys = ("format", "name", "space", "datasets", "architectures")
    table = document.members(keys, ("training",))
    table["format"].integer(FORMAT, FORMAT)
    return table


def _space(node: Node) -> SearchSpace:
    try:
        return get_space(node.string())
    except ArchitectureError as error:
        raise BenchmarkError(f"{node.place}: {error}") from error


def _name(node: Node, name: str) -> str:
    if not NAME.fullmatch(name):
        raise node.error("must be 1 to 64 letters, digits, `.`, `_` and `-`", repr(name))
    return name


def _datasets(node: Node) -> tuple[dict[str, int], dict[str, float]]:
    """The class count of each dataset, and the sign that makes higher scores the better ones."""
    classes, signs = {}, {}
    for dataset, entry in node.entries().items():
        members = entry.members(("classes",), ("higher_is_better",))
        classes[_name(entry, dataset)] = members["classes"].integer(2, MAX_CLASSES)
        higher = "higher_is_better" not in members or members["higher_is_better"].boolean()
        signs[dataset] = 1.0 if higher else -1.0
    if not classes:
        raise node.error("must have at least one dataset", "none")
    return classes, signs


def _row(node: Node, space: SearchSpace, signs: dict[str, float]) -> Row:
    members = node.members(("arch", "scores"), ("runs",))
    arch = members["arch"]
    arch.entries()
    try:
        architecture = space.architecture(arch.plain())
    except ArchitectureError as error:
        raise BenchmarkError(f"{arch.place}: {error}") from error
    scores = members["scores"].members(signs)
    signed = {dataset: sign * scores[dataset].number(MAX_SCORE) for dataset, sign in signs.items()}
    return Row(architecture, signed, arch.place)
