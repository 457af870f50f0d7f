"""Wrong arguments of all commands and options: one line, and the exit code 2."""

import shlex
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


@pytest.mark.parametrize(
    "words",
    [
        "evolve --benchmark mine.json --zoo fifo --dry-run",
        "search --space autoformer-nano --proxy snip --data-dir fifo --dry-run",
        "search --space autoformer-nano --proxy snip --match-size= --dry-run",
        "search --space autoformer-nano --proxy snip --dataset= --dry-run",
        "bench build --space autoformer-nano --images few.npz --out file/below --dry-run",
        f"bench build --space autoformer-nano --images few.npz --out {'x' * 300} --dry-run",
        "export proxy snip --out=",
        "export arch arch.json --out=",
        "report file --out=",
        "cache --cache=",
        "cache --cache=file/below",
        "cache --clear --cache=file/below",
        "runs ''",
    ],
)
def test_what_once_was_taken_for_right(words: str) -> None:
    assert wrong_arguments.wrongly_told(shlex.split(words)) is None


def test_what_is_right_is_seen() -> None:
    right = ["rank", "--benchmark=mine.json", "--proxies=params", "--dry-run"]
    assert str(wrong_arguments.wrongly_told(right)).startswith("0, ''")
