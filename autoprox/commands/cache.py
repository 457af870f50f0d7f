"""The command `cache`: what the cache of measurements holds, and how it is cleared."""

import shutil
import time
from datetime import datetime, timezone
from pathlib import Path

from autoprox.evaluation.cache_settings import STATISTICS_FOLDER, ZOO_FOLDER, cache_bounds
from autoprox.files.folder_checks import disk_usage, is_writable, require_folder, user_cache_folder
from autoprox.files.json_documents import JSONDocument
from autoprox.statistics.matrix_cache import DAY, expired_cache_files, trim_statistic_cache

ENDLESS = 2**62


class CacheFacts(JSONDocument):
    """The cache: its folder, its size and bounds in bytes and days, and its oldest use."""

    folder: str
    bytes: int
    files: int
    parts: dict[str, int]
    oldest: str | None
    limit: int
    age: int
    superfluous: int
    writable: bool


class ClearedCache(CacheFacts):
    """The cache, and the number of bytes that were removed."""

    removed: int


def cache_facts(folder: Path | None = None) -> CacheFacts:
    """Return the facts of the cache, by default the user's."""
    place = _place(folder)
    found, (limit, age), oldest = disk_usage(place), cache_bounds(), None
    if found.oldest is not None:
        oldest = datetime.fromtimestamp(found.oldest, timezone.utc).isoformat()
    return CacheFacts(
        folder=str(place),
        bytes=found.bytes,
        files=found.files,
        parts={
            path.name: disk_usage(path).bytes for path in sorted(place.glob("*")) if path.is_dir()
        },
        oldest=oldest,
        limit=limit,
        age=age,
        superfluous=sum(expired_cache_files(place / STATISTICS_FOLDER, limit, age).values()),
        writable=is_writable(place),
    )


def _place(folder: Path | None) -> Path:
    place = folder or user_cache_folder()
    require_folder("the cache", place)
    return place


def clear_cache(
    folder: Path | None = None, limit: int | None = None, age: int | None = None
) -> int:
    """Remove measurements, but no downloads, and return the number of bytes removed.

    With a limit or an age, only what is beyond one of them is removed.
    """
    place = _place(folder)
    before = disk_usage(place).bytes
    is_all = limit is None and age is None
    most, days = (0, 0) if is_all else (limit, age)
    trim_statistic_cache(
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
