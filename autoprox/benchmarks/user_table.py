"""A user's own table as a benchmark: a JSON file of this form.

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

`arch` holds the choices of the space. `higher_is_better` is true unless stated; if it is false,
the scores change sign on reading. There must be at least 10 different architectures, a score for
each dataset and at least two distinct scores a dataset. No other keys are allowed but two that
`training.table` adds: `training`, on how the scores were measured, and each architecture's `runs`,
those of every seed; and `suggested`, the choices that `autoprox suggest` has suggested.
"""

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field

from autoprox.benchmarks.benchmark import (
    SCORE_LABEL,
    Benchmark,
    BenchmarkError,
    BenchmarkRow,
    BenchmarkSelection,
    assemble_benchmark,
    choose_datasets,
    make_benchmark_row,
)
from autoprox.benchmarks.benchmark_registry import PinnedBenchmarkFile
from autoprox.files.json_documents import (
    FieldRule,
    JSONDocument,
    JSONNode,
    parse_json,
    read_json,
    validate_json,
)

TABLE_FORMAT = 1

TABLE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")  # of tables and datasets
NAME_RULE = "1 to 64 letters, digits, `.`, `_` and `-`"
Score = Annotated[float, Field(ge=-1e100, le=1e100, allow_inf_nan=False)]  # for it is squared


class TableDataset(JSONDocument):
    """A dataset of a table."""

    classes: Annotated[int, Field(ge=2, le=10**6), FieldRule("an integer from 2 to 1000000")]
    higher_is_better: bool = True


class TableEntry(JSONDocument):
    """An architecture of a table."""

    arch: dict[str, Any]
    scores: dict[str, Score]
    runs: Any = None


class BenchmarkTable(JSONDocument):
    """The content of a table."""

    format: Annotated[int, Field(ge=TABLE_FORMAT, le=TABLE_FORMAT), FieldRule(f"{TABLE_FORMAT}")]
    name: str
    space: str
    datasets: dict[str, TableDataset]
    architectures: list[TableEntry]
    training: Any = None
    suggested: list[dict[str, Any]] = Field(default_factory=list)


class ReadTable(NamedTuple):
    """A table as it was read: its document, its content and its rows, however few."""

    document: JSONNode
    table: BenchmarkTable
    space: str
    rows: list[BenchmarkRow]  # higher scores are better


def load_benchmark_table(
    path: Path, space: str | None, datasets: Sequence[str] | None, networks: int | None = None
) -> Benchmark:
    """Read the table and keep these datasets, or all of them, and all networks or a sample."""
    document, table, own_space, rows = read_user_table(path, space)
    chosen = choose_datasets(datasets, table.datasets, path.name)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return assemble_benchmark(
        rows,
        BenchmarkSelection(own_space, SCORE_LABEL, chosen, networks=networks),
        {name: dataset.classes for name, dataset in table.datasets.items()},
        table.name,
        f"{path.name} (sha256 {digest}), {len(rows)} architectures",
        document.at("architectures").place,
        {name: document.at("datasets", name).place for name in table.datasets},
    )


def read_user_table(path: Path, space: str | None = None) -> ReadTable:
    """Read a table of any number of architectures, of this space if one is asked for."""
    from autoprox.searchspaces import ArchitectureError, get_space  # which import torch

    document = read_json(path)
    table = validate_json(document, BenchmarkTable)
    try:
        own_space = get_space(table.space).name
    except ArchitectureError as error:
        raise BenchmarkError(f"{document.at('space').place}: {error}") from error
    if space is not None and (wanted := get_space(space).name) != own_space:
        raise document.at("space").error(f"must be the space that was asked for, {wanted}")
    if not table.datasets:
        raise document.at("datasets").error("must have at least one dataset", "none")
    nodes = {name: document.at("datasets", name) for name in table.datasets}
    for name, node in [(table.name, document.at("name")), *nodes.items()]:
        if not TABLE_NAME.fullmatch(name):
            raise node.error(f"must be {NAME_RULE}", repr(name))
    return ReadTable(document, table, own_space, _rows(table, own_space, document))


def read_packaged_table(
    selection: BenchmarkSelection, files: Sequence[tuple[PinnedBenchmarkFile, bytes]]
) -> list[BenchmarkRow]:
    """The rows of a table that comes with a package, for its entry in the registry."""
    [(file, content)] = files
    document = parse_json(content, file.name)
    return _rows(validate_json(document, BenchmarkTable), selection.space, document)


def _rows(table: BenchmarkTable, space: str, document: JSONNode) -> list[BenchmarkRow]:
    signs = {name: 1.0 if data.higher_is_better else -1.0 for name, data in table.datasets.items()}
    rows = []
    for index, entry in enumerate(table.architectures):
        node = document.at("architectures", index)
        node.at("scores").require_keys(signs)
        scores = {dataset: sign * entry.scores[dataset] for dataset, sign in signs.items()}
        rows.append(make_benchmark_row(space, entry.arch, scores, node.at("arch").place))
    return rows
