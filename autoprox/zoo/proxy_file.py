"""A proxy as a JSON file: its expression, where it was found, and its measured taus."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoprox.errors import AutoproxError
from autoprox.files.atomic import write_json
from autoprox.files.located_json import JSONFileError, Node, read_json
from autoprox.language import digest, parse, require_network

VERSION = 1
FIELDS = ("version", "expression", "hash", "formula", "found", "taus")
FOUND_FIELDS = ("run", "space", "benchmark", "label", "datasets", "seed")


def write_proxy(path: Path, record: Mapping[str, Any]) -> None:
    """Write the `expression`, `formula`, `found` and `taus` of a record.

    `found` holds FOUND_FIELDS; `taus` maps a part of the split to dataset -> tau, null for none.
    The version and the hash are added here.
    """
    tree = require_network(parse(record["expression"]))
    given = {field: record[field] for field in ("formula", "found", "taus")}
    fixed = {"version": VERSION, "expression": str(tree), "hash": digest(tree)}
    write_json(path, fixed | given)


def read_proxy(path: Path) -> dict[str, Any]:
    """The record of a proxy file, all its fields checked, and the hash against the expression."""
    document = read_json(path)
    version = document.entries().get("version")
    if version is not None and version.integer(1, 10**9) > VERSION:
        raise version.error(f"must be at most {VERSION} for this autoprox: upgrade it to read this")
    fields = document.members(FIELDS)
    _check_expression(fields["expression"], fields["hash"])
    fields["formula"].string()
    _check_found(fields["found"])
    for part in fields["taus"].entries().values():
        for tau in part.entries().values():
            if tau.value is not None:
                tau.number(limit=1)
    record: dict[str, Any] = document.plain()
    return record


def _check_expression(expression: Node, given: Node) -> None:
    try:
        tree = require_network(parse(expression.string()))
    except JSONFileError:
        raise
    except AutoproxError as error:
        where = f"{expression.file}:{expression.line}: {expression.path}"
        raise JSONFileError(f"{where}: {error}") from error
    if given.string() != digest(tree):
        raise given.error(f"must be the expression's, {digest(tree)}")


def _check_found(found: Node) -> None:
    members = found.members(FOUND_FIELDS)
    for name in ("run", "space", "benchmark", "label"):
        members[name].string()
    for dataset in members["datasets"].items():
        dataset.string()
    members["seed"].integer(0, 2**64)
