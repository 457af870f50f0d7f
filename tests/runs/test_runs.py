"""Run folders: written, killed, resumed, and broken on purpose."""

import json
import math
import platform
import random
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from helpers.disks import full_disk
from helpers.records import proxy_record

from autoprox.errors import ConfigError, RunError
from autoprox.files.json_documents import JSONFileError
from autoprox.loaded_runs import load_run
from autoprox.runs.folder import Run, restored_rng, rng_state
from autoprox.runs.proxy_file import read_proxy

CONFIG = {"kind": "evolve", "space": "pit", "datasets": ("cifar100",), "seed": np.int64(3)}

WRITER = """
import itertools, pathlib, sys
from autoprox.runs.folder import Run
run = Run.create(pathlib.Path(sys.argv[1]), "killed", {})
print(run.path, flush=True)
for iteration in itertools.count(1):
    run.log({"iteration": iteration, "filler": "x" * 5000})
    run.checkpoint({"iteration": iteration, "filler": "x" * 5000})
    print(iteration, flush=True)
"""


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with Run.create(tmp_path / "runs", "test", CONFIG) as run:
        yield run


def test_a_run_is_named_by_utc_time_and_name(run: Run) -> None:
    assert re.fullmatch(r"\d{8}T\d{6}Z-test", run.name)
    assert run.path.parent.name == "runs"


def test_what_is_written_is_read(run: Run) -> None:
    run.write_summary({"expression": "x"})
    run.checkpoint({"iteration": 1})
    run.log({"iteration": 1, "jcm": np.float64(0.5)})
    reader = Run.open(run.path)
    assert reader.read_config() == {
        **{"kind": "evolve", "space": "pit"},
        **{"datasets": ["cifar100"], "seed": 3},
    }
    assert reader.read_summary() == {"expression": "x"}
    assert reader.read_checkpoint() == {"iteration": 1}
    assert reader.read_log() == [{"iteration": 1, "jcm": 0.5}]


def test_the_environment_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/autoprox", "evolve", "--seed", "3"])
    with Run.create(tmp_path, "test", CONFIG, device="cuda") as run:
        found = json.loads((run.path / "environment.json").read_text())
    assert found["command"] == ["autoprox", "evolve", "--seed", "3"]
    assert found["device"] == "cuda"
    assert found["python"] == platform.python_version()
    assert found["packages"]["numpy"] == np.__version__
    assert found["threads"] >= 1
    assert {"platform", "commit"} < set(found)


def test_runs_need_a_folder(tmp_path: Path) -> None:
    (file := tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=f"runs must be a folder, but {file} is a file"):
        Run.create(file, "test", CONFIG)


def test_runs_of_the_same_second_do_not_meet(tmp_path: Path) -> None:
    with ExitStack() as stack:
        created = [
            stack.enter_context(Run.create(tmp_path, "same", {"number": number}))
            for number in range(20)
        ]
    assert len({run.path for run in created}) == 20
    assert [run.read_config()["number"] for run in created] == list(range(20))


@pytest.mark.parametrize("name", ["", "../up", "a/b", ".hidden", "a b", "x" * 81])
def test_a_name_is_a_plain_word(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunError, match=r"must be 1 to 80 letters, digits"):
        Run.create(tmp_path, name, {})
    assert not list(tmp_path.iterdir())


def test_a_config_that_json_lacks_creates_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        Run.create(tmp_path / "runs", "test", {"margin": math.nan})
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_not_a_run_is_told_what_it_lacks(run: Run) -> None:
    (run.path / "config.json").unlink()
    with pytest.raises(RunError, match=r"must hold config.json, .* lacks config.json$"):
        Run.open(run.path)


def change_config(run: Run, **changed: object) -> None:
    content = json.loads((run.path / "config.json").read_text())
    kept = {name: own for name, own in (content | changed).items() if own is not None}
    (run.path / "config.json").write_text(json.dumps(kept))


@pytest.mark.parametrize(
    ("number", "made"), [(None, "autoprox 0.2 or earlier"), (2, "format 2"), (4, "format 4")]
)
def test_a_run_of_another_format_is_refused(run: Run, number: int | None, made: str) -> None:
    assert json.loads((run.path / "config.json").read_text())["format"] == 3
    change_config(run, format=number)
    rule = f"must be of format 3, but .* is of {made}: use the version of autoprox that made it"
    for opening in (Run.open, Run.resume, load_run):
        with pytest.raises(RunError, match=rule):
            opening(run.path)


@pytest.mark.parametrize("name", ["environment.json", "log.jsonl"])
def test_a_run_without_its_log_or_environment_is_read_and_not_resumed(run: Run, name: str) -> None:
    run.close()
    (run.path / name).unlink()
    loaded = load_run(run.path)
    assert (loaded.kind, loaded.finished, loaded.config["space"]) == ("evolve", False, "pit")
    assert loaded.environment == {} or name != "environment.json"
    assert loaded.log == []
    with pytest.raises(RunError, match=rf"must hold config.json, .* lacks {name}$"):
        Run.resume(run.path)


def test_an_absent_run_is_told_its_neighbours(run: Run) -> None:
    typo = run.path.with_name(run.name.replace("test", "tets"))
    with pytest.raises(RunError, match=rf"{typo.name} does not exist; nearest: .*{run.name}$"):
        Run.open(typo)


def test_a_file_is_not_a_run(run: Run) -> None:
    with pytest.raises(RunError, match=r"must be a folder, but .*config.json is a file"):
        Run.open(run.path / "config.json")


def test_a_reader_does_not_write(run: Run) -> None:
    reader = Run.open(run.path)
    with pytest.raises(RuntimeError, match="to read only"):
        reader.checkpoint({})
    assert reader.read_checkpoint() is None


def test_a_run_has_one_writer_at_a_time(run: Run) -> None:
    with pytest.raises(RunError, match="has one writer"):
        Run.resume(run.path)
    run.close()
    with Run.resume(run.path), pytest.raises(RunError, match="has one writer"):
        Run.resume(run.path)
    Run.resume(run.path).close()


def test_log_lines_after_the_checkpoint_are_cut(run: Run) -> None:
    for iteration in range(5):
        run.log({"iteration": iteration})
    with (run.path / "log.jsonl").open("ab") as file:
        file.write(b'{"iteration": 5, "jc')
    assert [line["iteration"] for line in run.read_log()] == [0, 1, 2, 3, 4]
    run.truncate_log(3)
    run.log({"iteration": "again"})
    assert [line["iteration"] for line in run.read_log()] == [0, 1, 2, "again"]


def test_a_log_shorter_than_its_checkpoint_is_refused(run: Run) -> None:
    run.log({})
    with pytest.raises(JSONFileError, match=r"must have 2 lines, but has 1"):
        run.truncate_log(2)


def test_a_damaged_log_line_is_named(run: Run) -> None:
    (run.path / "log.jsonl").write_text('{}\n{"a": \n{}\n')
    with pytest.raises(JSONFileError, match=r"log.jsonl:2 must be JSON"):
        run.read_log()


def test_a_killed_run_is_resumed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        path = Path(process.stdout.readline().strip())
        for _ in range(20):
            process.stdout.readline()
        with pytest.raises(RunError, match="another process"):
            Run.resume(path)
        process.send_signal(signal.SIGKILL)
        process.wait()
    with Run.resume(path) as run:
        state = run.read_checkpoint()
        assert state is not None
        done = state["iteration"]
        assert done >= 20
        run.truncate_log(done)
        run.log({"iteration": done + 1})
        assert [line["iteration"] for line in run.read_log()] == list(range(1, done + 2))


def test_a_full_disk_keeps_what_was_written(run: Run) -> None:
    run.log({"iteration": 1})
    run.checkpoint({"iteration": 1})
    with full_disk(room=4000):
        with pytest.raises(OSError, match="File too large"):
            run.checkpoint({"filler": "x" * 9000})
        with pytest.raises(OSError, match="File too large"):
            run.log({"filler": "x" * 9000})
    run.close()
    with Run.resume(run.path) as resumed:
        assert resumed.read_checkpoint() == {"iteration": 1}
        assert resumed.read_log() == [{"iteration": 1}]


def test_the_hall_of_fame_is_replaced_and_keeps_its_order(run: Run) -> None:
    def formulas() -> dict[str, str]:
        """Those of the files, by rank."""
        paths = sorted((run.path / "hall_of_fame").iterdir(), key=lambda path: int(path.stem))
        return {path.name: read_proxy(path).formula for path in paths}

    run.write_proxies([proxy_record(formula=str(rank)) for rank in range(12)])
    assert formulas() == {f"{rank + 1}.json": str(rank) for rank in range(12)}
    run.write_proxies([proxy_record(formula="best"), proxy_record(formula="second")])
    assert formulas() == {"1.json": "best", "2.json": "second"}


def test_a_generator_goes_on_from_its_saved_state() -> None:
    rng = random.Random(5)
    rng.gauss(0, 1)
    state = json.loads(json.dumps(rng_state(rng)))
    expected = [rng.gauss(0, 1), rng.random(), rng.randrange(10**30)]
    again = restored_rng(state)
    assert [again.gauss(0, 1), again.random(), again.randrange(10**30)] == expected


@pytest.mark.parametrize("state", [[], [3, [1, 2], None], [3, ["x"] * 625, None], [3, None, None]])
def test_a_damaged_generator_state_is_refused(state: list[object]) -> None:
    with pytest.raises(RunError, match="a generator's state must be one that was saved"):
        restored_rng(state)
