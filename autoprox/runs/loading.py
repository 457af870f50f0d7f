"""A run of any kind as an object, to look at in Python."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoprox.errors import ConfigError, RunError, nearest
from autoprox.export import latex
from autoprox.files.data_frames import to_frame
from autoprox.files.json_documents import read_object
from autoprox.files.json_lines import JSONLines
from autoprox.language import parse
from autoprox.runs.folder import ENVIRONMENT, LOG, Run, as_written
from autoprox.runs.overview import overview

if TYPE_CHECKING:
    import pandas

FILES = {"log": LOG, "candidates": "candidates.jsonl", "evaluations": "evaluations.jsonl"}
PARTS = (*FILES, "table")


class LoadedRun:
    """What a run's folder says; one that goes on is read as it is now."""

    def __init__(self, path: Path) -> None:
        self._run = Run.open(path)
        self.path = path
        self.kind = self._run.kind
        self.config = self._run.read_config()
        self.summary = self._run.read_summary()  # None before the end

    @property
    def environment(self) -> dict[str, Any]:
        """Versions, the command, and what was read."""
        return read_object(self.path / ENVIRONMENT)

    def records(self, part: str = "log") -> list[dict[str, Any]]:
        """The lines of the log, the candidates or the evaluations, or the rows of the table."""
        if part not in PARTS:
            raise ConfigError(f"unknown part of a run {part!r}{nearest(part, PARTS)}")
        if part == "table":
            with as_written(self.path):
                return self._rows(self.summary or {})
        file = self.path / FILES[part]
        if not file.exists():
            raise RunError(f"{self.path}, a run of {self.kind}, has no {part}")
        return JSONLines(file).read()

    def to_pandas(self, part: str = "log") -> pandas.DataFrame:
        """The same as a data frame; pandas must be installed."""
        return to_frame(self.records(part))

    def _rows(self, summary: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What the summary tabulates: rows of proxies or rounds, the best, or the front."""
        for name in ("rows", "top", "front", "subnets", "preferred", "rounds"):
            if isinstance(found := summary.get(name), Sequence) and found:
                return [dict(row) for row in found]
        raise RunError(f"{self.path}, a run of {self.kind}, has no table, or none yet")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.path}>"

    def _repr_html_(self) -> str:
        return facts_html(overview(self._run))

    def _repr_latex_(self) -> str | None:
        return formula_latex(self.summary or {})


def load(path: str | PathLike[str]) -> LoadedRun:
    """The run in a folder."""
    return LoadedRun(Path(path))


def facts_html(facts: Mapping[str, Any]) -> str:
    """A table of two columns, for a notebook; what is unknown is left out."""
    rows = "".join(
        f"<tr><th>{html.escape(name)}</th><td>{html.escape(_shown(value))}</td></tr>"
        for name, value in facts.items()
        if value is not None
    )
    return f"<table>{rows}</table>"


def formula_latex(summary: Mapping[str, Any]) -> str | None:
    """The formula that was found, for a notebook; None where there is none."""
    text = summary.get("expression")
    return f"${latex(parse(text))}$" if isinstance(text, str) else None


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
