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
least two distinct scores a dataset, no other keys but two that `training.table` adds:
`training`, on how the scores were measured, and each architecture's `runs`, those of every seed.
"""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from autoprox.benchmarks.base import (
    LABEL,
    Benchmark,
    BenchmarkError,
    Row,
    Selection,
    assemble,
    choose_datasets,
)
from autoprox.files.documents import Document, Must, validate
from autoprox.files.located_json import Node, read_json
from autoprox.searchspaces import Architecture, ArchitectureError, SearchSpace, get_space

FORMAT = 1
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

Score = Annotated[float, Field(ge=-1e100, le=1e100, allow_inf_nan=False)]  # for it is squared


class TableDataset(Document):
    """A dataset of a table."""

    classes: Annotated[int, Field(ge=2, le=10**6), Must("an integer from 2 to 1000000")]
    higher_is_better: bool = True

    @property
    def sign(self) -> float:
        """What makes higher scores the better ones."""
        return 1.0 if self.higher_is_better else -1.0


class TableEntry(Document):
    """An architecture of a table."""

    arch: dict[str, Any]
    scores: dict[str, Score]
    runs: Any = None


class Table(Document):
    """The content of a table."""

    format: Annotated[int, Field(ge=FORMAT, le=FORMAT), Must(f"{FORMAT}")]
    name: str
    space: str
    datasets: dict[str, TableDataset]
    architectures: list[TableEntry]
    training: Any = None


def load_table(path: Path, space: str | None, datasets: Sequence[str] | None) -> Benchmark:
    """Read the table and keep these datasets, or all of them."""
    document = read_json(path)
    table = validate(document, Table)
    own_space = _space(table, document)
    if space is not None and get_space(space) is not own_space:
        rule = f"must be the space that was asked for, {get_space(space).name}"
        raise document.at(["space"]).error(rule)
    _check_names(table, document)
    chosen = choose_datasets(datasets, table.datasets, path.name)
    rows = _rows(table, own_space, document)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return assemble(
        rows,
        Selection(own_space.name, LABEL, chosen),
        {name: dataset.classes for name, dataset in table.datasets.items()},
        table.name,
        f"{path.name} (sha256 {digest}), {len(rows)} architectures",
        document.at(["architectures"]).place,
        {name: document.at(["datasets", name]).place for name in table.datasets},
    )


def read_rows(document: Node) -> list[Row]:
    """The rows of a table, with the scores of all its datasets."""
    table = validate(document, Table)
    return _rows(table, _space(table, document), document)


def _space(table: Table, document: Node) -> SearchSpace:
    try:
        return get_space(table.space)
    except ArchitectureError as error:
        raise BenchmarkError(f"{document.at(['space']).place}: {error}") from error


def _check_names(table: Table, document: Node) -> None:
    named = {name: document.at(["datasets", name]) for name in table.datasets}
    if not named:
        raise document.at(["datasets"]).error("must have at least one dataset", "none")
    for name, node in [(table.name, document.at(["name"])), *named.items()]:
        if not NAME.fullmatch(name):
            raise node.error("must be 1 to 64 letters, digits, `.`, `_` and `-`", repr(name))


def _rows(table: Table, space: SearchSpace, document: Node) -> list[Row]:
    signs = {name: dataset.sign for name, dataset in table.datasets.items()}
    rows = []
    for index, entry in enumerate(table.architectures):
        node = document.at(["architectures", index])
        node.at(["scores"]).members(signs)
        scores = {dataset: sign * entry.scores[dataset] for dataset, sign in signs.items()}
        rows.append(Row(_architecture(entry, space, node), scores, node.at(["arch"]).place))
    return rows


def _architecture(entry: TableEntry, space: SearchSpace, node: Node) -> Architecture:
    try:
        return space.architecture(entry.arch)
    except ArchitectureError as error:
        raise BenchmarkError(f"{node.at(['arch']).place}: {error}") from error
