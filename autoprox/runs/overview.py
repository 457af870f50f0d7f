"""What there is to say of any run at a glance, and the runs below a folder."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from autoprox.errors import RunError
from autoprox.files.json_documents import Document
from autoprox.runs.folder import COMMANDS, CONFIG, Run, as_written

BEGUN = re.compile(r"(\d{8}T\d{6}Z)-")


class Overview(Document):
    """What there is to say of a run."""

    run: str
    kind: str
    benchmark: str | None
    space: str | None
    seed: int | None
    fitness: float | None
    test: float | None
    expression: str | None
    seconds: float | None
    begun: str | None
    ended: bool


def runs_below(folder: Path) -> list[dict[str, Any]]:
    """The overviews of the runs in a folder, the newest first."""
    if not folder.is_dir():
        raise RunError(f"runs must be in a folder, but there is no folder {folder}")
    paths = {file.parent for file in folder.glob(f"*/{CONFIG}")}
    found = [overview(Run.open(path)) for path in sorted(paths)]
    return sorted(found, key=lambda row: row["begun"] or "", reverse=True)


def overview(run: Run) -> dict[str, Any]:
    """Kind, benchmark or space, fitness, test tau, and when it was begun; None what it has not."""
    with as_written(run.path):
        return Overview(**_overview(run)).model_dump()


def _overview(run: Run) -> dict[str, Any]:
    config, summary = run.read_config(), run.read_summary() or {}
    folds = summary.get("folds") or [summary]
    begun = BEGUN.match(run.name)
    time = begun and datetime.strptime(begun[1], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    return {
        "run": str(run.path),
        "kind": COMMANDS.get(run.kind, run.kind),
        "benchmark": config.get("benchmark") or config.get("space"),
        "space": config.get("space"),
        "seed": config.get("seed"),
        "fitness": _mean(_fitness(own, summary.get("objective", "jcm")) for own in folds),
        "test": _mean(_test_tau(own) for fold in folds for own in _measured(fold)),
        "expression": summary.get("expression"),
        "seconds": summary.get("seconds"),
        "begun": time and time.isoformat(),
        "ended": bool(summary),
    }


def _mean(values: Iterable[float | None]) -> float | None:
    """Of what is known, over the evolutions of a run and the spaces that they were measured on."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _fitness(found: Mapping[str, Any], objective: str) -> float | None:
    """That of the chosen formula."""
    chosen: dict[str, Any] = next((own for own in found.get("front", ()) if own["chosen"]), {})
    value: float | None = chosen.get(objective, chosen.get("jcm"))
    return value


def _measured(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What a formula is worth, on each of several spaces or on its own."""
    return list(found["spaces"].values()) if "spaces" in found else [found]


def _test_tau(worth: Mapping[str, Any]) -> float | None:
    """Of the proxy that was found, the mean over the datasets."""
    own = worth.get("means", {}).get("proxy")
    return own["test"]["kendall"] if own else None
