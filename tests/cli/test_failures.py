"""What is printed of a failure, and the exit code."""

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from helpers.commands import Command

from autoprox import cli, runner
from autoprox.configurations.commands import EvolveConfig
from autoprox.errors import AutoproxError, MeasurementError


def stopped_by(error: BaseException) -> Callable[..., Any]:
    """A discovery that makes its folder and then fails."""

    def start(config: EvolveConfig, progress: Any, **_: Any) -> None:
        progress("run", 0, 0, "runs/mine")
        raise error

    return start


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (KeyboardInterrupt(), 130, "interrupted; `autoprox resume runs/mine` continues it"),
        (
            OSError(28, "No space left on device", "runs/mine/log.jsonl"),
            1,
            "error: No space left on device: runs/mine/log.jsonl; "
            "`autoprox resume runs/mine` continues it",
        ),
        (
            MemoryError(),
            1,
            "error: out of memory: `autoprox resume runs/mine` continues it with more memory",
        ),
        (
            RuntimeError("DefaultCPUAllocator: not enough memory: you tried\nto"),
            1,
            "error: out of memory: `autoprox resume runs/mine` continues it with more memory",
        ),
        (RuntimeError("a bug"), 1, "error: RuntimeError: a bug (--debug shows where)"),
        (MeasurementError("too many failed"), 1, "error: too many failed"),
        (AutoproxError("no such thing"), 2, "error: no such thing"),
        (ZeroDivisionError("by 0"), 1, "error: ZeroDivisionError: by 0 (--debug shows where)"),
    ],
)
def test_failure(
    error: BaseException, code: int, message: str, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "start", stopped_by(error))
    assert run("evolve") == (code, "", f"run  runs/mine\n{message}\n")


def test_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "start", stopped_by(ZeroDivisionError("by 0")))
    with pytest.raises(ZeroDivisionError, match="by 0"):
        cli.main(["evolve", "--debug"])


def test_reader_that_goes_away() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "autoprox", "bench", "--help"]
    process = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    os.close(writing)
    assert (process.returncode, process.stderr) == (1, b"")
