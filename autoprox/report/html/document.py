"""Shim."""

from collections.abc import Sequence
from pathlib import Path

from autoprox.files.atomic import write_text
from autoprox.runs.folder import REPORT


def write_page(path: Path) -> Path:
    """Write the page of a finished run into its folder."""
    write_text(path / REPORT, page_of([path]))
    return path / REPORT


def page_of(paths: Sequence[Path]) -> str:
    return "<!DOCTYPE html>"
