"""Printed documents, and a file of runs, that no model of the package describes.

A key of a document that isn't in its model is an error of the test that runs every command.
"""

from autoprox.files.json_documents import Document


class File(Document):
    """A file of a benchmark."""

    file: str
    space: str
    subset: str
    architectures: int
    bytes: int | None
    sha256: str
    status: str
    path: str | None


class FetchedFile(Document):
    """A file of a benchmark that was downloaded, or was there."""

    file: str
    path: str
    status: str


class Info(Document):
    """`autoprox bench info`."""

    name: str
    description: str
    spaces: list[str]
    labels: dict[str, dict[str, list[str]]]
    datasets: dict[str, int]
    architectures: int
    licence: str
    source: str
    reliability: dict[str, dict[str, float]]
    embedded: bool
    installed: bool
    folders: list[str]
    files: list[File]


class Operation(Document):
    """An operation of the language."""

    name: str
    kind: str
    types: list[str]
    formula: str
    latex: str
    rule: str


class Report(Document):
    """`autoprox report`."""

    file: str
    format: str
    runs: list[str]


class Environment(Document):
    """`environment.json` of a run."""

    command: list[str]
    python: str
    packages: dict[str, str]
    platform: str
    instructions: str
    commit: str | None
    device: str
    threads: int
    read: dict[str, str]
    summary: str | None = None
    forced: list[list[str]] | None = None
