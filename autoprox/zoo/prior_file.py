"""The file of prior knowledge: power laws that order the networks of several tables well."""

from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from autoprox.files.json_documents import JSONDocument, read_json, validate_json

PRIOR_FILE = Path(__file__).parent.parent / "data" / "prior.json"


class PriorTable(JSONDocument):
    """A table of networks, by its benchmark and space."""

    benchmark: str
    space: str

    def __str__(self) -> str:
        return f"{self.benchmark}: {self.space}"


class PriorEntry(JSONDocument):
    """A power law that was fitted on some tables together.

    `correlation` is the mean correlation with the true scores of a table that it had if it was
    fitted without that table.
    """

    tables: list[PriorTable]
    correlation: Annotated[float, Field(gt=0, lt=1)]
    expression: str


class EntryWithout(JSONDocument):
    """The entry that was fitted on all tables but one."""

    table: PriorTable
    entry: PriorEntry


class PriorFile(JSONDocument):
    """The entry of all tables, and for each table the entry without it."""

    every: PriorEntry
    without: list[EntryWithout]


@cache
def read_prior_file() -> PriorFile:
    """Read the prior knowledge that comes with the package."""
    return validate_json(read_json(PRIOR_FILE), PriorFile)


def prior_entry(benchmark: str, space: str) -> PriorEntry:
    """Return the entry for a table: fitted without it, or on all tables for one that is new."""
    file, table = read_prior_file(), PriorTable(benchmark=benchmark, space=space)
    return next((own.entry for own in file.without if own.table == table), file.every)
