"""Wrong arguments of all commands and options: one line, and the exit code 2."""

from pathlib import Path

import pytest
import wrong_arguments

EVERY = 19  # of all that there are, which `wrong_arguments` tries


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    wrong_arguments.prepare(tmp_path)


def test_wrong_arguments() -> None:
    tried = list(wrong_arguments.wrong())
    assert len(tried) > 1000
    faults = {
        wrong_arguments.short(arguments): fault
        for arguments in tried[::EVERY]
        if (fault := wrong_arguments.wrongly_told(arguments))
    }
    assert faults == {}


def test_what_is_right_is_seen() -> None:
    right = ["rank", "--benchmark=mine.json", "--proxies=params", "--dry-run"]
    assert str(wrong_arguments.wrongly_told(right)).startswith("0, ''")
