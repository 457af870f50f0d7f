"""The documents of show, runs, bench list, info and fetch, and of files that runs keep."""

from typing import Any

from pydantic import Field, RootModel

from autoprox.files.json_documents import Document
from autoprox.runs.overview import Overview
from autoprox.runs.proxy_file import Split

from .worth import MeanParts, Number, SizeCheck


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


class Fetched(RootModel[list[File]]):
    """`autoprox bench fetch`."""


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


class Benchmarks(RootModel[list[Info]]):
    """`autoprox bench list`."""


class FoundAt(Document):
    """Where a proxy was found."""

    run: str
    space: str
    benchmark: str
    label: str
    datasets: list[str]
    seed: int
    evolved_on: list[Split] = Field(default_factory=list)


class ShowExpression(Document):
    """`autoprox show` of an expression, a run or a proxy file."""

    expression: str
    formula: str
    latex: str
    type: str
    size: int
    depth: int
    hash: str
    reads: list[str]
    passes: dict[str, str]
    choices_alone: bool
    citation: str | None
    found: FoundAt | None
    taus: dict[str, dict[str, Number]] | None
    size_check: dict[str, SizeCheck] | None = None
    means: dict[str, MeanParts] | None = None
    seed_share: Number = None


class ShowFunction(Document):
    """`autoprox show` of a function of the zoo."""

    formula: str
    rule: str
    passes: str
    citation: str


class Show(RootModel[ShowExpression | ShowFunction]):
    """`autoprox show PROXY`."""


class Runs(RootModel[list[Overview]]):
    """`autoprox runs`."""


class Glance(Document):
    """A proxy or a run, one of several."""

    name: str
    run: str | None = None
    kind: str | None = None
    benchmark: str | None = None
    space: str | None = None
    seed: int | None = None
    fitness: Number = None
    test: Number = None
    seconds: Number = None
    begun: str | None = None
    ended: bool | None = None
    settings: dict[str, Any] | None = None
    expression: str | None = None
    formula: str | None = None
    nodes: int | None = None
    depth: int | None = None


class ShowSeveral(RootModel[list[Glance]]):
    """`autoprox show PROXY PROXY`."""


class Numbered(Document):
    """A formula of a run, by its number."""

    number: int
    size: int
    train: Number
    test: Number
    expression: str


class ShowAll(RootModel[list[Numbered]]):
    """`autoprox show RUN --all`."""


class Operation(Document):
    """An operation of the language."""

    name: str
    kind: str
    types: list[str]
    formula: str
    latex: str
    rule: str


class ShowOperations(RootModel[list[Operation]]):
    """`autoprox show --operations`."""


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
