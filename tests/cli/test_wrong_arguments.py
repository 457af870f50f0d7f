"""Wrong arguments of all commands and options: one line, and the exit code 2."""

import shlex
from pathlib import Path

import pytest
import wrong_arguments
from helpers.commands import Command

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
        "cache --cache=file/below",
        "cache --clear --cache=file/below",
    ],
)
def test_what_once_was_taken_for_right(words: str) -> None:
    assert wrong_arguments.wrongly_told(words.split()) is None


@pytest.mark.parametrize(
    "words",
    [
        "export proxy snip --out=",
        "export arch a --out=",
        "report a --out=",
        "cache --cache=",
        "runs ''",
    ],
)
def test_a_path_names_something(words: str, run: Command) -> None:
    told = run(*shlex.split(words))
    assert (told.code, told.err) == (2, "error: a path must name something, but got nothing\n")


def test_what_is_right_is_seen() -> None:
    right = ["rank", "--benchmark=mine.json", "--proxies=params", "--dry-run"]
    assert str(wrong_arguments.wrongly_told(right)).startswith("0, ''")
