"""Run folders: the files by which a run is read, compared and resumed."""

from __future__ import annotations

import errno
import hashlib
import os
import platform
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from difflib import get_close_matches
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, TypeVar

import torch
from filelock import FileLock, Timeout
from pydantic import Field

from autoprox.errors import RunError, one_line
from autoprox.files.atomic_writes import UNFINISHED, remove_unfinished_files, to_json, write_json
from autoprox.files.folder_checks import require_folder
from autoprox.files.json_documents import JSONDocument, PartialJSONDocument, read_object
from autoprox.files.json_lines import JSONLinesFile
from autoprox.runs.predictor_file import PredictorFile, write_predictor
from autoprox.runs.proxy_file import ProxyRecord, write_proxy

CONFIG = "config.json"
ENVIRONMENT = "environment.json"
LOG = "log.jsonl"
CANDIDATES = "candidates.jsonl"  # of a search
REPORT = "report.html"
CHECKPOINT = "checkpoint.json"
SUMMARY = "summary.json"
HALL_OF_FAME = "hall_of_fame"
COMMITTEE, PREDICTOR = "committee", "predictor"  # the names of files among the numbered ones
LOCK = ".lock"
COMMANDS = {  # of kinds that aren't named like their command
    "build": "bench build",
    "supernet-train": "supernet train",
    "supernet-eval": "supernet eval",
}

FORMAT = 3  # of a run's files; autoprox 0.2 recorded none
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,79}")
# Raised by values of wrong types, which a foreign run or one of another version may hold.
MISREAD = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
ABANDONED = 3600.0  # seconds after which no process can still be creating a run's folder
PACKAGES = ("autoprox", "torch", "numpy", "scipy", "deap", "sympy")


D = TypeVar("D", bound=JSONDocument)


class TimedLine(PartialJSONDocument):
    """The part that all lines of logs share."""

    seconds: Annotated[float, Field(ge=0, le=1e12, allow_inf_nan=False)]


class Environment(JSONDocument):
    """The environment of a result, besides its configuration."""

    command: list[str]
    python: str
    packages: dict[str, str]
    platform: str
    instructions: str
    commit: str | None
    device: str
    threads: int


class RunEnvironment(Environment):
    """The environment.json of a run."""

    read: Annotated[dict[str, str], Field(description="A digest of each thing that was read.")]
    summary: Annotated[str | None, Field(description="The digest of the summary.")] = None
    forced: Annotated[
        list[list[str]] | None,
        Field(description="What was different whenever the run was resumed by force."),
    ] = None


class Run:
    """A folder of config, environment, log, checkpoint, hall of fame and summary.

    `create` and `resume` hold the folder's lock until `close` or the end of the process; other runs
    are read-only. A kill at any moment leaves all files readable.
    """

    def __init__(self, path: Path, lock: FileLock | None = None) -> None:
        self.path = path
        self._lock = lock
        self._log = JSONLinesFile(path / LOG)

    @classmethod
    def create(
        cls,
        root: Path,
        name: str,
        config: Mapping[str, Any],
        device: str = "cpu",
        read: Mapping[str, str] | None = None,
    ) -> Run:
        """Create a folder `<UTC time>-<name>` below root, with a number added if that exists.

        `config` has the run's `kind`: the command that makes it. `read` has a digest of each thing
        that the run reads. The folder gets its name when it is complete.
        """
        require_name(name)
        require_folder("the folder of runs", root)
        to_json(config)
        root.mkdir(parents=True, exist_ok=True)
        stem = f"{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}-{name}"
        new = root / f".{stem}.{os.getpid()}{UNFINISHED}"
        _remove_abandoned(root)
        new.mkdir()
        try:
            lock = locked(new, name=f"{LOCK}{UNFINISHED}")
            os.rename(new / f"{LOCK}{UNFINISHED}", new / LOCK)  # which is held when it appears
            (new / LOG).touch()
            own = RunEnvironment(**dict(environment(device)), read=dict(read or {}))
            write_json(new / ENVIRONMENT, own.model_dump(exclude_unset=True))
            write_json(new / CONFIG, {"format": FORMAT, **config})
            path, number = new.with_name(stem), 1
            while True:
                try:
                    return cls(new.rename(path), lock)
                except OSError as error:  # the name is taken
                    if error.errno not in (errno.EEXIST, errno.ENOTEMPTY):
                        raise
                    number += 1
                    path = new.with_name(f"{stem}-{number}")
        except BaseException:
            shutil.rmtree(new)
            raise

    @classmethod
    def open(cls, path: Path, kind: str | None = None) -> Run:
        """Open an existing run to read it; it must be of this kind, if one is given."""
        if not path.is_dir():
            found, parent = "is a file" if path.exists() else "does not exist", path.parent
            names = [entry.name for entry in parent.iterdir()] if parent.is_dir() else []
            close = ", ".join(str(parent / name) for name in get_close_matches(path.name, names))
            nearest = f"; nearest: {close}" if close else ""
            raise RunError(f"a run must be a folder, but {path} {found}{nearest}")
        _require_files(path, (CONFIG,))
        if links := sorted(str(entry) for entry in path.rglob("*") if entry.is_symlink()):
            raise RunError(f"a run must hold files of its own, but {links[0]} is a link")
        run = cls(path)
        if (stored := read_object(path / CONFIG).get("format")) != FORMAT:
            made = "autoprox 0.2 or earlier" if stored is None else f"format {stored}"
            rule = f"a run must be of format {FORMAT}, but {path} is of {made}"
            raise RunError(f"{rule}: use the version of autoprox that made it, or make it again")
        if kind is not None and (found := run.kind) != kind:
            rule = f"a run of `autoprox {COMMANDS.get(kind, kind)}` is needed"
            raise RunError(f"{rule}, but {path} is one of `autoprox {COMMANDS.get(found, found)}`")
        return run

    @classmethod
    def resume(cls, path: Path, kind: str | None = None) -> Run:
        """Open an existing run to go on where it stopped."""
        run = cls(path, locked(cls.open(path, kind).path))
        _require_files(path, (CONFIG, ENVIRONMENT, LOG))
        remove_unfinished_files(path)
        return run

    def differences(self, read: Mapping[str, str]) -> list[str]:
        """Return what has changed since the run began, and may change its result.

        These are versions, the processor's instructions, and the digests of what is read.
        """
        then, now = read_object(self.path / ENVIRONMENT), environment("")
        pairs = [("instructions", then.get("instructions"), now.instructions)]
        for group, current in (("packages", now.packages), ("read", read)):
            known = then.get(group)
            if not isinstance(known, dict):
                rule = f"must be an object, but is {known!r}"
                raise RunError(f"{self.path / ENVIRONMENT}: {group} {rule}")
            pairs += [(name, known.get(name), value) for name, value in current.items()]
        return [  # digests by their beginnings
            f"{name} {str(was)[:16]}, now {str(is_)[:16]}" for name, was, is_ in pairs if was != is_
        ]

    def record_differences(self, differences: Sequence[str]) -> None:
        """Record what was different when the run was resumed by force."""
        self._require_lock()
        file = self.path / ENVIRONMENT
        known = read_object(file)
        write_json(file, {**known, "forced": [*known.get("forced", []), list(differences)]})

    @property
    def kind(self) -> str:
        """The kind of command that made the run."""
        kind = self.read_config().get("kind")
        if not isinstance(kind, str):
            raise RunError(f"{self.path / CONFIG} must say the kind of the run, but says {kind!r}")
        return kind

    @property
    def name(self) -> str:
        return self.path.absolute().name

    def log(self, record: Mapping[str, Any]) -> None:
        """Append one line."""
        self._require_lock()
        self._log.append(record)

    def read_log(self) -> list[dict[str, Any]]:
        """Return the records of all complete lines."""
        return self._log.read()

    def read_log_as(self, kind: type[D]) -> list[D]:
        """Return the documents of all complete lines."""
        return self._log.read_as(kind)

    def check_log(self) -> None:
        """Raise the error of the first invalid line."""
        self._log.read_as(TimedLine)

    def read_lines(self, part: str) -> list[dict[str, Any]]:
        """Return the lines of the log, or of the candidates or evaluations of a search."""
        if not self.has(part):
            raise RunError(f"{self.path}, a run of {self.kind}, has no {part}")
        return JSONLinesFile(self.path / f"{part}.jsonl").read()

    def has(self, part: str) -> bool:
        """Return whether the run has a file of these lines."""
        return (self.path / f"{part}.jsonl").exists()

    def truncate_log(self, count: int) -> None:
        """Keep this many lines, and remove what was logged after the checkpoint."""
        self._require_lock()
        self._log.truncate(count)

    def checkpoint(self, state: Mapping[str, Any]) -> None:
        """Replace the checkpoint, after writing the log to the disk."""
        self._require_lock()
        with (self.path / LOG).open("ab") as log:
            os.fsync(log.fileno())
        write_json(self.path / CHECKPOINT, {"sha256": digest_of(to_json(state)), "state": state})

    def read_checkpoint(self) -> dict[str, Any] | None:
        """Return the state of the last checkpoint; None before the first."""
        if (saved := self._read(CHECKPOINT)) is None:
            return None
        state = saved.get("state")
        with as_written(self.path / CHECKPOINT, "a checkpoint"):
            digest = digest_of(to_json(state))
        if not isinstance(state, dict) or saved.get("sha256") != digest:
            raise RunError(f"{self.path / CHECKPOINT} must stay as it was written, but was changed")
        return state

    def read_environment(self) -> dict[str, Any]:
        """Return versions, the command, and digests of what was read; nothing if not kept."""
        return self._read(ENVIRONMENT) or {}

    def read_config(self) -> dict[str, Any]:
        """Return the kind of the run and its options."""
        return {k: v for k, v in read_object(self.path / CONFIG).items() if k != "format"}

    def write_summary(self, summary: Mapping[str, Any]) -> None:
        self._require_lock()
        known = read_object(self.path / ENVIRONMENT)
        write_json(self.path / ENVIRONMENT, {**known, "summary": digest_of(to_json(summary))})
        write_json(self.path / SUMMARY, summary)

    def read_summary(self) -> dict[str, Any] | None:
        """Return the summary; None before the end of the run."""
        summary = self._read(SUMMARY)
        known = self.read_environment().get("summary")
        with as_written(self.path / SUMMARY, "a summary"):
            digest = digest_of(to_json(summary))
        if summary is not None and known not in (None, digest):
            raise RunError(f"{self.path / SUMMARY} must stay as it was written, but was changed")
        return summary

    def write_proxies(
        self, records: Sequence[ProxyRecord], committee: ProxyRecord | None = None
    ) -> None:
        """Replace the hall of fame by these records, best first (see `proxy_file`)."""
        self._require_lock()
        folder = self.path / HALL_OF_FAME
        folder.mkdir(exist_ok=True)
        for rank, record in enumerate(records, start=1):
            write_proxy(folder / f"{rank}.json", record)
        for path in folder.glob("*.json"):
            if path.stem.isdecimal() and int(path.stem) > len(records):
                path.unlink()
        if committee is not None:
            write_proxy(folder / f"{COMMITTEE}.json", committee)

    def write_predictor(self, predictor: PredictorFile) -> None:
        """Replace the predictor, next to the hall of fame."""
        self._require_lock()
        folder = self.path / HALL_OF_FAME
        folder.mkdir(exist_ok=True)
        write_predictor(folder / f"{PREDICTOR}.json", predictor)

    def close(self) -> None:
        """Release the folder."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self, name: str) -> dict[str, Any] | None:
        path = self.path / name
        return read_object(path) if path.exists() else None

    def _require_lock(self) -> None:
        if self._lock is None:
            raise RuntimeError(f"{self.path} is open to read only: use Run.create or Run.resume")


def environment(device: str) -> Environment:
    """Return the environment of this process."""
    program, *arguments = sys.argv
    return Environment(
        command=[Path(program).name, *arguments],
        python=platform.python_version(),
        packages={name: version(name) for name in PACKAGES},
        platform=platform.platform(),
        instructions=torch.backends.cpu.get_cpu_capability(),
        commit=_commit(),
        device=device,
        threads=torch.get_num_threads(),
    )


def rng_state(rng: random.Random) -> list[Any]:
    """Return the state of a generator as JSON values."""
    form, internal, gauss = rng.getstate()
    return [form, list(internal), gauss]


def restored_rng(state: Sequence[Any]) -> random.Random:
    """Return the generator of a state that `rng_state` returned."""
    rng = random.Random()
    try:
        form, internal, gauss = state
        rng.setstate((form, tuple(internal), gauss))
    except (TypeError, ValueError, OverflowError) as error:
        raise RunError(f"a generator's state must be one that was saved, but {error}") from error
    return rng


@contextmanager
def as_written(path: str | Path, content: str = "a run") -> Iterator[None]:
    """Turn errors of malformed values into a RunError; `--debug` shows which value it is."""
    try:
        yield
    except MISREAD as error:
        rule = f"{content} must hold what this version writes, but in {path} is another value"
        raise RunError(f"{rule}: {one_line(error)}") from error


def _require_files(path: Path, names: Sequence[str]) -> None:
    if missing := [name for name in names if not (path / name).is_file()]:
        lacks = f"{path} lacks {', '.join(missing)}"
        raise RunError(f"a run must hold {', '.join(names)}, but {lacks}")


def require_name(name: str) -> None:
    """Raise RunError unless the name of a run's folder may end with this."""
    if not NAME.fullmatch(name):
        rule = "a run's name must be 1 to 80 letters, digits and . _ + -"
        raise RunError(f"{rule}, the first a letter or digit, but got {name!r}")


def digest_of(text: str) -> str:
    """Return the sha256 of a text."""
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()


def _remove_abandoned(root: Path) -> None:
    """Remove the unnamed folders of killed processes; a living process holds its folder's lock."""
    for path in root.glob(f".*{UNFINISHED}"):
        with suppress(OSError, RunError):  # another process, or another user, may be writing it
            if (path / LOCK).exists():
                locked(path).release()
            elif time.time() - path.stat().st_mtime <= ABANDONED:
                continue
            shutil.rmtree(path)


def locked(path: Path, noun: str = "a run", name: str = LOCK) -> FileLock:
    """Lock a folder; the lock is released when the process ends, in whichever way."""
    lock = FileLock(path / name, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise RunError(f"{noun} has one writer, but another process is writing {path}") from None
    return lock


def _commit() -> str | None:
    """Return the commit of this code's checkout, if it is in one."""
    top = Path(__file__).parent.parent.parent
    if not (top / ".git").exists():
        return None
    command = ["git", "-C", str(top)]
    command += ["describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return result.stdout.strip()
