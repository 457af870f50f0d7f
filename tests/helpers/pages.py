"""Runs of which pages are made."""

import json
import shutil
from pathlib import Path
from typing import Any

RUNS = Path(__file__).parents[2] / "runs"
OLD = sorted((RUNS / "reference").iterdir())[0]  # of before the front was recorded
[NANO], [PIT] = (
    [*(RUNS / "reference").glob(f"*-{name}-split0")] for name in ("autoformer-nano", "pit")
)
RANK = sorted((RUNS / "ranks").iterdir())[0]
COMMITTED = (NANO, PIT, RANK)


def discovery(folder: Path, committed: Path = NANO) -> Path:
    """A copy of a committed discovery, with scores of single networks."""
    shutil.copytree(committed, folder)
    summary = whole(committed)
    replace_summary(folder, summary)
    return folder


def replace_summary(folder: Path, summary: dict[str, Any]) -> None:
    """Write another one, and no digest that would refuse it."""
    file = folder / "environment.json"
    known = json.loads(file.read_text())
    known.pop("summary", None)
    file.write_text(json.dumps(known))
    (folder / "summary.json").write_text(json.dumps(summary))


def whole(committed: Path) -> dict[str, Any]:
    """The summary of a committed discovery, with scores of single networks, the first without."""
    summary: dict[str, Any] = json.loads((committed / "summary.json").read_text())
    parts = {part: {d: list(range(12)) for d in summary[part]} for part in ("test", "train")}
    summary["networks"] = {
        part: {
            "network": list(range(12)),
            "params": [1000 * n for n in range(12)],
            "scores": {d: [None, *own[1:]] for d, own in scores.items()},
            "truth": scores,
        }
        for part, scores in parts.items()
    }
    return summary


def spaces_run(folder: Path) -> Path:
    """A discovery on two spaces, each held out once, made of two that are committed."""
    shutil.copytree(NANO, folder)
    summaries = [whole(run) for run in (NANO, PIT)]
    names = [("one", "two"), ("two", "one")]
    folds = [
        {
            **{name: own[name] for name in ("expression", "formula", "front", "evaluations")},
            **{"held_out": held_out, "trained": [trained], "stopped": 0, "invalid": {}},
            "spaces": {held_out: other},
        }
        for own, other, (held_out, trained) in zip(summaries, summaries[::-1], names, strict=True)
    ]
    named = {name: summaries[0][name] for name in ("expression", "formula", "objective", "ties")}
    replace_summary(folder, {**named, "folds": folds, "spaces": {}, "seconds": 1.0})
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()[:3]]
    told = [{**line, "held_out": own, "island": 0} for own in ("one", "two") for line in lines]
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in told))
    return folder


def search_run(folder: Path, candidates: int, proxy: str = "sum(sum(abs(all.weight)))") -> Path:
    """An unfinished search's folder, by hand."""
    folder.mkdir()
    lines = [
        {"arch": {"depth": 1, "mlp_ratio": [2.0]}, "params": 1000 + n, "flops": n,
         "terms": [float(n % 977)], "failure": None}
        for n in range(candidates)
    ]  # fmt: skip
    (folder / "candidates.jsonl").write_text("".join(json.dumps(own) + "\n" for own in lines))
    (folder / "log.jsonl").touch()
    config = {"kind": "search", "proxy": proxy, "space": "<script>alert(1)</script>"}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "environment.json").write_text('{"command": ["autoprox", "search"]}')
    return folder
