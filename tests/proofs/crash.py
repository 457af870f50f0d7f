"""Proves that commands may be killed at any moment, and go on to the same end.

    python tests/proofs/crash.py --out crash.json [--work DIR] [--kills 100] [--stops 40]

Every trial sends a signal to a case at a random moment, of a seed, looks at what is left, resumes,
and compares the files with those of a run that wasn't stopped. An eighth of them begins with the
start of Python, so that imports are stopped too. What is in the result isn't done again; the exit
code is 1 where there is a fault.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import proving
import same_bits
import warm
from safetensors import SafetensorError, safe_open

CODES = {signal.SIGINT: (130, "interrupted"), signal.SIGTERM: (143, "terminated")}
KILL = int(signal.SIGKILL)
WRITING = threading.Lock()
MEASURING = {case: threading.Lock() for case in proving.CASES}
COLD = 8  # one of so many trials begins with the start of Python
PATIENCE = 60.0  # seconds in which what a killed command has begun must end
BEGUN = time.time()  # what is older was left by another process of the same number
IMPORTS = 3.0  # seconds of CPU, about
HEAVY = {"rediscover": 4, "build-processes": 3, "supernet-processes": 2}  # one round of so many


@dataclass(frozen=True)
class Trial:
    """A signal to a case after a part of its time."""

    number: int
    signal: int
    case: str
    part: float
    cold: bool

    @property
    def name(self) -> str:
        """By which the result has it."""
        start = "cold" if self.cold else "warm"
        return f"{signal.Signals(self.signal).name} {self.number} {self.case} {start}"


def main() -> int:
    """Do the trials that aren't in the result, and show the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("/tmp/prove-crash"))
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--stops", type=int, default=40)
    parser.add_argument("--cases", default="", help="of them, separated by commas")
    parser.add_argument("--jobs", type=int, default=1, help="trials at a time")
    given = parser.parse_args()
    found = json.loads(given.out.read_text()) if given.out.exists() else beginning()
    kills = trials([KILL], given.kills, list(proving.CASES))
    stops = trials([int(number) for number in CODES], given.stops, list(proving.CASES))
    planned = [t for group in zip_longest(kills, kills, stops) for t in group if t]
    if pairs := [name for name in PAIRS if name not in found["pairs"]]:
        with proving.warm() as do, proving.warm() as other:
            proving.prepare(given.work / "ready", do)
            for name in pairs:
                found["pairs"][name] = PAIRS[name](do, other, given.work, found["reference"])
                given.out.write_text(json.dumps(found, indent=1) + "\n")
    cases = given.cases.split(",") if given.cases else list(proving.CASES)
    todo = [t for t in planned if t.name not in found["trials"] and t.case in cases]
    with ThreadPoolExecutor(given.jobs) as pool:
        parts = [todo[job :: given.jobs] for job in range(given.jobs)]
        list(pool.map(lambda part: several(part, given.work, found, given.out), parts))
    given.out.write_text(json.dumps({**found, "counts": counted(found)}, indent=1) + "\n")
    print(shown(found))
    return int(any(faults_of(found)))


def several(
    trials: Sequence[Trial], work: Path, found: dict[str, Any], out: Path | None = None
) -> None:
    """Do trials, each of which is written at once."""
    with proving.warm() as do:
        with WRITING:
            proving.prepare(work / "ready", do)
        for trial in trials:
            folder = work / f"trial-{threading.get_ident()}"
            found["trials"][trial.name] = tried(trial, do, work, found["reference"], folder)
            print(time.strftime("%X"), trial.name, found["trials"][trial.name], file=sys.stderr)
            if out is not None:
                with WRITING:
                    out.write_text(json.dumps(found, indent=1) + "\n")


def beginning() -> dict[str, Any]:
    """A result in which nothing is done."""
    commands = dict(proving.CASES)
    return {
        **{"machine": same_bits.machine(), "commands": commands, "counts": {}},
        **{"reference": {}, "pairs": {}, "trials": {}},
    }


def trials(signals: Sequence[int], count: int, cases: Sequence[str]) -> Iterator[Trial]:
    """So many trials of the signals, over all cases in turn."""
    number = turn = 0
    while number < count:
        for place, case in enumerate(cases):
            if number < count and turn % HEAVY.get(case, 1) == 0:
                rng = random.Random(f"{signals} {number}")
                chosen = signals[(turn + place) % len(signals)]
                yield Trial(number, chosen, case, rng.random(), number % COLD == COLD - 1)
                number += 1
        turn += 1


def tried(
    trial: Trial, do: proving.Warm, work: Path, reference: dict[str, Any], folder: Path
) -> dict[str, Any]:
    """What a trial came to: when it was stopped, how it ended, and its faults."""
    case, ready = trial.case, work / "ready"
    expected = reference_of(case, do, work, reference)
    proving.empty(folder)
    seconds = expected["seconds"] + IMPORTS * trial.cold
    call = proving.cold if trial.cold else do
    ended = call(proving.words(case, ready), folder, trial.signal, trial.part * seconds)
    faults = [*orphans(ended), *torn(folder), *ending(trial, ended)]
    run, stage = proving.run_of(folder), "finished"
    last = ended
    if ended.code != 0:
        stage = "before the run" if run is None else "in the run"
        last = do(proving.words(case, ready) if run is None else proving.again(run), folder)
    faults += compared(last, folder, expected)
    faults += leftovers(folder, (ended.pid, last.pid))
    part = round(trial.part, 3)
    return {"part": part, "code": ended.code, "stage": stage, "faults": faults}


def reference_of(
    case: str, do: proving.Warm, work: Path, reference: dict[str, Any]
) -> dict[str, Any]:
    """What a case leaves where nothing stops it."""
    with MEASURING[case]:
        if case not in reference:
            folder = proving.empty(work / "reference" / case)
            ended = do(proving.words(case, work / "ready"), folder)
            if ended.code:
                raise RuntimeError(f"{case}: {ended.err}")
            reference[case] = {"seconds": round(ended.seconds, 2), **left_by(ended, folder)}
    found: dict[str, Any] = reference[case]
    return found


def left_by(ended: proving.Ended, folder: Path) -> dict[str, Any]:
    """Digests of the summary and of the files."""
    summary = proving.timeless(json.loads(ended.out), folder)
    return {"summary": same_bits.digests(summary), "files": proving.contents(folder)}


def orphans(ended: proving.Ended) -> Iterator[str]:
    """Processes of the command that are there after it."""
    until = time.monotonic() + PATIENCE
    while left := len(list(warm.of_session(ended.pid))):
        if time.monotonic() > until:
            yield f"{left} processes outlive it"
            return
        time.sleep(0.1)


def torn(folder: Path) -> Iterator[str]:
    """Files that aren't whole; the last line of those that grow may be unfinished."""
    for path in sorted(folder.rglob("*")):
        try:
            if path.suffix == ".json":
                json.loads(path.read_bytes())
            elif path.suffix == ".jsonl":
                for line in path.read_bytes().split(b"\n")[:-1]:
                    json.loads(line)
            elif path.suffix == ".safetensors":
                with safe_open(path, framework="pt") as file:
                    list(file.keys())
        except (ValueError, SafetensorError) as error:
            yield f"{path.name} is torn: {error}"


def ending(trial: Trial, ended: proving.Ended) -> Iterator[str]:
    """What is wrong with how the command ended."""
    if ended.hung:
        yield "it hangs"
    if trial.signal == KILL or not ended.sent:
        return
    code, word = CODES[signal.Signals(trial.signal)]
    last = (ended.err.strip().splitlines() or [""])[-1]
    told = ended.code == code and last.startswith(word)
    unheard = trial.cold and ended.code == -trial.signal and not ended.err  # Python had not begun
    if "Traceback" in ended.err or not (told or unheard or ended.code == 0):
        yield f"code {ended.code}, and said {ended.err[-400:]!r}"


def compared(last: proving.Ended, folder: Path, expected: Mapping[str, Any]) -> Iterator[str]:
    """What isn't as it is without a stop."""
    if last.code:
        yield f"resuming ends with {last.code}: {last.err[-400:]}"
        return
    found = left_by(last, folder)
    for kind in ("summary", "files"):
        before, now = expected[kind], found[kind]
        if parts := [part for part in {**before, **now} if before.get(part) != now.get(part)]:
            yield f"{kind} differ: {', '.join(parts)}"


def leftovers(folder: Path, processes: Sequence[int]) -> Iterator[str]:
    """Temporary files and folders that are there when all is done."""
    for path in folder.rglob("*"):
        own = path.parent == folder / "tmp" and not path.name.startswith("torchinductor")
        if path.name.endswith(".part") or own:  # the other one is torch's, for good
            yield f"left: {path.relative_to(folder)}"
    for path in Path("/dev/shm").glob("*"):
        named = {int(number) for number in re.findall(r"(?<=[-_])\d+(?=[-_])", path.name)}
        if named.intersection(processes) and path.stat().st_mtime >= BEGUN:
            yield f"left: {path}"


def same_cache(
    do: proving.Warm, other: proving.Warm, work: Path, reference: dict[str, Any]
) -> list[str]:
    """Two evolutions at once with one cache that is empty."""
    expected = reference_of("evolve", do, work, reference)
    cache = proving.empty(work / "cache")
    words = proving.words("evolve", work / "ready", "--cache", str(cache))
    folders = [proving.empty(work / f"pair-{number}") for number in range(2)]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda call, folder: call(words, folder), (do, other), folders))
    pairs = zip(found, folders, strict=True)
    return [fault for ended, folder in pairs for fault in compared(ended, folder, expected)]


def same_run(
    do: proving.Warm, other: proving.Warm, work: Path, reference: dict[str, Any]
) -> list[str]:
    """A run that another process is writing is refused by name."""
    folder = proving.empty(work / "pair-0")

    def second() -> proving.Ended:
        while (run := proving.run_of(folder)) is None:
            time.sleep(0.05)
        return other(proving.again(run), proving.empty(work / "pair-1"))

    return refused(do, "evolve", folder, second, work, reference)


def same_table(
    do: proving.Warm, other: proving.Warm, work: Path, reference: dict[str, Any]
) -> list[str]:
    """A table that another process is building is refused by name."""
    folder = proving.empty(work / "pair-0")

    def second() -> proving.Ended:
        while not list(folder.glob("table.json.parts/*-*.json")):
            time.sleep(0.05)
        out = ("--out", str(folder / "table.json"))
        words = proving.words("build", work / "ready", *out)
        return other(words, proving.empty(work / "pair-1"))

    return refused(do, "build", folder, second, work, reference)


def refused(
    do: proving.Warm,
    case: str,
    folder: Path,
    second: Callable[[], proving.Ended],
    work: Path,
    reference: dict[str, Any],
) -> list[str]:
    """What is wrong where the second of two must be refused, and the first go on."""
    expected = reference_of(case, do, work, reference)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(do, proving.words(case, work / "ready"), folder)
        found = pool.submit(second).result()
        faults = list(compared(first.result(), folder, expected))
    if found.code != 2 or "another process is writing" not in found.err:
        faults.append(f"the second ends with {found.code}: {found.err[-300:]}")
    return faults


PAIRS = {"one cache": same_cache, "one run": same_run, "one table": same_table}


def counted(found: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """How many trials of each signal were stopped at which stage, and had faults."""
    counts: dict[str, Counter[str]] = {}
    for name, trial in found["trials"].items():
        own = counts.setdefault(name.split()[0], Counter())
        own.update([trial["stage"], *(["with faults"] if trial["faults"] else ())])
    return {name: dict(own) for name, own in counts.items()}


def faults_of(found: Mapping[str, Any]) -> Iterator[str]:
    """A line for each fault."""
    for name, trial in found["trials"].items():
        yield from (f"{name}: {fault}" for fault in trial["faults"])
    for name, faults in found["pairs"].items():
        yield from (f"{name}: {fault}" for fault in faults)


def shown(found: Mapping[str, Any]) -> str:
    """A line for each signal and pair, and one for each fault."""
    lines = [f"{name}: {own}" for name, own in counted(found).items()]
    lines += [f"{name}: {'as it should be' * (not own)}" for name, own in found["pairs"].items()]
    return "\n".join([*lines, *faults_of(found)])


if __name__ == "__main__":
    sys.exit(main())
