"""Feeds hostile contents to all that reads files: `python tests/fuzz/files.py TARGET... [options]`.

A target is one of `helpers.fuzz_targets.TARGETS`, or `all`. Each is fuzzed for `--seconds`, from
`--seed`; a line of JSON says how many contents were read and what was found, and is appended to
`--out FILE`. The content of each finding is kept in the folder `--found`.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers import fuzz_runs, fuzz_targets, fuzzing

assert fuzz_runs  # which registers more targets


def work(name: str, seed: str, begin: int, pipe: Connection) -> None:
    """Read contents from number `begin` on; say before each which it is, and after it what came."""
    sys.dont_write_bytecode = True
    os.environ.update(OMP_NUM_THREADS="1", COLUMNS="200")
    with fuzzing.sandbox() as folder:
        for variable in ("HOME", "XDG_CACHE_HOME", "TMPDIR"):
            os.environ[variable] = str(folder)
        os.environ.pop("AUTOPROX_DATA", None)
        watch = fuzzing.Watch(folder)
        target = fuzz_targets.TARGETS[name]()
        fuzz_targets.limit_children(3)
        fuzzing.limit_memory()
        for number, content in enumerate(fuzzing.contents(target, seed)):
            if number >= begin:
                pipe.send(content)
                pipe.send(fuzzing.judged(target, content, watch))


def fuzz(name: str, seconds: float, seed: int, found: Path) -> dict[str, Any]:
    """Fuzz a target; a process that hangs or dies is followed by another."""
    taken, processor, number, findings = 0.0, 0.0, 0, dict[str, str]()
    context = multiprocessing.get_context("spawn")
    while taken < seconds:
        ours, theirs = context.Pipe()
        child = context.Process(target=work, args=(name, f"{name}-{seed}", number, theirs))
        child.start()
        theirs.close()
        content, wait, before = b"", 300.0, taken  # seconds for the target to be made
        began, making = time.monotonic(), 0.0
        try:
            while taken < seconds:
                content, wait = received(child, ours, wait), fuzzing.SECONDS
                if not making:
                    began, making = time.monotonic(), used(child.pid or 0)
                finding = received(child, ours, wait)
                taken = before + time.monotonic() - began
                if finding and finding.short not in findings:
                    findings[finding.short] = keep(found / name, content, finding.full)
                number += 1
        except (EOFError, TimeoutError) as error:
            if not making:
                raise RuntimeError(f"the target {name} can't be made") from error
            short = str(error) or "the process ended"
            findings.setdefault(short, keep(found / name, content, short))
            number += 1
            taken = before + time.monotonic() - began
        processor += max(0.0, used(child.pid or 0) - making)
        child.kill()
        child.join()
    times = {"seconds": round(taken, 1), "processor": round(processor, 1)}
    return {"target": name, "seed": seed, **times, "read": number, "found": findings}


def received(child: Any, pipe: Connection, seconds: float) -> Any:
    """What comes in so many seconds of a processor, of which the machine may give others most."""
    began, before = time.monotonic(), used(child.pid or 0)
    while not pipe.poll(1.0):
        if used(child.pid or 0) - before > seconds or time.monotonic() - began > 15 * seconds:
            raise TimeoutError(f"takes more than {seconds:g} seconds")
    return pipe.recv()


def used(process: int) -> float:
    """The seconds of a processor that a process has taken."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has ended
        return 0.0
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def keep(folder: Path, content: bytes, told: str) -> str:
    """Keep the content of a finding, and beside it what came of it."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / fuzzing.name_of(content)
    file.write_bytes(content)
    file.with_suffix(".txt").write_text(told, errors="backslashreplace")
    return str(file)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="+", choices=[*fuzz_targets.TARGETS, "all"])
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--found", type=Path, default=Path("found"))
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    names = list(fuzz_targets.TARGETS) if "all" in given.targets else given.targets
    for name in names:
        line = json.dumps(fuzz(name, given.seconds, given.seed, given.found.absolute()))
        print(line, flush=True)
        if given.out:
            with given.out.open("a") as file:
                file.write(f"{line}\n")


if __name__ == "__main__":
    main()
