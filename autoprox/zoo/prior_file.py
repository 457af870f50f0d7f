"""The file of prior knowledge: power laws that order the networks of several tables well."""

from functools import cache
from pathlib import Path
from typing import Annotated

from pydantic import Field

from autoprox.files.json_documents import JSONDocument, read_json, validate_json

BOTH, VISION, LANGUAGE = "autoprox-1", "autoprox-1-vision", "autoprox-1-language"
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


class PriorGroup(JSONDocument):
    """The entry of all tables of a group, and for each table the entry without it."""

    every: PriorEntry
    without: list[EntryWithout]

    def entry(self, benchmark: str, space: str) -> PriorEntry:
        """Return the entry for a table: fitted without it, or on all tables for one that is new."""
        table = PriorTable(benchmark=benchmark, space=space)
        return next((own.entry for own in self.without if own.table == table), self.every)


class PriorFile(JSONDocument):
    """The ready-made proxies by their names: of all tables, of vision and of language.

    `vision` and `language` are the names of those that rank such tables best that they don't know.
    """

    groups: dict[str, PriorGroup]
    vision: str
    language: str


@cache
def read_prior_file() -> PriorFile:
    """Read the prior knowledge that comes with the package."""
    return validate_json(read_json(PRIOR_FILE), PriorFile)
