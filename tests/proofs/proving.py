"""What the proofs share: the commands that make runs, small; how they are done; what they leave."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import same_bits

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.tables import table
from warm import ended

HERE = Path(__file__).parent
PROGRAM = (sys.executable, "-m", "autoprox")
LIMIT = 900.0  # seconds after which a command hangs
STAMP = re.compile(r"\d{8}T\d{6}Z-")  # when a run began
ASIDE = ("config.json", "environment.json", "checkpoint.json")

SEARCH = "search --space autoformer-nano --dataset cifar10 --seed 3 --batch-size 2"
PRENAS = "prenas --space autoformer-nano --sizes 20K:60K:20K --noise 2 --batch-size 32"
TRAIN = "supernet train --space autoformer-nano --images {ready}/photos.npz --batch-size 32"
CASES: Mapping[str, str] = {
    "evolve": "evolve --datasets cifar10 --iterations 3 --population 8 --batch-size 2 --zoo none "
    "--statistics msa.weight,mlp.grad",
    "evolve-spaces": "evolve --spaces autoformer-nano,{ready}/mine.json --iterations 2 "
    "--population 6 --batch-size 2 --zoo none --statistics msa.weight",
    "rank": "rank --proxies snip,dss,naswot,params --datasets fashion-mnist --batch-size 2",
    "compare": "compare {ready}/runs/evolve snip --batch-size 2",
    "search-random": f"{SEARCH} --proxy snip --samples 12",
    "search-blockwise": f"{SEARCH} --proxy snip --strategy blockwise --weights inherited "
    "--population 8 --steps 3 --mutants 4 --crossovers 4",
    "search-etas": f"{SEARCH} --proxy snip --strategy etas --weights inherited --samples 10 "
    "--steps 3 --mutants 6 --evaluator worth:of",
    "search-evolution": f"{SEARCH} --proxy dss --strategy evolution --population 6 --steps 3 "
    "--mutants 3 --tournament 3",
    "rediscover": "rediscover sum(sum(msa.weight)) --cache {ready}/cache",
    "build": "bench build --space autoformer-nano --samples 10 --seeds 1 --epochs 1 "
    "--images {ready}/photos.npz --out table.json --workers 1",
    "build-processes": "bench build --space autoformer-nano --samples 10 --seeds 1 --epochs 1 "
    "--images {ready}/photos.npz --out table.json --workers 2",
    "supernet-train": f"{TRAIN} --epochs 3",
    "supernet-processes": f"{TRAIN} --epochs 2 --processes 2",
    "supernet-eval": "supernet eval {ready}/runs/supernet --samples 12",
    "prenas": PRENAS,
    "prenas-train": f"{PRENAS} --images {{ready}}/photos.npz --epochs 2",
    "s3": "s3 --space swin-nano --images {ready}/photos.npz --epochs 1 --batch-size 32 --samples 4 "
    "--top-tier 2 --threshold 5 --rounds 2 --flops :40M --population 4 --generations 1 --parents 2",
}  # fmt: skip
READY = {"evolve": CASES["evolve"], "supernet": f"{TRAIN} --epochs 1"}
WORTH = "def of(architecture):\n    return sum(map(sum, [architecture['choices']['num_heads']]))\n"


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it said."""

    code: int
    out: str
    err: str
    seconds: float  # of CPU
    pid: int
    sent: bool = False  # whether it got the signal
    hung: bool = False


class Warm:
    """A process that does commands (see `warm`), with variables of its environment and on CPUs."""

    def __init__(
        self, environment: Mapping[str, str] | None = None, cpus: Sequence[int] = ()
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "warm.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
            preexec_fn=(lambda: os.sched_setaffinity(0, cpus)) if cpus else None,
        )

    def __call__(
        self, arguments: Sequence[str], folder: Path, number: int = 0, after: float = 0.0
    ) -> Ended:
        """Do a command in a folder; with a number, it gets this signal after so many seconds."""
        request = {
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": places(folder),
            "signal": int(number),
            "after": after,
            "limit": LIMIT,
        }
        print(json.dumps(request), file=self._process.stdin, flush=True)
        if self._process.stdout is None or not (answer := self._process.stdout.readline()):
            raise RuntimeError("the process that does the commands has ended")
        return Ended(**json.loads(answer), **said(folder))

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


@contextmanager
def warm(environment: Mapping[str, str] | None = None, cpus: Sequence[int] = ()) -> Iterator[Warm]:
    """A process that does commands, until the end of the block."""
    process = Warm(environment, cpus)
    try:
        yield process
    finally:
        process.close()


def cold(arguments: Sequence[str], folder: Path, number: int = 0, after: float = 0.0) -> Ended:
    """The same by a process of its own, which begins with the start of Python."""
    with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
        process = subprocess.Popen(
            [*PROGRAM, *arguments],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", **places(folder)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    request = {"signal": int(number), "after": after, "limit": LIMIT}
    answer = ended(process.pid, request)
    process.returncode = answer["code"]
    return Ended(**answer, **said(folder))


def places(folder: Path) -> dict[str, str]:
    """Where a command keeps what isn't in its run."""
    return {"XDG_CACHE_HOME": str(folder / "cache"), "TMPDIR": str(folder / "tmp")}


def said(folder: Path) -> dict[str, Any]:
    """What the command printed."""
    return {name: (folder / name).read_text(errors="replace") for name in ("out", "err")}


def empty(folder: Path) -> Path:
    """A new folder for a command, which finds the module of the evaluator in it."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "tmp").mkdir(parents=True)
    (folder / "worth.py").write_text(WORTH)
    return folder


def prepare(ready: Path, do: Warm) -> None:
    """What the commands read: images, a text, a table, and runs of others."""
    if (ready / "runs" / "supernet").exists():
        return
    empty(ready)
    same_bits.images(str(ready))
    (ready / "mine.json").write_text(json.dumps(table(24)))
    for name, command in READY.items():
        done = do([*command.format(ready=ready).split(), "--quiet"], ready)
        if done.code:
            raise RuntimeError(f"{command}: {done.err}")
        [made] = (ready / "runs").glob("2*")
        made.rename(ready / "runs" / name)


def words(case: str, ready: Path, *more: str) -> list[str]:
    """The command of a case."""
    return [*CASES[case].format(ready=ready).split(), *more, "--json"]


def again(run: Path) -> list[str]:
    """The command that goes on with a run, which may call the function that it called."""
    config = json.loads((run / "config.json").read_text())
    named = [f"--{name}={config[name]}" for name in ("evaluator", "teacher") if config.get(name)]
    return ["resume", str(run), *named, "--json"]


def run_of(folder: Path) -> Path | None:
    """The run that a command made, if it came to that."""
    return next((folder / "runs").glob("2*"), None)


def contents(folder: Path) -> dict[str, Any]:
    """What a command left in its folder, times and paths aside: a digest of each file."""
    run = run_of(folder)
    if run is None:
        return {}
    files = [*run.rglob("*"), *folder.glob("table.json"), *folder.glob("table.json.parts/*")]
    return {
        str(path.relative_to(run if run in path.parents else folder)): digest(path, folder)
        for path in sorted(files)
        if path.is_file() and path.name not in ASIDE and not path.name.startswith(".")
    }


def digest(path: Path, folder: Path) -> str:
    """A hash of what a file says; of images and texts a hash of the bytes.

    safetensors writes the entries of a file's header in any order: they are sorted first.
    """
    if path.name == "report.html":
        return "there"  # with times and places
    content = path.read_bytes()
    if path.suffix == ".safetensors":
        end = 8 + int.from_bytes(content[:8], "little")
        header = json.dumps(json.loads(content[8:end]), sort_keys=True)
        content = header.encode() + content[end:]
    elif path.suffix in (".json", ".jsonl"):
        lines = content.splitlines() if path.suffix == ".jsonl" else [content]
        content = json.dumps([timeless(json.loads(line), folder) for line in lines]).encode()
    return hashlib.sha256(content).hexdigest()[:16]


def timeless(document: Any, folder: Path) -> Any:
    """A document without times and places."""
    plain = same_bits.plain(same_bits.plain(document, f"{folder}/"), str(folder))
    text = STAMP.sub("", json.dumps(plain))
    return json.loads(text)
