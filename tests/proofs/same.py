"""Proves that the commands find the same however they are run, or says what differs, and how far.

    python tests/proofs/same.py --out same.json [--work DIR] [--small] [--only VARIATION,...]

Every case is done as `REFERENCE` says, and then in each of the `VARIATIONS`; compared are the
summary and all files of the run, times and paths aside. What is in the result isn't done again.
The exit code is 1 where something differs that isn't `EXPECTED`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import proving
import same_bits

TRAINING = ("supernet-train", "prenas-train", "s3")
SPREAD = (  # what a cluster does
    *("evolve", "evolve-spaces", "rank", "compare", "search-random", "search-evolution"),
    *("build", "supernet-eval", "s3"),
)
LOCAL = tuple(case for case in proving.CASES if case != "build-processes")  # `build`, workers-2
WRITING = threading.Lock()
SMALL_CASES = ("rank", "prenas")
SMALL_VARIATIONS = ("workers-1", "killed", "hash-seed-random", "omp-2")


@dataclass(frozen=True)
class Variation:
    """How commands are run otherwise."""

    environment: Mapping[str, str] = field(default_factory=dict)
    cpus: tuple[int, ...] = ()
    options: tuple[str, ...] = ()
    cases: tuple[str, ...] = LOCAL
    killed: bool = False  # at a random moment, and resumed
    machines: int = 0  # so many workers of a dask scheduler do it too


@dataclass(frozen=True)
class Expected:
    """A difference that is understood: why it is there, and how large it may be."""

    cause: str
    bound: float | None  # of the relative difference of numbers, where there is one


REFERENCE = Variation({"PYTHONHASHSEED": "0"})
VARIATIONS: Mapping[str, Variation] = {
    "again": Variation({"PYTHONHASHSEED": "0"}),
    "workers-1": Variation(options=("--workers", "1")),
    "workers-2": Variation(options=("--workers", "2"), cases=("build",)),  # of others the default
    "workers-4": Variation(options=("--workers", "4")),
    "hash-seed-1": Variation({"PYTHONHASHSEED": "1"}),
    "hash-seed-random": Variation({"PYTHONHASHSEED": "random"}),
    "omp-2": Variation({"OMP_NUM_THREADS": "2"}),
    "memory-small": Variation(options=("--memory", "1KB"), cases=("evolve", "evolve-spaces")),
    "memory-large": Variation(options=("--memory", "8GiB"), cases=("evolve", "evolve-spaces")),
    "one-cpu": Variation(cpus=(0,)),
    "processes-2": Variation(options=("--processes", "2"), cases=TRAINING),
    "distributed": Variation(machines=2, cases=SPREAD),
    "killed": Variation(killed=True),
}
DRAWS = "each process draws the crops and the dropped branches of its own images"
EXPECTED: Mapping[tuple[str, str], Expected] = {
    ("processes-2", "supernet-train"): Expected(DRAWS, 0.05),
    ("processes-2", "prenas-train"): Expected(DRAWS, 0.05),
    ("processes-2", "s3"): Expected(f"{DRAWS}, and other errors choose other spaces", None),
}


def main() -> int:
    """Do what isn't done, and show the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--work", type=Path, default=Path("/tmp/prove-same"))
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--cases", default="", help="of them, separated by commas")
    parser.add_argument("--jobs", type=int, default=1, help="variations at a time")
    given = parser.parse_args()
    names = given.only.split(",") if given.only else list(VARIATIONS)
    cases = tuple(given.cases.split(",") if given.cases else proving.CASES)
    if given.small:
        names, cases = [name for name in names if name in SMALL_VARIATIONS], SMALL_CASES
    found = json.loads(given.out.read_text()) if given.out.exists() else beginning()
    vary("reference", cases, given.work, found, given.out)
    with ThreadPoolExecutor(given.jobs) as pool:
        list(pool.map(lambda name: vary(name, cases, given.work, found, given.out), names))
    print(shown(found))
    return int(any(verdict.startswith("DIFFERS") for *_, verdict in verdicts(found)))


def beginning() -> dict[str, Any]:
    """A result in which nothing is done."""
    return {
        "machine": same_bits.machine(),
        "commands": dict(proving.CASES),
        "expected": {" ".join(pair): asdict(cause) for pair, cause in EXPECTED.items()},
        "reference": {},
        "variations": {},
    }


def vary(
    name: str,
    cases: tuple[str, ...],
    work: Path,
    found: dict[str, Any],
    out: Path | None = None,
    known: proving.Warm | None = None,
) -> None:
    """Do the cases of a variation that aren't in the result, each of which is written at once.

    They are done by a process of the variation's own, but where one is given.
    """
    how = VARIATIONS.get(name, REFERENCE)
    if name == "reference":
        done = found["reference"]
    else:
        entry: dict[str, Any] = {
            "how": {k: v for k, v in asdict(how).items() if v and k != "cases"},
            "cases": {},
        }
        done = found["variations"].setdefault(name, entry)["cases"]
    todo = [case for case in how.cases if case in cases and case not in done]
    if not todo:
        return
    own = nullcontext(known) if known else proving.warm(how.environment, how.cpus)
    with own as do, cluster(how.machines) as more:
        proving.prepare(work / "ready", do)
        for case in todo:
            folder = proving.empty(work / name / case)
            seconds = found["reference"].get(case, {}).get("seconds", 0.0)
            command = proving.words(case, work / "ready", *how.options, *more)
            ended = finished(do, command, folder, seconds * killed_at(case) if how.killed else 0)
            digests = found_by(ended, folder)
            if name == "reference":
                if ended.code:
                    raise RuntimeError(f"{case}: {ended.err}")
                done[case] = {"seconds": round(ended.seconds, 2), "digests": digests}
            else:
                parts = differing(found["reference"][case]["digests"], digests)
                far = distance(work / "reference" / case, folder) if parts else 0.0
                done[case] = {"differs": parts, "relative": far if math.isfinite(far) else None}
            print(time.strftime("%X"), name, case, done[case].get("differs", ""), file=sys.stderr)
            if out is not None:
                with WRITING:
                    out.write_text(json.dumps(found, indent=1) + "\n")


@contextmanager
def cluster(machines: int) -> Iterator[tuple[str, ...]]:
    """The options that name a scheduler with so many workers of one thread; none without them."""
    if not machines:
        yield ()
        return
    import distributed

    with distributed.LocalCluster(
        n_workers=machines, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as started:
        yield "--backend", "dask", "--scheduler", started.scheduler_address


def killed_at(case: str) -> float:
    """The moment of a kill, as a share of what the case takes."""
    return random.Random(f"killed {case}").uniform(0.1, 1.0)


def finished(do: proving.Warm, command: list[str], folder: Path, killed: float) -> proving.Ended:
    """A command, done to its end; killed after so many seconds, if any, and resumed."""
    ended = do(command, folder, 9 if killed else 0, killed)
    if not killed or ended.code == 0:
        return ended
    run = proving.run_of(folder)
    return do(proving.again(run) if run else command, folder)


def found_by(ended: proving.Ended, folder: Path) -> dict[str, str]:
    """A digest of each part of the summary, and of each file."""
    if ended.code:
        return {"exit code": str(ended.code), "said": ended.err[-300:]}
    document = proving.timeless(json.loads(ended.out), folder)
    parts = same_bits.digests(document)
    return {**{f"summary {part}": v for part, v in parts.items()}, **proving.contents(folder)}


def differing(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The parts that aren't what they were."""
    return [part for part in {**before, **now} if before.get(part) != now.get(part)]


def distance(before: Path, now: Path) -> float:
    """How far the numbers of two summaries are apart, relatively; infinite where words differ."""
    texts = (before / "out").read_text(), (now / "out").read_text()
    if not all(texts):  # a command that failed
        return math.inf
    own = zip(texts, (before, now), strict=True)
    return apart(*(proving.timeless(json.loads(text), folder) for text, folder in own))


def apart(one: Any, other: Any) -> float:
    """How far the numbers of two documents are apart."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return max((apart(one[key], other[key]) for key in one), default=0.0)
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return max(map(apart, one, other), default=0.0)
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) / max(abs(one), abs(other), 1e-12)
    return 0.0 if one == other else math.inf


def verdicts(found: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What there is to say of each variation of each case."""
    return [
        (name, case, verdict(name, case, entry))
        for name, own in found["variations"].items()
        for case, entry in own["cases"].items()
    ]


def verdict(name: str, case: str, entry: Mapping[str, Any]) -> str:
    """Whether it is the same, or differs as it may, or otherwise."""
    if not entry["differs"]:
        return "same"
    known, far = EXPECTED.get((name, case)), entry["relative"]
    if known and known.bound is None:
        return f"without a bound: {known.cause}"
    if known and known.bound is not None and far is not None and far <= known.bound:
        return f"within {known.bound:g}: {known.cause}"
    return f"DIFFERS in {', '.join(entry['differs'])}, by {far}"


def shown(found: Mapping[str, Any]) -> str:
    """A table: a line for each variation, and one for each difference."""
    lines = [f"{'':18}{'cases':>6}{'same':>6}"]
    told = verdicts(found)
    for name in found["variations"]:
        own = [verdict for variation, _, verdict in told if variation == name]
        lines.append(f"{name:18}{len(own):6}{own.count('same'):6}")
    return "\n".join(
        [*lines, *(f"{name} {case}: {text}" for name, case, text in told if text != "same")]
    )


if __name__ == "__main__":
    sys.exit(main())
