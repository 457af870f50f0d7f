"""The cache: where statistics are kept and for how long, what there is of them, and how it goes."""

import shutil
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from autoprox.evaluation.cache_settings import STATISTICS_FOLDER, ZOO_FOLDER, cache_bounds
from autoprox.files.folders import disk_usage, is_writable, require_folder, user_cache
from autoprox.statistics.cached import DAY, clear, superfluous

ENDLESS = 2**62


def cache_facts(folder: Path | None = None) -> dict[str, Any]:
    """Where the cache is, how large it is, its bounds, and when the oldest of it was used."""
    place = _place(folder)
    found, (limit, age) = disk_usage(place), cache_bounds()
    oldest = found.oldest and datetime.fromtimestamp(found.oldest, timezone.utc).isoformat()
    parts = {path.name: disk_usage(path).bytes for path in sorted(place.glob("*")) if path.is_dir()}
    return {
        "folder": str(place),
        "bytes": found.bytes,
        "files": found.files,
        "parts": parts,
        "oldest": oldest,
        "limit": limit,
        "age": age,
        "superfluous": sum(superfluous(place / STATISTICS_FOLDER, limit, age).values()),
        "writable": is_writable(place),
    }


def _place(folder: Path | None) -> Path:
    place = folder or user_cache()
    require_folder("the cache", place)
    return place


def clear_cache(
    folder: Path | None = None, limit: int | None = None, age: int | None = None
) -> int:
    """Remove what was measured, not what was downloaded; returns how many bytes that was.

    Where a limit or an age is given, only what is beyond one of them goes.
    """
    place = _place(folder)
    before = disk_usage(place).bytes
    is_all = limit is None and age is None
    most, days = (0, 0) if is_all else (limit, age)
    clear(
        place / STATISTICS_FOLDER,
        ENDLESS if most is None else most,
        ENDLESS if days is None else days,
    )
    for path in (place / ZOO_FOLDER).glob("*"):
        if days is not None and path.stat().st_mtime <= time.time() - days * DAY:
            path.unlink()
    if is_all:
        shutil.rmtree(place / ZOO_FOLDER, ignore_errors=True)
    return max(0, before - disk_usage(place).bytes)  # the lock is a file too
