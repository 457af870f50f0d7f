"""The commands that are printed for users to paste."""

import os
import sys
from pathlib import Path

import pytest

from autoprox.files.rerun_command import rerun_command_line


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The program in a virtual environment below the current folder."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / ".venv/bin/autoprox"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_by_its_name_where_the_shell_finds_it(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}/usr/bin")
    monkeypatch.setattr(sys, "argv", [str(program), "evolve"])
    assert rerun_command_line("show", Path("runs/my run")) == "autoprox show 'runs/my run'"


def test_by_its_path_where_the_shell_finds_none_or_another(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [str(program), "evolve"])
    monkeypatch.setenv("PATH", "/nowhere")
    assert rerun_command_line("show", "r") == ".venv/bin/autoprox show r"
    other = program.parent.parent.parent / "other" / "autoprox"
    other.parent.mkdir()
    other.write_bytes(program.read_bytes())
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    assert rerun_command_line("show", "r") == ".venv/bin/autoprox show r"


def test_as_a_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/autoprox/__main__.py"])
    assert rerun_command_line("runs").endswith(f"{Path(sys.executable).name} -m autoprox runs")
