"""Where what the program keeps lies on the user's disk, and how much it is."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import platformdirs

from autoprox.errors import ConfigError, FailureError
from autoprox.files.sizes import short


class RoomError(FailureError):
    """A disk that is too full for what is to be written."""


class Usage(NamedTuple):
    """Of a folder."""

    files: int
    bytes: int
    oldest: float | None  # when the file was used that wasn't for the longest time


def user_cache() -> Path:
    """Where downloads and measured statistics are kept."""
    return platformdirs.user_cache_path("autoprox", appauthor=False)


def usage(folder: Path) -> Usage:
    """How many files are below a folder, and their size; of none where there is no folder."""
    found = [path.stat() for path in folder.rglob("*") if path.is_file()]
    oldest = min((status.st_mtime for status in found), default=None)
    return Usage(len(found), sum(status.st_size for status in found), oldest)


def room_of(folder: Path) -> int:
    """How many bytes are free on a folder's disk."""
    return shutil.disk_usage(folder).free


def require_room(folder: Path, size: int) -> None:
    """Raise unless so many bytes more fit on the folder's disk."""
    if size > (free := room_of(folder)):
        raise RoomError(
            f"about {short(size)}B of statistics more must fit on the disk, but {folder} has "
            f"{short(free)}B free: make room, or choose another --cache, a smaller --batch-size or "
            "fewer --statistics"
        )


def require_folder(noun: str, path: Path) -> None:
    """Raise ConfigError unless this is a folder, or can be made one."""
    there = next(p for p in (path, *path.parents) if p.exists() or p.is_symlink())
    if not there.is_dir():
        raise ConfigError(f"{noun} must be a folder, but {there} is a file")


def make_writable(noun: str, option: str, folder: Path) -> None:
    """Make a folder, in which a file is then made on trial; FailureError if that can't be done."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        rule = f"{noun} must be a folder in which files can be made"
        reason = error.strerror or error
        raise FailureError(
            f"{rule}, but of {folder} the system says: {reason}; choose another {option}"
        ) from error


def is_writable(folder: Path) -> bool:
    """Whether files can be made in a folder, or in the first that exists above it."""
    there = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return there.is_dir() and os.access(there, os.W_OK | os.X_OK)
