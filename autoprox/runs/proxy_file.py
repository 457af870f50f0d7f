"""A proxy as a JSON file: its expression, where it was found, and its measured taus."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from autoprox.errors import AutoproxError
from autoprox.files.atomic_writes import write_json
from autoprox.files.json_documents import (
    FieldRule,
    JSONDocument,
    JSONFileError,
    JSONNode,
    PartialJSONDocument,
    read_json,
    validate_json,
)
from autoprox.language import parse_expression, require_complete_proxy, tree_digest

VERSION = 1
Taus = dict[str, dict[str, float | None]]  # by part of the split and dataset

Name = Annotated[str, Field(max_length=2000)]  # it becomes a heading
Tau = Annotated[float, Field(ge=-1, le=1, allow_inf_nan=False)]


class Version(PartialJSONDocument):
    """The part that files of all versions share."""

    version: Annotated[int, Field(ge=1, le=10**9), FieldRule("an integer from 1 to 1000000000")]


Count = Annotated[int, Field(ge=1, le=10**9), FieldRule("an integer from 1 to 1000000000")]


class Split(JSONDocument):
    """The networks of a benchmark's space that were divided into a training and a test part.

    `sample` is the option --networks of the run: how many were drawn of the subset; null for all.
    """

    benchmark: Name
    space: Name
    subset: Name
    sample: Count | None = None
    networks: Count
    train: Annotated[float, Field(gt=0, lt=1), FieldRule("a number between 0 and 1")]
    split_seed: Annotated[int, Field(ge=0, lt=2**63), FieldRule("an integer from 0 to 2**63 - 1")]


class Found(JSONDocument):
    """The run that found a proxy, and the splits whose training parts it was evolved on."""

    run: Name
    space: Name
    benchmark: Name
    label: Name
    datasets: list[Name]
    seed: Annotated[int, Field(ge=0, le=2**64), FieldRule(f"an integer from 0 to {2**64}")]
    weights: Annotated[str, Field(pattern="^(fresh|shared)$")] = "fresh"  # of those networks
    evolved_on: list[Split] = Field(default_factory=list)

    def includes(self, space: str) -> bool:
        """Return whether the proxy was found on this space, possibly among others."""
        return space in self.space.split(", ")


class ProxyFile(JSONDocument):
    """A proxy; `taus` maps a part of the split to dataset -> tau, null for none."""

    version: int
    expression: str
    hash: str
    formula: str
    found: Found
    taus: dict[Name, dict[Name, Tau | None]]


@dataclass(frozen=True)
class ProxyRecord:
    """The content of a proxy file, apart from its version and hash."""

    expression: str
    formula: str
    found: Found
    taus: Taus


def read_versioned(path: Path) -> JSONNode:
    """Read a file of a version that is known."""
    document = read_json(path)
    if validate_json(document, Version).version > VERSION:
        rule = f"must be at most {VERSION} for this autoprox: upgrade it to read this"
        raise document.at("version").error(rule)
    return document


def write_proxy(path: Path, record: ProxyRecord) -> None:
    """Write a proxy file."""
    tree = require_complete_proxy(parse_expression(record.expression))
    values = {**vars(record), "expression": str(tree), "hash": tree_digest(tree)}
    write_json(path, ProxyFile(version=VERSION, **values).model_dump(mode="json"))


def read_proxy(path: Path) -> ProxyFile:
    """Read a proxy file; all its fields are checked, and the hash against the expression."""
    document = read_versioned(path)
    proxy = validate_json(document, ProxyFile)
    try:
        tree = require_complete_proxy(parse_expression(proxy.expression))
    except AutoproxError as error:
        raise JSONFileError(f"{document.at('expression').place}: {error}") from error
    if proxy.hash != tree_digest(tree):
        raise document.at("hash").error(f"must be the expression's, {tree_digest(tree)}")
    return proxy
