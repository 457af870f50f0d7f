"""The cache: where statistics are kept and for how long, what there is of them, and how it goes."""

import os
import shutil
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

from autoprox.errors import ConfigError
from autoprox.files.folders import is_writable, require_folder, usage, user_cache
from autoprox.files.sizes import SizeError, read_bytes, read_days
from autoprox.statistics.cached import (
    CACHE_AGE,
    CACHE_LIMIT,
    DAY,
    clear_statistics,
    superfluous_files,
)
from autoprox.statistics.statistic_files import SharedFolder
from autoprox.tasks.base import path_of
from autoprox.tasks.shared import CacheOptions

LIMIT, AGE = "AUTOPROX_CACHE_LIMIT", "AUTOPROX_CACHE_AGE"
ENDLESS = 2**62
STATISTICS, ZOO = "statistics", "zoo"


class Kept(NamedTuple):
    """Where statistics are kept, and where machines share them, if they do; what is kept of old."""

    folder: Path
    shared: SharedFolder | None
    limit: int  # bytes
    age: int  # days


def kept_of(config: CacheOptions) -> Kept:
    """What a configuration says of the cache, or the environment."""
    limit, age = bounds()
    limit = limit if config.cache_limit is None else config.cache_limit
    age = age if config.cache_age is None else config.cache_age
    place = None if config.cache is None else str(config.cache)
    if place is None or "://" not in place:
        return Kept((path_of(place) or user_cache()) / STATISTICS, None, limit, age)
    shared = SharedFolder(f"{place.rstrip('/')}/{STATISTICS}")
    return Kept(user_cache() / STATISTICS, shared, limit, age)


def bounds() -> tuple[int, int]:
    """The limit of the cache and its age, as the environment has them."""
    limit = _of_environment(LIMIT, read_bytes, CACHE_LIMIT)
    return limit, _of_environment(AGE, read_days, CACHE_AGE)


def _of_environment(name: str, read: Callable[[str], int], default: int) -> int:
    text = os.environ.get(name)
    try:
        return default if text is None else read(text)
    except SizeError as error:
        raise ConfigError(f"{name}: {error}") from error


def cache_facts(folder: Path | None = None) -> dict[str, Any]:
    """Where the cache is, how large it is, its bounds, and when the oldest of it was used."""
    place = _place(folder)
    found, (limit, age) = usage(place), bounds()
    oldest = found.oldest and datetime.fromtimestamp(found.oldest, timezone.utc).isoformat()
    parts = {path.name: usage(path).bytes for path in sorted(place.glob("*")) if path.is_dir()}
    return {
        "folder": str(place),
        "bytes": found.bytes,
        "files": found.files,
        "parts": parts,
        "oldest": oldest,
        "limit": limit,
        "age": age,
        "superfluous": sum(superfluous_files(place / STATISTICS, limit, age).values()),
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
    before = usage(place).bytes
    is_all = limit is None and age is None
    most, days = (0, 0) if is_all else (limit, age)
    clear_statistics(
        place / STATISTICS, ENDLESS if most is None else most, ENDLESS if days is None else days
    )
    for path in (place / ZOO).glob("*"):
        if days is not None and path.stat().st_mtime <= time.time() - days * DAY:
            path.unlink()
    if is_all:
        shutil.rmtree(place / ZOO, ignore_errors=True)
    return max(0, before - usage(place).bytes)  # the lock is a file too
