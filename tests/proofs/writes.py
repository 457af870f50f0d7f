"""Proves that every single write of a run may fail, and the run go on to the same end.

    python tests/proofs/writes.py --out writes.json [--only CASE,...] [--every 1]

A write is an opening of a file to write, a write into it, an fsync, a replacement, a renaming, a
cut, a new folder. In process, the n-th of them fails with no space, no permission or an error of
the device in turn, for all n of each case: the command must end with one line and 1, what is there
must be whole, and the run, or the command where there is none, must lead to the same files.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import crash
import proving

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.images import save_images
from helpers.tables import table

from autoprox import cli
from autoprox.commands import rediscover
from autoprox.commands.rediscover import NetworkSample
from autoprox.searchspaces import SearchSpace, get_space

ERRORS = (errno.ENOSPC, errno.EACCES, errno.EIO)
NAMED = ("fsync", "replace", "rename", "mkdir", "truncate")  # functions of os
SEARCH = "search --space autoformer-nano --dataset cifar10 --weights inherited --proxy snip"
NANO = "--space autoformer-nano"
CASES: Mapping[str, str] = {
    "evolve": "evolve --benchmark {ready}/mine.json --iterations 1 --population 4 --batch-size 2 "
    "--zoo none --statistics msa.weight",
    "rank": "rank --proxies sum(width),params --benchmark {ready}/mine.json",
    "search": f"{SEARCH} --samples 3 --batch-size 2",
    "rediscover": "rediscover rank(sum(log(width))) --cache {ready}/cache",
    "build": f"bench build {NANO} --images {{ready}}/few.npz --samples 10 --seeds 1 --epochs 1 "
    "--out table.json --workers 1",
    "prenas": f"prenas {NANO} --sizes 20K:40K:20K --noise 2",
}  # fmt: skip


class Disk:
    """Counts the writes, of which one fails."""

    def __init__(self, failing: int = 0, number: int = errno.ENOSPC) -> None:
        self.count, self._failing, self._number = 0, failing, number
        self.reason, self.failed = os.strerror(number), ""

    def about_to(self, what: str) -> None:
        """Count a write, and fail where it is its turn."""
        self.count += 1
        if self.count == self._failing:
            self.failed = what
            raise OSError(self._number, self.reason)

    def named(self, name: str) -> Callable[..., Any]:
        """A function of os, which counts."""
        call = getattr(os, name)

        def counted(*arguments: Any, **options: Any) -> Any:
            if name != "mkdir" or not os.path.isdir(arguments[0]):  # which writes nothing
                self.about_to(name)
            return call(*arguments, **options)

        return counted

    def open(self, file: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        """As `open`, which counts where it is to write; so does what it returns."""
        if not set(mode) & set("wax+"):
            return open(file, mode, *arguments, **options)
        self.about_to("open")
        return Writing(open(file, mode, *arguments, **options), self)

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Every write goes through this disk."""
        with contextlib.ExitStack() as stack:
            for name in NAMED:
                stack.enter_context(patch.object(os, name, self.named(name)))
            stack.enter_context(patch.object(io, "open", self.open))  # which pathlib calls
            yield


class Writing:
    """A file, whose writes count."""

    def __init__(self, file: Any, disk: Disk) -> None:
        self._file, self._disk = file, disk

    def write(self, content: Any) -> Any:
        self._disk.about_to("write")
        return self._file.write(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __iter__(self) -> Any:
        return iter(self._file)

    def __enter__(self) -> Writing:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def main() -> int:
    """Do the cases that aren't in the result, and show the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("/tmp/prove-writes"))
    parser.add_argument("--only", default="")
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    found = json.loads(given.out.read_text()) if given.out.exists() else {}
    prepare(given.work / "ready")
    for case in given.only.split(",") if given.only else CASES:
        if case not in found:
            found[case] = tried(case, given.work, range(1, 10**6, given.every))
            print(case, found[case], file=sys.stderr, flush=True)
            given.out.write_text(json.dumps(found, indent=1) + "\n")
    return int(any(own["faults"] for own in found.values()))


def prepare(ready: Path) -> None:
    """What the cases read."""
    ready.mkdir(parents=True, exist_ok=True)
    save_images(ready / "few.npz", count=40)
    (ready / "mine.json").write_text(json.dumps(table()))


def tried(case: str, work: Path, numbers: Sequence[int]) -> dict[str, Any]:
    """How many writes a case has, and the faults where those of these numbers failed."""
    command = [*CASES[case].format(ready=work / "ready").split(), "--quiet"]
    done(command, whole := proving.empty(work / "whole"), Disk())  # with what it keeps for later
    disk = Disk()
    code, err = done(command, proving.empty(whole), disk)
    if code:
        raise RuntimeError(f"{case}: {err}")
    expected, faults = proving.contents(whole), []
    chosen = [number for number in numbers if number <= disk.count]
    for number in chosen:
        folder = proving.empty(work / "failing")
        failing = Disk(number, ERRORS[number % len(ERRORS)])
        for fault in one_failure(command, folder, failing, expected):
            faults.append(f"{number} {failing.failed}: {fault}")
    return {"writes": disk.count, "failed": len(chosen), "faults": faults}


def one_failure(
    command: Sequence[str], folder: Path, disk: Disk, expected: Mapping[str, Any]
) -> Iterator[str]:
    """What is wrong after one write failed."""
    code, err = done(command, folder, disk)
    lines = err.splitlines()
    if code != 1 or len(lines) != 1 or not lines[0].startswith(f"error: {disk.reason}"):
        yield f"ends with {code}, and says {err[-300:]!r}"
    yield from crash.torn(folder)
    yield from (f"left: {path.name}" for path in folder.rglob("*.part"))
    run = proving.run_of(folder)
    code, err = done(command if run is None else proving.again(run), folder, Disk())
    if code:
        yield f"resuming ends with {code}: {err[-300:]}"
    found = proving.contents(folder)
    if parts := [part for part in {**expected, **found} if expected.get(part) != found.get(part)]:
        yield f"differ: {', '.join(parts)}"


def few(space: SearchSpace, count: int, stride: int = 1) -> NetworkSample:
    """The networks of a rediscovery of a second."""
    return NetworkSample(get_space("autoformer-nano"), 12, stride=4)


def done(command: Sequence[str], folder: Path, disk: Disk) -> tuple[int, str]:
    """The exit code of a command that writes to a disk, and what it says of an error."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    before = os.getcwd()
    os.chdir(folder)
    with (
        patch.dict(os.environ, proving.places(folder)),
        patch.object(rediscover, "NetworkSample", few),
        contextlib.redirect_stdout(streams[0]),
        contextlib.redirect_stderr(streams[1]),
        disk.in_place(),
    ):
        try:
            cli.main(command)
        except SystemExit as end:
            code = int(end.code or 0)
    os.chdir(before)
    streams[1].seek(0)
    return code, streams[1].read()


if __name__ == "__main__":
    sys.exit(main())
