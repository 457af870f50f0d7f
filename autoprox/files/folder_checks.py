"""Folders of the user's disk: the cache, the space that is used and free, and rights to write."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import platformdirs

from autoprox.errors import ConfigError, FailureError
from autoprox.files.human_readable_sizes import format_with_unit


class DiskFullError(FailureError):
    """A disk that is too full for what is to be written."""


class DiskUsage(NamedTuple):
    """The files of a folder; `oldest` is the time of the one that is unused for longest."""

    files: int
    bytes: int
    oldest: float | None


def user_cache_folder() -> Path:
    """Return the folder of downloads and measured statistics."""
    return platformdirs.user_cache_path("autoprox", appauthor=False)


def disk_usage(folder: Path) -> DiskUsage:
    """Return the usage by all files below a folder; zero if there is no folder."""
    found = [path.stat() for path in folder.rglob("*") if path.is_file()]
    oldest = min((status.st_mtime for status in found), default=None)
    return DiskUsage(len(found), sum(status.st_size for status in found), oldest)


def free_bytes(folder: Path) -> int:
    return shutil.disk_usage(folder).free


def require_free_bytes(folder: Path, size: int) -> None:
    """Raise DiskFullError unless this many bytes fit on the folder's disk."""
    if size > (free := free_bytes(folder)):
        raise DiskFullError(
            f"about {format_with_unit(size)}B of statistics more must fit on the disk, "
            f"but {folder} has {format_with_unit(free)}B free: make room, or choose another "
            "--cache, a smaller --batch-size or fewer --statistics"
        )


def require_folder(noun: str, path: Path) -> None:
    """Raise ConfigError unless this is a folder, or can be made one."""
    existing = next(p for p in (path, *path.parents) if p.exists() or p.is_symlink())
    if not existing.is_dir():
        raise ConfigError(f"{noun} must be a folder, but {existing} is a file")


def make_writable(noun: str, option: str, folder: Path) -> None:
    """Make a folder, and a file in it on trial; raise FailureError if that can't be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise FailureError(
            f"{noun} must be a folder in which files can be made, but of {folder} the system says: "
            f"{error.strerror or error}; choose another {option}"
        ) from error


def is_writable(folder: Path) -> bool:
    """Return whether files can be made in a folder, or in its nearest existing parent."""
    absolute = folder.absolute()
    existing = next(path for path in (absolute, *absolute.parents) if path.exists())
    return existing.is_dir() and os.access(existing, os.W_OK | os.X_OK)
