"""Runs of which pages are made."""

import json
import shutil
from pathlib import Path
from typing import Any

RUNS = Path(__file__).parents[2] / "runs"
[NANO], [PIT] = (
    [*(RUNS / "reference").glob(f"*-{name}-split0")] for name in ("autoformer-nano", "pit")
)
RANK = sorted((RUNS / "ranks").iterdir())[0]
COMMITTED = (NANO, PIT, RANK)


def discovery(folder: Path) -> Path:
    """Copy a committed discovery, with a log, an environment, and a network without a score."""
    shutil.copytree(NANO, folder)
    summary = read_summary(NANO)
    [quality] = summary["folds"][0]["spaces"].values()
    for scores in quality["networks"]["test"]["scores"].values():
        scores[0] = None
    (folder / "summary.json").write_text(json.dumps(summary))
    (folder / "environment.json").write_text('{"command": ["autoprox", "evolve"]}')
    write_log(folder, [None])
    return folder


def read_summary(run: Path) -> dict[str, Any]:
    """Return the summary of a committed run."""
    summary: dict[str, Any] = json.loads((run / "summary.json").read_text())
    return summary


def write_log(folder: Path, held_out: list[str | None]) -> None:
    """Write three lines of a log for each fold."""
    lines = [
        {"held_out": own, "island": 0, "evaluations": 100 * n, "best": n / 10, "mean": None}
        for own in held_out
        for n in (1, 2, 3)
    ]
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def spaces_run(folder: Path) -> Path:
    """Make a discovery on two spaces, each held out once, of two committed ones on one space."""
    shutil.copytree(NANO, folder)
    summaries = [read_summary(run) for run in (NANO, PIT)]
    folds = [own["folds"][0] for own in summaries]
    measured = [next(iter(fold["spaces"].values())) for fold in folds]
    names = [("one", "two"), ("two", "one")]
    made = [
        {**fold, "held_out": held_out, "trained": [trained], "spaces": {held_out: quality}}
        for fold, quality, (held_out, trained) in zip(folds, measured[::-1], names, strict=True)
    ]
    [source] = summaries[0]["spaces"].values()
    summary = {**summaries[0], "folds": made, "hold_out": "each"}
    summary["spaces"] = dict.fromkeys(("one", "two"), source)
    (folder / "summary.json").write_text(json.dumps(summary))
    write_log(folder, ["one", "two"])
    return folder


def search_run(folder: Path, candidates: int, proxy: str = "sum(sum(abs(all.weight)))") -> Path:
    """Make an unfinished search's folder by hand."""
    folder.mkdir()
    lines = [
        {"arch": {"depth": 1, "mlp_ratio": [2.0]}, "params": 1000 + n, "flops": n,
         "terms": [float(n % 977)], "failure": None}
        for n in range(candidates)
    ]  # fmt: skip
    (folder / "candidates.jsonl").write_text("".join(json.dumps(own) + "\n" for own in lines))
    (folder / "log.jsonl").touch()
    config = {"format": 3, "kind": "search", "proxy": proxy, "space": "<script>alert(1)</script>"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "environment.json").write_text('{"command": ["autoprox", "search"]}')
    return folder
