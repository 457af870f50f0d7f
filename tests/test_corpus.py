"""Files that once brought a reader down, or were made to: each is read, or told in one line."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import fuzz_runs, fuzz_targets, fuzzing

CORPUS = Path(__file__).parent / "data" / "corpus"
NAMES = sorted(path.name for path in CORPUS.iterdir())


@pytest.fixture(scope="module")
def watch() -> fuzzing.Watch:
    return fuzzing.Watch(Path())


@pytest.fixture
def folder(tmp_path: Path, watch: fuzzing.Watch, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "inside").mkdir()
    (tmp_path / "outside").mkdir()
    monkeypatch.chdir(tmp_path / "inside")
    for variable in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    monkeypatch.delenv("AUTOPROX_DATA", raising=False)
    monkeypatch.setattr("autoprox.inputs.isolated_reading.READER_SECONDS", 3)
    watch.folder = os.getcwd()
    yield
    watch.on = False


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore")  # they are printed, and that is looked at
def test_a_hostile_file(name: str, folder: None, watch: fuzzing.Watch) -> None:
    target = fuzz_targets.TARGETS[name]()
    for content in target.seeds:
        assert fuzzing.judged(target, content, watch) is None
    for path in sorted((CORPUS / name).iterdir()):
        assert (path.name, fuzzing.judged(target, path.read_bytes(), watch)) == (path.name, None)


def test_every_reader_has_files_that_are_kept() -> None:
    assert fuzz_runs.looked_at
    assert set(NAMES) <= set(fuzz_targets.TARGETS)
