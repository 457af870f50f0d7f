"""A user's table that grows: which architectures were suggested, and the results that came back.

Suggestions are written as an array of {space, choices}, and results are read as an array of
{space, choices, scores}, with a score for each dataset of the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from autoprox.benchmarks.benchmark import BenchmarkError, make_benchmark_row
from autoprox.benchmarks.user_table import (
    NAME_RULE,
    TABLE_FORMAT,
    TABLE_NAME,
    Score,
    TableDataset,
    read_user_table,
)
from autoprox.errors import AutoproxError
from autoprox.files.atomic_writes import write_json
from autoprox.files.json_documents import JSONDocument, JSONNode, read_json, validate_json

if TYPE_CHECKING:
    from autoprox.searchspaces import Architecture  # which imports torch, seconds of start-up


class SuggestionDocument(JSONDocument):
    """An architecture of a file of suggestions."""

    space: str
    choices: dict[str, Any]


class ResultDocument(SuggestionDocument):
    """An architecture of a file of results, with its true score on each dataset."""

    scores: dict[str, Score]


class AddedResults(NamedTuple):
    """How many results of a file are new to the table, known to it, and were never suggested."""

    new: int
    known: int
    not_suggested: int


@dataclass
class GrowingTable:
    """The table of a file, changed in memory until it is written."""

    path: Path
    space: str
    content: dict[str, Any]  # of the file; keys that nothing here reads are kept
    labels: dict[Architecture, Mapping[str, float]]  # as in the file
    suggested: dict[Architecture, None]  # those without a label yet

    @classmethod
    def read(cls, path: Path, space: str | None = None) -> GrowingTable:
        """Read the table of a file, of this space if one is asked for."""
        document, table, own_space, rows = read_user_table(path, space)
        labels: dict[Architecture, Mapping[str, float]] = {}
        for index, (row, entry) in enumerate(zip(rows, table.architectures, strict=True)):
            if row.architecture in labels:
                at = document.at("architectures", index, "arch")
                raise at.error("must differ from every other", "one that is there already")
            labels[row.architecture] = entry.scores
        asked = [
            make_benchmark_row(own_space, choices, {}, document.at("suggested", index).place)
            for index, choices in enumerate(table.suggested)
        ]
        suggested = dict.fromkeys(row.architecture for row in asked)
        return cls(path, own_space, document.plain(), labels, suggested)

    @classmethod
    def empty(
        cls, path: Path, name: str, space: str, datasets: Mapping[str, TableDataset]
    ) -> GrowingTable:
        """Return a table without architectures."""
        for dataset in datasets:
            if not TABLE_NAME.fullmatch(dataset):
                raise BenchmarkError(f"a dataset's name must be {NAME_RULE}, but got {dataset!r}")
        content = {
            "format": TABLE_FORMAT,
            "name": name,
            "space": space,
            "datasets": {dataset: own.model_dump() for dataset, own in datasets.items()},
            "architectures": [],
        }
        return cls(path, space, content, {}, {})

    @property
    def datasets(self) -> dict[str, TableDataset]:
        """The datasets by their names."""
        return {name: TableDataset(**own) for name, own in self.content["datasets"].items()}

    def add(self, results: Path) -> AddedResults:
        """Add the results of a file, all or none; those that are known are skipped."""
        added = read_results(results, self.space, list(self.datasets))
        for architecture, (scores, node) in added.items():
            known = self.labels.get(architecture, scores)
            if known != scores:
                rule = f"must be those of {self.path}, which has the architecture"
                raise node.at("scores").error(rule, f"{scores} instead of {dict(known)}")
        new = {own: scores for own, (scores, _) in added.items() if own not in self.labels}
        not_suggested = sum(own not in self.suggested for own in new)
        for architecture, scores in new.items():
            choices = architecture.to_json()["choices"]
            self.content["architectures"].append({"arch": choices, "scores": scores})
        self.labels |= new
        self.suggested = dict.fromkeys(own for own in self.suggested if own not in added)
        return AddedResults(len(new), len(added) - len(new), not_suggested)

    def suggest(self, architectures: Sequence[Architecture]) -> None:
        """Note that these were suggested."""
        self.suggested |= dict.fromkeys(architectures)

    def write(self) -> None:
        """Write the file as a whole."""
        pending = [architecture.to_json()["choices"] for architecture in self.suggested]
        write_json(self.path, {**self.content, "suggested": pending})


def read_results(
    path: Path, space: str, datasets: Sequence[str]
) -> dict[Architecture, tuple[dict[str, float], JSONNode]]:
    """Read the scores of each architecture of a file of results, and where it has them."""
    document = read_json(path)
    results = validate_json(document, list[ResultDocument])
    found: dict[Architecture, tuple[dict[str, float], JSONNode]] = {}
    for index, result in enumerate(results):
        node = document.at(index)
        if result.space != space:
            raise node.at("space").error(f"must be the table's, {space}")
        row = make_benchmark_row(space, result.choices, {}, node.at("choices").place)
        node.at("scores").require_keys(datasets)
        if row.architecture in found:
            raise node.error("must differ from every other", "an architecture for the second time")
        found[row.architecture] = result.scores, node
    return found


def require_suggestion_file(path: Path) -> None:
    """Raise BenchmarkError unless the file is new, or has suggestions, which may be replaced."""
    if path.exists() or path.is_symlink():
        try:
            validate_json(read_json(path), list[SuggestionDocument])
        except AutoproxError as error:
            rule = "suggestions must be written to a new file, or to one of suggestions"
            raise BenchmarkError(f"{rule}, but {path} is something else") from error
