"""Signals, closed streams and strange names, as the program meets them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.commands import Command
from helpers.tables import table

from autoprox.errors import printable

PROGRAM = [sys.executable, "-m", "autoprox"]
BUILD = [*PROGRAM, "bench", "build", "--space=autoformer-nano", "--images=some.npz", "--out=t.json"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    images = rng.integers(0, 255, (4000, 8, 8, 3), dtype=np.uint8)
    np.savez("some.npz", images=images, labels=np.arange(4000) % 3)
    return tmp_path


def begun(*arguments: str) -> subprocess.Popen[str]:
    """A build whose workers are at work."""
    options = ["--workers=2", "--samples=10", "--seeds=1", "--epochs=99", *arguments]
    process = listening([*BUILD, *options])
    while len(workers(process.pid)) < 2:
        assert process.poll() is None, process.communicate()
        time.sleep(0.2)
    time.sleep(2)
    return process


def listening(command: list[str]) -> subprocess.Popen[str]:
    """A process that an interrupt reaches, also where that of the tests ignores it."""
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def told(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What it says until its end, which is soon."""
    try:
        return process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise


def workers(parent: int) -> list[int]:
    """The processes of a parent that run loky's workers."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
            command = (status.parent / "cmdline").read_bytes()
        except OSError:
            continue
        if int(fields[1]) == parent and b"popen_loky" in command:
            found.append(int(status.parent.name))
    return found


def ended(processes: list[int], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(alive(process) for process in processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads processes from /proc")
@pytest.mark.parametrize(
    ("number", "code", "word"),
    [(signal.SIGTERM, 143, "terminated"), (signal.SIGINT, 130, "interrupted"), (9, -9, None)],
)
def test_a_build_that_is_stopped_leaves_no_worker(
    here: Path, number: int, code: int, word: str | None
) -> None:
    process = begun()
    children = workers(process.pid)
    if number == signal.SIGINT:  # a terminal interrupts the workers too
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    _, err = told(process)
    assert process.returncode == code
    if word:
        [run] = here.glob("runs/*")
        last = err.splitlines()[-1]
        assert last.startswith(f"{word}; `")
        assert last.endswith(f" -m autoprox resume runs/{run.name}` continues it")
        assert "Traceback" not in err
    assert ended(children, 20)


@pytest.mark.parametrize("seconds", [0.15, 0.3, 0.6, 1.2])
def test_an_interrupt_at_any_time(here: Path, seconds: float) -> None:
    """Also while it imports; before Python itself has begun, that is Python's to answer."""
    (here / "mine.json").write_text(json.dumps(table()))
    command = [*PROGRAM, "rank", "--benchmark=mine.json", "--seeds=50"]
    while True:
        process = listening(command)
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        out, err = told(process)
        if process.returncode != -signal.SIGINT and "site.py" not in err:
            break
        seconds *= 2
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1].startswith("interrupted")
    assert "Traceback" not in err


@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams(here: Path, closing: str) -> None:
    command = f"{sys.executable} -m autoprox bench list --json {closing}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0


def test_without_an_environment(here: Path) -> None:
    done = subprocess.run([*PROGRAM, "bench", "list"], env={}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_names_that_are_no_text(here: Path) -> None:
    name = os.fsdecode(b"caf\xe9.json")
    Path(name).write_text(json.dumps(table()))
    small = ["--population=4", "--iterations=1", "--batch-size=2", "--statistics=msa.weight"]
    command = [*PROGRAM, "evolve", "--benchmark", name, *small, "--cache=cache"]
    done = subprocess.run(command, capture_output=True)
    assert (done.returncode, done.stderr.count(b"Traceback")) == (0, 0)
    [run] = here.glob("runs/*")
    config = json.loads((run / "config.json").read_text())
    assert config["benchmark"] == str(here / name)


def hostile() -> dict[str, Any]:
    """A table with an escape sequence in a key."""
    content = table()
    return {**content, "\x1b[31mred": 1}


def test_escape_sequences_are_spelt_out(here: Path, run: Command) -> None:
    Path("mine.json").write_text(json.dumps(hostile()))
    told = run("evolve", "--benchmark", "mine.json")
    assert told.code == 2
    assert "\x1b" not in told.err
    assert r"unknown key \x1b[31mred" in told.err
    told = run("evolve", "--benchmark", "\x1b]0;title\x07.json")
    assert r"\x1b]0;title\x07.json" in told.err


def test_printable() -> None:
    assert printable("τ = 0.5\nnext\x9b1m\x1b[0m\r") == "τ = 0.5\nnext\\x9b1m\\x1b[0m\\r"
