"""A run is data: what comes with it is neither called nor followed, and must be what it was."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.commands import Command
from helpers.tables import table

from autoprox.configurations.commands import EvolveConfig, SearchConfig
from autoprox.errors import AutoproxError, RunError
from autoprox.files.atomic_writes import write_json
from autoprox.runner import resume_run, start
from autoprox.runs.folder import Run, locked

EVIL = """
from pathlib import Path
Path("called").touch()
def worth(architecture):
    return 1.0
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_json(tmp_path / "mine.json", table())
    return tmp_path


class StopError(Exception):
    """Stops a run, as a kill would."""


def stopped(config: Any, begins: str) -> Path:
    """A run that ended when its task of this name began."""
    place: list[str] = []

    def stop(task: str, done: int, total: int, note: str) -> None:
        place.append(note)
        if task.startswith(begins) and done:
            raise StopError

    with pytest.raises(StopError):
        start(config, stop)
    return Path(place[0])


def evolution(**changed: Any) -> EvolveConfig:
    small = {"population": 6, "iterations": 3, "batch_size": 2, "statistics": ("msa.weight",)}
    return EvolveConfig(benchmark="mine.json", cache="cache", **{**small, **changed})


def test_a_function_is_called_only_if_it_is_named_again(here: Path) -> None:
    (here / "foreign.py").write_text(EVIL)
    small = {"samples": 4, "top": 2, "batch_size": 2, "proxy": "l2_norm"}
    config = SearchConfig(space="autoformer-nano", **small)
    path = stopped(config, "search")
    write_json(path / "config.json", {**read(path / "config.json"), "evaluator": "foreign:worth"})
    rule = "would call foreign:worth, which must be named again: .* --evaluator foreign:worth`"
    with pytest.raises(AutoproxError, match=rule):
        resume_run(path)
    assert not Path("called").exists()
    assert resume_run(path, evaluator="foreign:worth").top
    assert Path("called").exists()


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content


@pytest.mark.parametrize("name", ["log.jsonl", "hall_of_fame", "config.json"])
def test_no_link_is_followed(here: Path, name: str) -> None:
    path = stopped(evolution(), "evolve")
    outside = here / "outside"
    outside.mkdir()
    target = outside / "thesis.tex"
    target.write_text("years of work")
    (path / name).unlink(missing_ok=True)
    (path / name).symlink_to(outside if name == "hall_of_fame" else target)
    with pytest.raises(RunError, match=f"must hold files of its own, but .*{name} is a link"):
        resume_run(path)
    assert target.read_text() == "years of work"
    assert os.listdir(outside) == ["thesis.tex"]


def edit_scores(run: Path) -> None:
    content = table()
    content["architectures"][0]["scores"]["wide"] += 1e-9
    write_json(Path("mine.json"), content)


def edit_version(run: Path) -> None:
    known = read(run / "environment.json")
    packages = {**known["packages"], "torch": "1.0"}
    write_json(run / "environment.json", {**known, "packages": packages})


def edit_instructions(run: Path) -> None:
    write_json(run / "environment.json", {**read(run / "environment.json"), "instructions": "Z80"})


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (edit_scores, "benchmark [0-9a-f]{16}, now [0-9a-f]{16}"),
        (edit_version, "torch 1.0, now 2"),
        (edit_instructions, "instructions Z80, now "),
    ],
)
def test_what_a_run_reads_must_be_what_it_was(
    here: Path, edit: Callable[[Path], None], told: str
) -> None:
    path = stopped(evolution(), "evolve")
    edit(path)
    with pytest.raises(RunError, match=f"{told}.*`autoprox resume {path} --force` continues it"):
        resume_run(path)
    resume_run(path, force=True)
    [[difference, *_]] = read(path / "environment.json")["forced"]
    assert difference.split()[0] in told


def test_a_run_goes_on_from_another_folder(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = start(evolution())
    path = stopped(evolution(), "evolve").absolute()
    (here / "elsewhere").mkdir()
    monkeypatch.chdir(here / "elsewhere")
    other = table()
    other["architectures"].reverse()
    write_json(Path("mine.json"), other)  # of the same name, and not the run's
    assert resume_run(path).expression == whole.expression


@pytest.mark.parametrize("change", [{"lines": 9}, {"seconds": 7}, {"islands": []}])
def test_an_edited_checkpoint_is_told(here: Path, change: dict[str, Any]) -> None:
    path = stopped(evolution(), "evolve")
    saved = read(path / "checkpoint.json")
    write_json(path / "checkpoint.json", {**saved, "state": {**saved["state"], **change}})
    with pytest.raises(RunError, match=r"checkpoint.json must stay as it was written, but was"):
        resume_run(path)


def test_leftovers_of_kills_are_removed(tmp_path: Path) -> None:
    abandoned = tmp_path / ".old.part"
    abandoned.mkdir()
    os.utime(abandoned, (0, 0))
    young = tmp_path / ".young.part"
    young.mkdir()
    made = tmp_path / ".made.part"
    made.mkdir()
    with locked(made), Run.create(tmp_path, "mine", {"kind": "evolve"}) as run:
        (run.path / "hall_of_fame").mkdir()
        for name in (".checkpoint.json.1-2.part", "hall_of_fame/.1.json.1-2.part"):
            (run.path / name).write_text("{")
    with Run.resume(run.path):
        assert not list(run.path.rglob("*.part"))
    left = sorted(p.name for p in tmp_path.iterdir())
    assert left == [".made.part", ".young.part", run.path.name]


def test_a_run_is_locked_from_its_beginning(tmp_path: Path) -> None:
    with Run.create(tmp_path, "mine", {"kind": "evolve"}) as run:
        assert [path.name for path in run.path.glob(".*")] == [".lock"]
        with pytest.raises(RunError, match="another process is writing"):
            Run.resume(run.path)
    with Run.resume(run.path):
        pass


def test_a_run_has_its_name_when_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before: nothing but a hidden folder is left."""
    monkeypatch.setattr(Path, "rename", lambda *_: os._exit(9))
    if (child := os.fork()) == 0:
        Run.create(tmp_path, "mine", {"kind": "evolve"})
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert [path.name[0] for path in tmp_path.iterdir()] == ["."]
    monkeypatch.undo()
    with Run.create(tmp_path, "mine", {"kind": "evolve"}) as run:
        assert list(tmp_path.iterdir()) == [run.path]


def test_the_command_resumes_by_force(here: Path, run: Command) -> None:
    path = stopped(evolution(), "evolve")
    edit_scores(path)
    refused = run("resume", str(path))
    assert (refused.code, refused.out) == (2, "")
    assert refused.err.count("\n") == 1
    assert run("resume", str(path), "--force").code == 0
