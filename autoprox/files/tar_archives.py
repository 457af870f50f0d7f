"""Tar archives from elsewhere: the files of some folders, read without extraction."""

import gzip
import io
import tarfile
import zlib
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from autoprox.errors import AutoproxError, one_line

MAX_ARCHIVE_BYTES = 2**28  # uncompressed
MAX_MEMBERS = 100_000
MAX_FOLDER_BYTES = 2**24
TAR_ERRORS = (tarfile.TarError, EOFError, OSError, ValueError, OverflowError, zlib.error)


class ArchiveError(AutoproxError):
    """A tar archive that can't be read, or that breaks a rule."""


class _Limited(io.RawIOBase):
    """A stream that ends with an error after so many bytes."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        self.stream, self.left = stream, MAX_ARCHIVE_BYTES

    def read(self, size: int = -1) -> bytes:
        content = self.stream.read(min(size, 2**20) if size >= 0 else 2**20)
        self.left -= len(content)
        if self.left < 0:
            raise ArchiveError(f"must have at most {MAX_ARCHIVE_BYTES} bytes unpacked")
        return content


def read_folders(path: Path, folders: Collection[str], name: str) -> dict[str, dict[str, bytes]]:
    """Return the files of these folders of a .tar.gz, by folder and by path below it.

    The archive's first level, which has another name each time, is left out. No member may lead out
    of the archive, and those of the folders must be plain files; errors begin with the `name`.
    """
    found: dict[str, dict[str, bytes]] = {folder: {} for folder in folders}
    try:
        with gzip.open(path) as unpacked:
            limited = _Limited(unpacked)
            with tarfile.open(fileobj=limited, mode="r|", errors="strict") as archive:
                for count, member in enumerate(archive):
                    if count >= MAX_MEMBERS:
                        raise ArchiveError(f"must have at most {MAX_MEMBERS} members")
                    _take(archive, member, found)
            while limited.read(2**20):  # to the checksum of gzip
                pass
    except ArchiveError as error:
        raise ArchiveError(f"{name} {error}") from None
    except (*TAR_ERRORS, RecursionError) as error:
        rule = f"{name} must be a whole .tar.gz archive"
        raise ArchiveError(f"{rule}, but got: {one_line(error)[:200]}") from error
    return found


def _take(
    archive: tarfile.TarFile, member: tarfile.TarInfo, found: dict[str, dict[str, bytes]]
) -> None:
    path = PurePosixPath(member.name)
    shown = repr(member.name[:200])
    if path.is_absolute() or ".." in path.parts or "\\" in member.name or "\0" in member.name:
        raise ArchiveError(f"must have members inside it, but has {shown}")
    if not 0 <= member.size <= MAX_ARCHIVE_BYTES:  # which tarfile would try to skip for years
        rule = f"must have at most {MAX_ARCHIVE_BYTES} bytes unpacked"
        raise ArchiveError(f"{rule}, but {shown} has {member.size}")
    inside = PurePosixPath(*path.parts[1:])
    for folder, contents in found.items():
        if not inside.is_relative_to(folder):
            continue
        if member.isdir():
            return
        if not member.isreg() or str(inside) == folder:
            raise ArchiveError(f"must have plain files in {folder}, but {shown} is none")
        taken = sum(map(len, contents.values()))
        if member.size > MAX_FOLDER_BYTES - taken:
            rule = f"must have at most {MAX_FOLDER_BYTES} bytes in {folder}"
            raise ArchiveError(f"{rule}, but {shown} has {member.size}")
        below = str(inside.relative_to(folder))
        if below in contents:
            raise ArchiveError(f"must have each file once, but has {shown} twice")
        file = archive.extractfile(member)
        content = b"" if file is None else file.read()
        if len(content) != member.size:
            raise ArchiveError(f"must be whole, but {shown} ends early")
        contents[below] = content
        return
