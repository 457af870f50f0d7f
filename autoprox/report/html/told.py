"""What a run tells a page: its files, read."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from autoprox.files.json_lines import JSONLines
from autoprox.files.located_json import read_object
from autoprox.runs.folder import CANDIDATES, COMMANDS, ENVIRONMENT, Run


@dataclass(frozen=True)
class Told:
    """A run that is read; an unfinished one has an empty summary."""

    run: Run
    kind: str
    config: Mapping[str, Any]
    environment: Mapping[str, Any]
    summary: Mapping[str, Any]

    @classmethod
    def of(cls, path: Path) -> "Told":
        """The run in a folder."""
        run = Run.open(path)
        environment = read_object(path / ENVIRONMENT)
        return cls(run, run.kind, run.read_config(), environment, run.read_summary() or {})

    @property
    def name(self) -> str:
        return self.run.name

    @property
    def command(self) -> str:
        """The command whose run it is."""
        return f"autoprox {COMMANDS.get(self.kind, self.kind)}"

    @property
    def finished(self) -> bool:
        return bool(self.summary)

    @cached_property
    def log(self) -> list[dict[str, Any]]:
        """The records of its log."""
        return self.run.read_log()

    @cached_property
    def candidates(self) -> list[dict[str, Any]]:
        """Those of a search, in the order in which they were measured."""
        return JSONLines(self.run.path / CANDIDATES).read()
