"""What there is on this machine: versions, devices, data, the cache, and what may be written."""

import shutil
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from autoprox.benchmarks import list_benchmarks
from autoprox.files.folders import is_writable, usage, user_cache
from autoprox.runs.folder import environment
from autoprox.statistics.cached import CACHE_LIMIT, clear
from autoprox.statistics.collector import resolve_device


def cache_facts(folder: Path | None = None) -> dict[str, Any]:
    """Where the cache is, how large it is, its limit, and when the oldest of it was used."""
    place = folder or user_cache()
    found = usage(place)
    oldest = found.oldest and datetime.fromtimestamp(found.oldest, timezone.utc).isoformat()
    parts = {path.name: usage(path).bytes for path in sorted(place.glob("*")) if path.is_dir()}
    return {
        "folder": str(place),
        "bytes": found.bytes,
        "files": found.files,
        "parts": parts,
        "oldest": oldest,
        "limit": CACHE_LIMIT,
        "writable": is_writable(place),
    }


def clear_cache(folder: Path | None = None) -> int:
    """Remove what was measured, not what was downloaded; returns how many bytes that was."""
    place = folder or user_cache()
    before = usage(place).bytes
    clear(place / "statistics")
    shutil.rmtree(place / "zoo", ignore_errors=True)
    return max(0, before - usage(place).bytes)  # the lock is a file too


def machine_facts(data_dir: Path | None = None) -> dict[str, Any]:
    """What a bug report needs, and what may be amiss."""
    here = environment(resolve_device("auto"))
    runs = Path("runs")
    return {
        **{name: here[name] for name in ("python", "packages", "platform", "device", "threads")},
        "benchmarks": {
            found["name"]: bool(found["embedded"] or found["installed"])
            for found in list_benchmarks(data_dir)
        },
        "cache": cache_facts(),
        "runs": {"folder": str(runs.absolute()), "writable": is_writable(runs)},
    }
