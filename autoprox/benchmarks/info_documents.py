"""Descriptions of built-in benchmarks and of their files, as `autoprox bench` prints them."""

from typing import Literal

from autoprox.files.json_documents import JSONDocument

FileStatus = Literal["absent", "changed", "installed", "unreadable"]


class BenchmarkFile(JSONDocument):
    """A file of a benchmark, and where it was found."""

    file: str
    space: str
    subset: str
    architectures: int
    bytes: int | None
    sha256: str
    status: FileStatus
    path: str | None


class FetchedFile(JSONDocument):
    """A file of a benchmark that was downloaded or already installed."""

    file: str
    path: str
    status: Literal["downloaded", "installed"]


class BenchmarkInfo(JSONDocument):
    """A built-in benchmark: its content, licence and source, and the state of its files."""

    name: str
    description: str
    spaces: list[str]
    labels: dict[str, dict[str, list[str]]]
    datasets: dict[str, int]
    subsets: dict[str, list[str]]
    architectures: int
    licence: str
    source: str
    reliability: dict[str, dict[str, float]]
    embedded: bool
    installed: bool
    folders: list[str]
    files: list[BenchmarkFile]
