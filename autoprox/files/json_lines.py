"""Files of JSON objects, one on a line: the logs of runs, and what a search has measured."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from autoprox.files.atomic_writes import json_line
from autoprox.files.json_documents import (
    MAX_NESTING,
    JSONDocument,
    JSONFileError,
    PartialJSONDocument,
    parse_json,
    validate_json,
)

T = TypeVar("T")
LARGEST_LOG = 2**29  # bytes; hundreds of times those of long runs


class JSONLinesFile:
    """A file that grows by lines; a last line that a kill left unfinished doesn't count."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, line: Mapping[str, Any]) -> None:
        with self.path.open("ab") as file:
            file.write(json_line(line))

    def read(self) -> list[dict[str, Any]]:
        """Read all complete lines; none if there is no file."""
        return [self.parse(number, line) for number, line in enumerate(self.lines(), start=1)]

    def read_as(self, kind: type[T]) -> list[T]:
        """Read all complete lines, each of which must be such a document."""
        return [
            validate_json(parse_json(line, f"{self.path}:{number}"), kind)
            for number, line in enumerate(self.lines(), start=1)
        ]

    def lines(self) -> list[bytes]:
        """Return the text of all complete lines."""
        if not self.path.exists():
            return []
        if not self.path.is_file() or self.path.stat().st_size > LARGEST_LOG:
            raise JSONFileError(f"{self.path} must be a file of at most {LARGEST_LOG} bytes")
        return self.path.read_bytes().split(b"\n")[:-1]

    def parse(self, number: int, line: bytes) -> dict[str, Any]:
        """Return the object on a line."""
        try:
            if line.count(b"[") + line.count(b"{") > MAX_NESTING:
                parse_json(line, f"{self.path}:{number}")  # which is slow, but has limits
            value = json.loads(line)
        except ValueError as error:
            raise self.error(number, f"must be JSON, but {error}") from error
        if not isinstance(value, dict):
            raise self.error(number, f"must be an object, but is {value!r}")
        return value

    def truncate(self, count: int) -> None:
        """Keep the first `count` lines and cut off the others."""
        lines = self.lines()
        if len(lines) < count:
            raise JSONFileError(f"{self.path} must have {count} lines, but has {len(lines)}")
        if self.path.exists():
            os.truncate(self.path, sum(len(line) + 1 for line in lines[:count]))

    def error(self, number: int, rule: str) -> JSONFileError:
        """Return the error that a line breaks a rule."""
        return JSONFileError(f"{self.path}:{number} {rule}")


class ReplayJournal:
    """Lines, each a document of a kind, that are first replayed and then written.

    Without a path there is nothing to replay, and nothing is written.
    """

    def __init__(
        self, path: Path | None = None, kind: type[JSONDocument] = PartialJSONDocument
    ) -> None:
        self._file = None if path is None else JSONLinesFile(path)
        self._lines: list[bytes] = []
        self._read = 0
        if self._file is not None:
            self._file.read_as(kind)
            self._lines = self._file.lines()
            self._file.truncate(len(self._lines))

    def next(self) -> dict[str, Any] | None:
        """Return the next line; None after the last."""
        if self._file is None or self._read == len(self._lines):
            return None
        self._read += 1
        return self._file.parse(self._read, self._lines[self._read - 1])

    def append(self, line: Mapping[str, Any]) -> None:
        if self._file is not None:
            self._file.append(line)

    def error(self, rule: str) -> JSONFileError:
        """Return the error that the line last read breaks a rule."""
        if self._file is None:
            raise RuntimeError("a record without a file has no lines that could be wrong")
        return self._file.error(self._read, rule)
