"""Every block of README and the documentation is run, or is plainly output."""

import glob
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.blocks import Block, blocks, indented
from helpers.commands import Command
from helpers.documented import BEFORE, OF_PUBLISHED, PYTHON, RULES, rule_of
from helpers.furnished import furnish
from jsonschema import Draft202012Validator
from pages.schemas import schemas

from autoprox import load_run, runner
from autoprox.nas.strategy_registry import SEARCH_STRATEGIES
from autoprox.report.terminal.evolve_report import evolve_report
from autoprox.report.terminal.layout import show
from autoprox.searchspaces import get_space

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TUTORIAL = ROOT / "docs" / "tutorial.md"
# Pages that end with a trained network: its classes, and its least and most parameters.
TRAINED = {TUTORIAL: (1000, 5e6, 7e6), ROOT / "docs" / "budget.md": (2, 2e4, 6e4)}
LANGUAGES = {"sh", "python", "json", "text"}


class ParsedError(Exception):
    """Options were read and are right; nothing was begun."""


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One cache for all pages."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the blocks are run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    # What a block registers, no other test shall see.
    monkeypatch.setattr(SEARCH_STRATEGIES, "_items", dict(SEARCH_STRATEGIES))
    furnish(tmp_path)
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_are_of_a_language_that_is_checked(page: Path) -> None:
    assert indented(page) == []
    assert {block.language for block in blocks(page)} <= LANGUAGES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_blocks_do_what_they_say(page: Path, run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {}
    for command in BEFORE.get(page.name, ()):
        tried(command, run, monkeypatch)
    for block in blocks(page):
        if block.language == "sh":
            for command in block.commands:
                tried(command, run, monkeypatch)
        elif block.language == "python":
            exec(compile(smaller(block), f"{page.name}:{block.line}", "exec"), names)
        elif block.language == "json":
            schema = schemas()[str(block.schema)]
            Draft202012Validator(schema).validate(json.loads(block.text))
    if page in TRAINED:
        classes, least, most = TRAINED[page]
        found = json.loads(Path("net/architecture.json").read_text())
        space = get_space(found["space"])
        assert least <= space.params(space.architecture(found["choices"]), classes) <= most
        assert Path("net/weights.pt").stat().st_size > 4 * least  # trained, and kept


def test_the_budget_leads_from_images_to_a_network_with_the_prior(
    run: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The table has the images' dataset, the committee is new to it, and the search uses it."""
    commands = [c for block in blocks(ROOT / "docs" / "budget.md") for c in block.commands]
    assert [command.split()[1] for command in commands[:4]] == [
        "bench",
        "evolve",
        "search",
        "export",
    ]
    for command in commands[:3]:
        tried(command, run, monkeypatch)
    evolved, searched = (load_run(next(Path("runs").glob(f"*-{n}"))) for n in ("budget", "picked"))
    assert evolved.summary.prior
    [fold] = evolved.summary.folds
    assert searched.summary.proxy == fold.committee
    assert searched.summary.inputs == "image folder: photos"
    show(*evolve_report(evolved.summary))
    assert "Half the width takes four times as many" in " ".join(capsys.readouterr().out.split())


def test_the_tutorial_has_six_commands() -> None:
    assert sum(len(block.commands) for block in blocks(TUTORIAL)) == 6


def tried(command: str, run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a command as its rule says."""
    rule = rule_of(command)
    words = expanded(f"{command} {rule.more}")
    if rule.how == "make":
        subprocess.run(["make", "-n", "-C", ROOT, *words[1:]], check=True, stdout=subprocess.PIPE)
    elif rule.how == "python":
        subprocess.run([sys.executable, *words[1:]], check=True, stdout=subprocess.PIPE)
    elif rule is OF_PUBLISHED and "AUTOPROX_DATA" not in os.environ:
        parsed(words[1:], run, monkeypatch)
    elif rule.how != "untried":
        result = run(*words[1:], *(["--dry-run"] if rule.how == "dry" else []))
        assert result.code == 0, f"{command}: {result.err}"


def parsed(words: list[str], run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command line read its options, and stop where the task would begin."""

    def instead(*_: Any, **__: Any) -> None:
        raise ParsedError("that will do")

    with monkeypatch.context() as patch:
        patch.setattr(runner, "start", instead)
        assert "ParsedError" in run(*words).err


def expanded(command: str) -> list[str]:
    """The words of a command, names of files filled in as a shell does."""
    found = []
    for word in shlex.split(command):
        matches = sorted(glob.glob(word)) if word.startswith("runs/") else []
        found += matches or [word]
    return found


def smaller(block: Block) -> str:
    """A Python block with little to do."""
    text = block.text
    for word, other in PYTHON.items():
        text = text.replace(word, other)
    return text


def test_no_replacement_is_idle() -> None:
    found = [block for page in PAGES for block in blocks(page)]
    commands = [c for block in found if block.language == "sh" for c in block.commands]
    commands += [command for page in BEFORE.values() for command in page]
    assert {rule_of(command) for command in commands} == set(RULES)
    python = "".join(block.text for block in found if block.language == "python")
    for word, other in PYTHON.items():
        assert word in python, word
        python = python.replace(word, other)


def test_a_command_without_a_rule_is_told() -> None:
    with pytest.raises(LookupError, match="must say how this is checked: rm"):
        rule_of("rm -r runs")


def test_a_block_that_is_wrong_is_told(
    folder: Path, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AssertionError, match="No such option: --nonsense"):
        tried("autoprox show snip --nonsense", run, monkeypatch)
    (folder / "page.md").write_text("text\n\n    indented\n")
    assert indented(folder / "page.md") == ["page.md:3"]
