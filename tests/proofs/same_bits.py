"""Record what every command finds, and compare later: restructuring must not change results.

    python tests/proofs/same_bits.py record FILE [--small]     # before a change
    python tests/proofs/same_bits.py compare FILE [--small]    # after it: exit code 1 if it differs

A record has a hash for each part of each command's `--json` document, without times and paths, and
what else the bits depend on: versions and the processor's instruction set. --small takes the cases
that last seconds. The record is in the words of version 0.2: `in_recorded_words` renames keys back.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import sys
import tempfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from autoprox import cli

LEFT_OUT = frozenset({"seconds", "core_hours", "run", "autoprox"})  # the last is its version
SEARCH = "search --space autoformer-nano --dataset cifar10 --seed 3"
SMALL: Mapping[str, str] = {
    "evolve-small": "evolve --form tree --datasets fashion-mnist --iterations 4 "
    "--batch-size 2 --seed 5",
    "rank-small": "rank --proxies snip,dss,params --datasets cifar10 --batch-size 2 --seeds 2",
    "search-random-small": f"{SEARCH} --proxy snip --samples 12",
    "search-inherited-small": f"{SEARCH} --proxy snip --strategy blockwise --weights inherited "
    "--population 10 --steps 3 --mutants 5 --crossovers 5",
    "build-small": "bench build --space autoformer-nano --samples 10 --seeds 1 --epochs 1 "
    "--images {images} --out {folder}/table.json",
}
FULL: Mapping[str, str] = {
    "evolve-nano": "evolve --form tree --iterations 30 --seed 1",
    "evolve-elitist": "evolve --form tree --iterations 10 --strategy elitist --seed 2",
    "evolve-pit": "evolve --form tree --space pit --iterations 30",
    "rank-nano": "rank --proxies all --datasets fashion-mnist,cifar10 --seeds 2",
    "rank-bert": "rank --proxies snip,dss,ntsr,head_confidence,params --space flexibert "
    "--batch-size 2 --length 16",
    "search-random": f"{SEARCH} --proxy ntsr --samples 60 --params 20K:100K",
    "search-blockwise": f"{SEARCH} --proxy dss++ --strategy blockwise --population 20 --steps 4",
    "search-evolution": f"{SEARCH} --proxy snip --strategy evolution --population 20 --steps 10",
    "search-etas": "search --space gpt2-hw --proxy snip --strategy etas --weights inherited "
    "--evaluator hw-gpt-bench --samples 60 --steps 3 --params :80M --dataset perplexity",
    "search-shunted": "search --space shunted --proxy ntsr --samples 20 --params 10M:20M",
    "rediscover-snip": "rediscover snip",
    "build-text": "bench build --space gpt2-nano --samples 10 --seeds 2 --epochs 1 "
    "--text {text} --out {folder}/text-table.json",
}


# Keys and values of version 0.3 -> those of version 0.2, in which the record is.
RENAMED_KEYS: Mapping[str, str] = {
    "partial_tau": "given_size",
    "partial_tau_interval": "given_size_interval",
    "near_size_tau": "equal_size",
    "near_size_tau_interval": "equal_size_interval",
    "evaluator_check": "worth",
}
RENAMED_VALUES: Mapping[str, str] = {
    "not significantly different": "level",
    "unordered": "nothing",
    "tau-b": "forgiven",
    "size-adjusted": "equal-size",
}
# Keys that version 0.2 wrote only with a value.
ABSENT_WITHOUT_VALUE = frozenset(
    {"published", "evolved_on", "evolved_with", "found_on", "value", "evaluator_check"}
)
NEW_BASELINES = frozenset({"depth", "non-embedding", "gaussian-process", "predictor"})
NEW_IN_FRONT = "taus"  # which version 0.2 had in proxy files alone
NEW_IN_RANKINGS = "weights"  # fresh in version 0.2, which had shared ones nowhere


def in_recorded_words(document: Any) -> Any:
    """Return a document of version 0.3 as version 0.2 wrote it."""
    if isinstance(document, list):
        return [in_recorded_words(own) for own in document]
    if isinstance(document, str):
        return RENAMED_VALUES.get(document, document)
    if not isinstance(document, dict):
        return document
    if "folds" in document and "spaces" in document:
        document = _of_one_space(document)
    return {
        RENAMED_KEYS.get(name, name): in_recorded_words(own)
        for name, own in document.items()
        if not (name in ABSENT_WITHOUT_VALUE and own in (None, {}))
        and not (name == NEW_IN_RANKINGS and "rows" in document)
        and not (name in NEW_BASELINES and isinstance(own, dict))
    }


def _of_one_space(document: dict[str, Any]) -> dict[str, Any]:
    """Return the summary of an evolution on one space, which had no folds."""
    (fold,), (source,) = document["folds"], document["spaces"].values()
    (quality,) = fold["spaces"].values()
    front = [{k: v for k, v in own.items() if k != NEW_IN_FRONT} for own in fold["front"]]
    own = {name: fold[name] for name in ("evaluations", "counts", "ended", "invalid")}
    shared = {name: document[name] for name in ("objective", "ties", "shortfalls")}
    inputs = {"inputs": source["inputs"], "benchmark": source["benchmark"]}
    return {**quality, **shared, **own, **inputs, "front": front}


def main() -> int:
    """Record, or compare with a record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("action", choices=("record", "compare"))
    parser.add_argument("file", type=Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    cases = dict(SMALL) if given.small else {**SMALL, **FULL}
    if given.only:
        cases = {name: cases[name] for name in given.only.split(",")}
    found: dict[str, Any] = {"machine": machine(), "cases": {}}
    for name, command in cases.items():
        found["cases"][name] = digests(outcome(command))
        print(name, file=sys.stderr, flush=True)
    if given.action == "record":
        given.file.write_text(json.dumps(found, indent=1) + "\n")
        return 0
    return report(json.loads(given.file.read_text()), found)


def report(before: Mapping[str, Any], now: Mapping[str, Any]) -> int:
    """Print the parts that differ; 1 where one does."""
    if before["machine"] != now["machine"]:
        print(f"recorded on {before['machine']}, compared on {now['machine']}")
    lines = differences(before["cases"], now["cases"])
    print("\n".join(lines) or f"{len(now['cases'])} cases: the same bits")
    return int(bool(lines))


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """A line for each part that isn't what it was."""
    unknown = [f"{case}: not on record" for case in now if case not in before]
    return unknown + [
        f"{case}: {part} differs"
        for case, parts in now.items()
        for part in {**before.get(case, parts), **parts}
        if before.get(case, parts).get(part) != parts.get(part)
    ]


def machine() -> dict[str, str]:
    """What the last bits may depend on."""
    packages = {name: version(name) for name in ("torch", "numpy", "scipy", "deap", "sympy")}
    return {**packages, "instructions": torch.backends.cpu.get_cpu_capability()}


def outcome(command: str) -> dict[str, Any]:
    """What a command prints with --json, and the table that it built, if it did."""
    with tempfile.TemporaryDirectory() as folder:
        places = {"folder": folder, "images": images(folder), "text": _text(folder)}
        arguments = [word.format(**places) for word in command.split()]
        document = json.loads(_printed([*arguments, "--runs", f"{folder}/runs", "--json"]))
        if "--out" in arguments:
            table = Path(arguments[arguments.index("--out") + 1])
            document["table"] = json.loads(table.read_text())
        return in_recorded_words(plain(document, folder))


def plain(value: Any, folder: str) -> Any:
    """A document without times, and without what depends on where it was made."""
    if isinstance(value, dict):
        return {k: plain(v, folder) for k, v in value.items() if k not in LEFT_OUT}
    if isinstance(value, list):
        return [plain(entry, folder) for entry in value]
    return value.replace(folder, "") if isinstance(value, str) else value


def digests(document: Mapping[str, Any]) -> dict[str, str]:
    """A hash of each part of a document."""
    return {
        part: hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
        for part, value in document.items()
    }


def _printed(arguments: list[str]) -> str:
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(out), contextlib.suppress(SystemExit):
        cli.main(arguments)
    out.seek(0)
    return out.read()


def images(folder: str) -> str:
    """A file of images in a folder, of three brightnesses."""
    rng = np.random.default_rng(0)
    labels = np.arange(120) % 3
    noise = rng.integers(0, 255, size=(120, 32, 32, 3), dtype=np.uint8)
    pixels = noise // (1 + labels[:, None, None, None])
    path = f"{folder}/photos.npz"
    np.savez(path, images=pixels.astype(np.uint8), labels=labels)
    return path


def _text(folder: str) -> str:
    path = Path(folder, "letters.txt")
    rng = np.random.default_rng(1)
    path.write_text("".join(rng.choice(list("abc de\n"), size=6000)))
    return str(path)


if __name__ == "__main__":
    sys.exit(main())
