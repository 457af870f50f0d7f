"""What a search measured, a line for each, so that nothing is measured twice after a kill."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from autoprox.files.atomic import to_json
from autoprox.runs.folder import RunError


class Record:
    """A file of lines of JSON, read once from its begin, then written; without a path in memory.

    A last line that a kill left unfinished is cut off.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        content = path.read_bytes() if path is not None and path.exists() else b""
        whole = content[: content.rfind(b"\n") + 1]
        if path is not None and len(whole) < len(content):
            with path.open("r+b") as file:
                file.truncate(len(whole))
        self._lines = whole.splitlines()
        self._read = 0

    def next(self) -> dict[str, Any] | None:
        """The next line on record; None after the last."""
        if self._read == len(self._lines):
            return None
        self._read += 1
        try:
            value = json.loads(self._lines[self._read - 1])
        except ValueError as error:
            raise self.error(f"must be JSON, but {error}") from error
        if not isinstance(value, dict):
            raise self.error(f"must be an object, but is {value!r}")
        return value

    def append(self, line: Mapping[str, Any]) -> None:
        """Write a line at once."""
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(f"{to_json(line)}\n")

    def error(self, rule: str) -> RunError:
        """The error that the line last read breaks a rule."""
        return RunError(f"{self.path}:{self._read} {rule}")
