"""Predictor files: what a Gaussian process needs to rank the architectures of a space again."""

from pathlib import Path
from typing import Annotated

from pydantic import Field

from autoprox.errors import AutoproxError
from autoprox.files.atomic_writes import write_json
from autoprox.files.json_documents import (
    Finite,
    JSONDocument,
    JSONFileError,
    validate_json,
)
from autoprox.language import Tree, parse_expression, require_complete_proxy
from autoprox.runs.proxy_file import Found, Name, read_versioned
from autoprox.runs.summary import Choices


class PredictorLabels(JSONDocument):
    """What is known of the training networks on a dataset, in the order of the architectures."""

    truth: Annotated[list[Finite], Field(description="True scores; higher is better.")]
    logs: Annotated[
        list[Finite],
        Field(
            description="Logarithms of the magnitudes of the expression, the mean if it has none."
        ),
    ]


class PredictorFile(JSONDocument):
    """The training networks of a Gaussian process on choices and on the scores of an expression."""

    version: int
    expression: str
    found: Found
    architectures: list[Choices]
    datasets: Annotated[dict[Name, PredictorLabels], Field(min_length=1)]

    @property
    def tree(self) -> Tree:
        """The expression."""
        return require_complete_proxy(parse_expression(self.expression))


def write_predictor(path: Path, predictor: PredictorFile) -> None:
    """Write a predictor file."""
    write_json(path, predictor.model_dump(mode="json"))


def read_predictor(path: Path) -> PredictorFile:
    """Read a predictor file; its fields, its expression and the number of labels are checked."""
    document = read_versioned(path)
    found = validate_json(document, PredictorFile)
    try:
        _ = found.tree
    except AutoproxError as error:
        raise JSONFileError(f"{document.at('expression').place}: {error}") from error
    count = len(found.architectures)
    for dataset, labels in found.datasets.items():
        for name in PredictorLabels.model_fields:
            if (size := len(getattr(labels, name))) != count:
                node = document.at("datasets", dataset, name)
                raise node.error(f"must have a number for each of {count} networks", f"{size}")
    return found
